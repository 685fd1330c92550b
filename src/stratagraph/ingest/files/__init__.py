"""Readers of files: their text, its metadata, and where its sections begin.

kinds       the kind of a file, by its content and name, and the encoding of its text
reading     what a reader returns, and the limits of time and memory
office      DOCX, PPTX, ODT, EPUB
pdf         PDF
markup      HTML, Markdown, reStructuredText
rows        CSV, JSON, XLSX
mail        messages, mailboxes, notebooks
walk        the files below a path

Some readers need the extra `files`. Without it, such a file is skipped with a message that names the extra.
"""

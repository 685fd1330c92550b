"""Readers of files: their text, its metadata, and where its sections begin.

kinds       the kind of a file, by its content and name, and the encoding of its text
contents    what a file holds: its documents, and what is said about it
reading     what a reader returns, and its bounds
flow        words and borders of markup become blocks, rows and sections
html        HTML
office      DOCX, PPTX, ODT, EPUB
xml         the archives that hold them
markdown    Markdown, notebooks, reStructuredText
mail        messages and mailboxes
pdf         PDF
rows        CSV, XLSX, JSON: a record is a statement
walk        the files below a path

Some readers need the extra `files`. Without it, such a file is skipped with a message that names the extra.
"""

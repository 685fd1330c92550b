"""Files of other kinds than plain text, as text with what is known of its parts.

kinds       what a file is, by what is in it, and how its text is encoded
made        what a reader returns, and how much it may take
office      PDF, DOCX, PPTX, XLSX, ODT, EPUB
markup      HTML, Markdown, reStructuredText
rows        CSV, JSON, messages, mailboxes, notebooks
walk        the files below a path

What a reader needs beyond the base is in the extra `files`; without it such a file is left out, and said so.
"""

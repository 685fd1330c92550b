"""Files of other kinds than plain text, as text with what is known of its parts.

kinds       what a file is, by what is in it
office      PDF, DOCX, PPTX, XLSX
books       ODT, EPUB
markup      HTML, Markdown, reStructuredText
rows        CSV and JSON
mail        messages, mailboxes, notebooks
walk        the files below a path

What a reader needs beyond the base is in the extra `files`; without it such a file is left out, and said so.
"""

from __future__ import annotations

from stratagraph.ingest.files.books import from_epub, from_odt
from stratagraph.ingest.files.kinds import Kind, kind_of
from stratagraph.ingest.files.made import Binary, Made, Unreadable
from stratagraph.ingest.files.mail import from_mail, from_notebook, mailbox_rows
from stratagraph.ingest.files.markup import from_html, from_markdown, from_rst
from stratagraph.ingest.files.office import from_docx, from_pdf, from_pptx, from_xlsx
from stratagraph.ingest.files.rows import bounded_lines, csv_rows, json_rows

__all__ = [
    "READERS",
    "Binary",
    "Kind",
    "Made",
    "Unreadable",
    "bounded_lines",
    "csv_rows",
    "from_html",
    "from_markdown",
    "from_rst",
    "json_rows",
    "kind_of",
    "mailbox_rows",
]

READERS = {
    "PDF": from_pdf,
    "DOCX": from_docx,
    "PPTX": from_pptx,
    "XLSX": from_xlsx,
    "ODT": from_odt,
    "EPUB": from_epub,
    "mail": from_mail,
    "notebook": from_notebook,
}
"""Readers of a path, by kind."""

"""PDF by PDFium: the text of each page, with the page's number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.made import INSTALL, PAGES, Made, Unreadable, Writer

_lock = threading.Lock()  # PDFium is not thread-safe


def from_pdf(path: Path) -> Made:
    """The pages of a PDF, each a section with its number as `page`.

    Raises
    ------
    Unreadable
        If it is encrypted, damaged, or holds no text (a scan).
    """
    try:
        import pypdfium2
    except ImportError:
        raise Unreadable(f"PDF; {INSTALL}") from None
    writer = Writer()
    with _lock:
        try:
            document = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            locked = "password" in str(error).lower()
            reason = "encrypted; save it without a password" if locked else f"damaged ({error})"
            raise Unreadable(f"PDF, {reason}") from None
        with closing(document):
            count = len(document)
            if count > PAGES:
                raise Unreadable(f"PDF of {count:,} pages; at most {PAGES:,} are read")
            for number, text in enumerate(_pages(document), 1):
                writer.section({"page": number})
                writer.add(text)
            title = document.get_metadata_dict().get("Title", "").strip()
    made = writer.made({"title": title, "pages": count})
    if not made.text:
        raise Unreadable(f"PDF of {count} pages without any text, such as scans; it needs OCR first")
    return made


def _pages(document: Any) -> Iterator[str]:
    for index in range(len(document)):
        with closing(document[index]) as page, closing(page.get_textpage()) as text:
            yield text.get_text_bounded().replace("\r\n", "\n").replace("\ufffe", "").replace("\0", "")

"""PDF: the text of its pages, by PDFium."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

from stratagraph.ingest.files.reading import INSTALL, PAGES, FileText, Unreadable, Writer

_lock = threading.Lock()  # PDFium is not thread-safe


def from_pdf(path: Path) -> FileText:
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
            for number in range(1, count + 1):
                writer.section({"page": number})
                with closing(document[number - 1]) as page, closing(page.get_textpage()) as text:
                    page_text = text.get_text_bounded().replace("\r\n", "\n")
                writer.add(page_text.replace("\ufffe", "").replace("\0", ""))
            title = document.get_metadata_dict().get("Title", "").strip()
    pdf = writer.file_text({"title": title, "pages": count})
    if not pdf.text:
        raise Unreadable(f"PDF of {count} pages without any text, such as scans; it needs OCR first")
    return pdf

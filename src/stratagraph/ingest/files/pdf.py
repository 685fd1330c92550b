"""PDF: the text of its pages, by PDFium."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from stratagraph.ingest.files.reading import PAGES, FileText, Unreadable, Writer

_CUT = re.compile(r"(\w[\w'’]*)(?:[\x02\ufffe\xad]\s*|[-\u2010]\n)(?=(\w+))")
"""A word that a line's end cuts: PDFium marks most hyphens there as U+0002, and leaves others."""
_COMPOUND = re.compile(
    r"(?:well|self|half|non|ex|all|cross|high|low|long|short|left|right|so|two|three|four|five|six|seven|eight|"
    r"nine|ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|first|second|third|mid|north|south|east|"
    r"west|one|old|new|hand|full|large|small|wide|open|far|[A-Z]|.*\d)",
    re.IGNORECASE,
)
"""First parts of compounds, which keep their hyphen."""


def from_pdf(path: Path) -> FileText:
    """The pages of a PDF, each a section with its number as `page`; a damaged page is left out.

    `Unreadable` if it is encrypted, damaged, or holds no text (a scan).
    """
    import pypdfium2

    writer = Writer()
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
        damaged = []
        for number in range(1, count + 1):
            try:
                with closing(document[number - 1]) as page, closing(page.get_textpage()) as layer:
                    text = layer.get_text_bounded()
            except pypdfium2.PdfiumError:
                damaged.append(number)
                continue
            writer.section({"page": number})
            writer.add(_joined(text))
        if damaged:
            shown = ", ".join(map(str, damaged[:10])) + (", ..." if len(damaged) > 10 else "")
            writer.note(f"damaged pages are left out: {shown} of {count}")
        properties = document.get_metadata_dict()
    metadata = {key: properties.get(key.title(), "").strip() for key in ("title", "author")}
    stated = re.match(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?", properties.get("CreationDate", ""))
    metadata["date"] = "-".join(filter(None, stated.groups())) if stated else ""
    pdf = writer.file_text({**metadata, "pages": count})
    if not pdf.text:
        if damaged:
            raise Unreadable(f"PDF, damaged: none of its {count} pages can be read")
        pages = "1 page" if count == 1 else f"{count} pages"
        raise Unreadable(f"PDF of {pages} without any text, such as scans; it needs OCR first")
    return pdf


def _joined(text: str) -> str:
    """The text of a page with the words joined that ends of lines cut. Compounds keep their hyphen."""
    text = text.replace("\r\n", "\n")
    own = {word.lower() for word in re.findall(r"\w+(?:-\w+)+", text)}

    def whole(cut: re.Match[str]) -> str:
        before, after = cut[1], cut[2]
        is_compound = _COMPOUND.fullmatch(before) or after[0].isupper() or after[0].isdigit()
        return f"{before}-" if is_compound or f"{before}-{after}".lower() in own else before

    return _CUT.sub(whole, text).replace("\xad", "").replace("\ufffe", "")

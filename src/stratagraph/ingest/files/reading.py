"""What a reader of files returns and raises, and its limits of time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from stratagraph.types.records import Section

INSTALL = "reading it needs pip install 'stratagraph[files]'"
LARGEST = 2**29
"""Bytes that an archive may unpack to, and characters that a file may hold."""
MARKUP = 2**27
"""Bytes of XML that an archive may unpack to; parsers need several times as much memory."""
ENTRY = 2**26
"""Bytes that a file in an archive may have if it is read at once."""
ENTRIES = 10_000
"""Files that an archive may hold."""
PAGES = 20_000
"""Pages that a PDF may have."""
CELLS = 5_000_000
"""Cells of a workbook: rows x columns, empty ones included."""
COLUMNS = 20_000
"""Columns of a CSV table."""
LINE = 8 * 2**20
"""Characters that a line of CSV or JSON may have."""
TAGS = 2_000_000
"""Tags of an HTML page, and elements of the XML of an archive."""
SECTIONS = 100_000
"""Sections of a file, such as pages or headings."""
DEPTH = 500
"""How deep elements of HTML or XML may be nested."""


class Unreadable(Exception):
    """A file that is left out; the message is the reason."""


class Binary(Unreadable):
    """A file that is no text by its nature, such as a picture."""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, its metadata, its sections, and what of it was left out (`notes`)."""

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()


class Writer:
    """Joins blocks with a blank line between them, and records where sections begin."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0
        self._sections: list[Section] = []
        self._notes: dict[str, None] = {}

    def section(self, metadata: Mapping[str, Any]) -> None:
        """Begin a section with this metadata."""
        if self._sections and self._sections[-1].start == self._length:
            self._sections.pop()
        if len(self._sections) >= SECTIONS:
            raise Unreadable(f"more than {SECTIONS:,} pages or headings")
        self._sections.append(Section(self._length, dict(metadata)))

    def add(self, block: str) -> None:
        """Add a block of text, unless it is blank."""
        if not block.strip():
            return
        if self._length > LARGEST:
            raise Unreadable(f"more than {LARGEST:,} characters")
        self._blocks.append(block.strip("\n") + "\n\n")
        self._length += len(self._blocks[-1])

    def note(self, fault: str) -> None:
        """Say what is left out, such as a damaged page; the user is told."""
        self._notes[fault] = None

    def file_text(self, metadata: Mapping[str, Any]) -> FileText:
        """The file's text with its sections and this metadata."""
        stated = {key: value for key, value in metadata.items() if value not in (None, "", [])}
        return FileText("".join(self._blocks).rstrip("\n"), stated, tuple(self._sections), tuple(self._notes))


class Headings:
    """The headings above a place, by level."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> dict[str, Any]:
        """Metadata of the section that a heading begins."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, " ".join(title.split())))
        return {"headings": [title for _, title in self._open]}


def reading(kind: str) -> Callable[[Callable[[Path], FileText]], Callable[[Path], FileText]]:
    """Turn a missing library and any error of a parser into `Unreadable`."""

    def decorated(read: Callable[[Path], FileText]) -> Callable[[Path], FileText]:
        @wraps(read)
        def guarded(path: Path) -> FileText:
            try:
                document = read(path)
            except ImportError:
                raise Unreadable(f"{kind}; {INSTALL}") from None
            except (Unreadable, MemoryError):
                raise
            except Exception as error:
                raise Unreadable(f"{kind}, damaged ({type(error).__name__}: {error})") from error
            if not document.text:
                raise Unreadable(f"{kind} without any text")
            return document

        return guarded

    return decorated

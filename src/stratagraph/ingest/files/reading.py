"""What a reader of files returns and raises, and its limits of time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stratagraph.types.records import Section

LARGEST = 2**29  # bytes that an archive may unpack to, and characters that a file may hold
MARKUP = 2**27  # bytes of XML that an archive may unpack to; parsers need several times as much memory
ENTRY = 2**26  # bytes of a file in an archive, a message or a notebook, which are read at once
ENTRIES = 10_000  # files of an archive
PAGES = 20_000  # pages of a PDF
CELLS = 5_000_000  # cells of a workbook: rows x columns, empty ones included
COLUMNS = 20_000  # columns of a CSV table
LINE = 8 * 2**20  # characters of a line of CSV or JSON
TAGS = 2_000_000  # tags of an HTML page, and elements of the XML of an archive
SECTIONS = 100_000  # sections of a file, such as pages or headings
DEPTH = 500  # how deep elements of XML may be nested


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

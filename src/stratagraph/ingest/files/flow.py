"""Puts the words of markup into blocks, whatever the markup is.

Inline text joins, blocks and breaks divide, and a row of a table is one line whose cells are parted by ` | `.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from stratagraph.ingest.files.reading import Headings, Writer

BREAK = "\v"
"""A line break within a block. Other blank space is no break, but for preformatted text."""
_DEEPEST = 40  # tables, cells, notes and text boxes inside of each other; deeper tables divide nothing
_ROW = 20_000  # characters of a row; what is longer is a layout of a page
_LAYOUT = 600  # characters of a row with several paragraphs in a cell
_OPERAND = re.compile(r"[-+\u2212\u00b1]?(?:\w|[.,](?=\d))+|.|")


class _Block(NamedTuple):
    text: str
    level: int = 0  # of a heading


@dataclass(slots=True)
class _Frame:
    """The page, or a table, cell, note or text box in it that is not over yet."""

    kind: str
    columns: int = 1  # that a cell covers, and rows
    rows: int = 1
    level: int = 0
    parts: list[str] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    beside: list[_Block] = field(default_factory=list)
    cells: list[_Frame] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # rows that follow each other
    covered: dict[int, int] = field(default_factory=dict)  # rows to come that a cell above covers, by column


class Flow:
    """Receives text and borders in the order of a document, and writes blocks."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._headings = Headings()
        self._frames = [_Frame("page")]
        self._preformatted = self._deeper = 0

    def text(self, text: str) -> None:
        """Add text to the current block."""
        self._frames[-1].parts.append(text)

    def heading(self, level: int) -> None:
        """Make the next block a heading, or no heading by level 0."""
        self._frames[-1].level = level

    def span(self, columns: int, rows: int = 1) -> None:
        """Say how many columns and rows the current cell covers."""
        self._frames[-1].columns, self._frames[-1].rows = columns, rows

    def begin(self, kind: str) -> None:
        """Begin a "block", "pre", "table", "row", "cell", or a "note" in a block, or what is "beside" it."""
        if kind not in ("beside", "note"):
            self.block()
        if kind in ("cell", "row"):
            self._end_cell()
        if kind == "row":
            self._end_row()
        self._preformatted += kind == "pre"
        if kind in ("table", "beside", "note") and len(self._frames) > _DEEPEST:
            self._deeper += 1
        elif kind in ("table", "beside", "note") or (kind == "cell" and self._frames[-1].kind == "table"):
            self._frames.append(_Frame(kind))

    def end(self, kind: str) -> str:
        """End what was begun, if it is open. The text of a note is returned as a line."""
        self.block()
        if kind in ("cell", "row", "table"):
            self._end_cell()
        if kind == "row":
            self._end_row()
        if kind == "pre" and self._preformatted:
            self._preformatted -= 1
        if kind not in ("table", "beside", "note"):
            return ""
        if self._deeper:
            self._deeper -= 1
        elif self._frames[-1].kind == kind:
            self._end_row()
            self._put([])
            blocks = self._frames.pop().blocks
            if kind == "note":
                return " ".join(" ".join(block.text.split()) for block in blocks)
            if kind == "beside":
                self._frames[-1].beside += blocks
            else:
                self._put(blocks)
        return ""

    def finish(self) -> None:
        """End whatever is open."""
        self._deeper = 0
        while len(self._frames) > 1:
            self.end(self._frames[-1].kind)
        self.block()

    def block(self) -> None:
        """End the current block, if one has begun. What stands beside it follows."""
        frame = self._frames[-1]
        if not frame.parts and not frame.beside:
            return
        text = "".join(frame.parts).replace("\xad", "")
        if self._preformatted:
            text = text.replace(BREAK, "\n").strip("\n")
        else:
            text = BREAK.join(" ".join(line.split()) for line in text.split(BREAK)).strip(BREAK)
        blocks, frame.beside = frame.beside, []
        frame.parts.clear()
        if text.strip():
            blocks, frame.level = [_Block(text, frame.level), *blocks], 0
        self._put(blocks)

    def _put(self, blocks: list[_Block]) -> None:
        frame = self._frames[-1]
        if frame.lines:
            frame.blocks.append(_Block("\n".join(frame.lines)))
            frame.lines.clear()
        if frame.kind != "page":
            frame.blocks += blocks
            return
        for block in blocks:
            if block.level:
                self._writer.section(self._headings.enter(block.level, block.text))
            self._writer.add(block.text.replace(BREAK, "\n"))

    def _end_cell(self) -> None:
        if self._frames[-1].kind == "cell":
            cell = self._frames.pop()
            self._frames[-1].cells.append(cell)

    def _end_row(self) -> None:
        """Make the cells a line, or the parts of a page that a table lays out."""
        table = self._frames[-1]
        cells, table.cells = table.cells, []
        blocks = [block for cell in cells for block in cell.blocks]
        most = _LAYOUT if any(len(cell.blocks) > 1 for cell in cells) else _ROW
        if any(b.level or "\n" in b.text for b in blocks) or sum(len(b.text) for b in blocks) > most:
            self._put(blocks)
            return
        texts: list[str] = []
        for cell in cells:
            while rows := table.covered.pop(len(texts), 0):
                table.covered[len(texts)] = rows - 1
                texts.append("")
            columns = range(len(texts), len(texts) + cell.columns)
            table.covered |= dict.fromkeys(columns if cell.rows > 1 else (), cell.rows - 1)
            text = " ".join(" ".join(block.text.split()) for block in cell.blocks)
            texts += [text, *[""] * (cell.columns - 1)]
        while texts and not texts[-1]:
            texts.pop()
        if texts:
            table.lines.append(" | ".join(texts).strip())


_FORMS = {
    **dict.fromkeys(("f", "mfrac"), "{0}/{1}"),
    **dict.fromkeys(("sSup", "msup", "limUpp"), "{0}^{1}"),
    **dict.fromkeys(("sSub", "msub", "munder", "limLow"), "{0}_{1}"),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), "{0}_{1}^{2}"),
    "nary": "{0}_{1}^{2} {3}",
    "rad": "{0}√{1}",
    "mroot": "{1}√{0}",
    "msqrt": "√{0}",
}
_JOINED = {"mr": ", ", "mtr": ", ", "mfenced": ", ", "m": "; ", "mtable": "; ", "eqArr": "; "}


class Equation:
    """An equation in MathML or Office's markup, which becomes a line such as `(a+b)/2` or `10^-6`."""

    def __init__(self) -> None:
        self.text = ""
        self._open: list[tuple[str, list[str]]] = []

    def begin(self, name: str, sign: str = "") -> None:
        """Begin an element, which may state a `sign` of its own."""
        if len(self._open) < _DEEPEST:
            self._open.append((name, [sign] if sign else []))

    def add(self, text: str) -> None:
        """Add text to the current element."""
        if self._open and text.strip():
            self._open[-1][1].append(text.strip())

    def end(self, name: str) -> bool:
        """End an element, if it is open, and say whether the equation is over."""
        while any(each == name for each, _ in self._open):
            own, values = self._open.pop()
            form = _FORMS.get(own, "")
            if form and len(values) == form.count("{"):
                text = form.format(*(each if _OPERAND.fullmatch(each) else f"({each})" for each in values))
            else:
                text = _JOINED.get(own, "").join(values)
            if own in ("d", "mfenced"):
                text = f"({text})"
            elif own == "naryPr":
                text = text or "∫"
            elif own.endswith("Pr"):
                continue
            if self._open:
                self._open[-1][1].append(text)
            else:
                self.text = text
            if own == name:
                break
        return not self._open

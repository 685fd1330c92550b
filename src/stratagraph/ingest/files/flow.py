"""Puts the words of markup into blocks, whatever the markup is.

Inline text joins, blocks and breaks divide, and a row of a table is one line whose cells are parted by ` | `.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from stratagraph.ingest.files.reading import Headings, Writer

BREAK = "\v"
"""A line break within a block. Other blank space is no break, but for preformatted text."""
_DEEPEST = 200  # tables, cells and asides inside of each other; deeper ones divide nothing
_ROW_WORDS = 100  # a row with more, in several paragraphs of a cell, is a layout of a page
_ROW_LENGTH = 20_000  # characters of a row
_REPEATED = 200  # characters of a merged cell that stand in every row which it covers
_MOST_REPEATED = 2**20  # characters that the merged cells of a table add
_OPERAND = re.compile(r"[-+\u2212\u00b1]?(?:\w|[.,](?=\d))+|.|")


class _Block(NamedTuple):
    text: str
    level: int = 0  # of a heading
    has_lines: bool = False  # preformatted, or several rows
    is_row: bool = False


@dataclass(slots=True)
class _Frame:
    """The page, or a table, cell or aside in it that is not over yet."""

    kind: str
    columns: int = 1  # that a cell covers, and rows
    rows: int = 1
    is_merged: bool = False  # with the cell above
    level: int = 0
    parts: list[str] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    beside: list[_Block] = field(default_factory=list)
    cells: list[_Frame] = field(default_factory=list)
    above: dict[int, tuple[int, str, int]] = field(default_factory=dict)  # column: rows left, text, columns
    has_rows: bool = False
    repeated: int = 0


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

    def raise_digits(self) -> None:
        """Mark what follows as superscript, where it would otherwise change the number before it."""
        parts = self._frames[-1].parts
        if parts and parts[-1][-1:].isdigit():
            parts.append("^")

    def heading(self, level: int) -> None:
        """Make the next block a heading, or no heading by level 0."""
        self._frames[-1].level = level

    def cell(self, columns: int = 0, rows: int = 0, *, is_merged: bool = False) -> None:
        """Say what the current cell covers, and whether the one above reaches into it."""
        frame = self._frames[-1]
        frame.columns, frame.rows = columns or frame.columns, rows or frame.rows
        frame.is_merged |= is_merged

    def begin(self, kind: str) -> None:
        """Begin a "block", "pre", "table", "row", "cell", or a "note" in a block, or what is "beside" it."""
        if kind not in ("beside", "note"):
            self.block()
        if kind == "pre":
            self._preformatted += 1
        elif kind in ("table", "cell", "beside", "note"):
            if len(self._frames) > _DEEPEST:
                self._deeper += 1
            else:
                self._frames.append(_Frame(kind))

    def end(self, kind: str, *, inline: bool = False) -> str:
        """End what was begun last. What is not beside its block, but in it, is returned as a line."""
        self.block()
        if kind == "pre":
            self._preformatted -= 1
        elif kind == "row":
            self._end_row()
        elif kind in ("table", "cell", "beside", "note") and self._deeper:
            self._deeper -= 1
        elif kind in ("table", "cell", "beside", "note"):
            if kind == "table":
                self._end_row()
            frame = self._frames.pop()
            if inline:
                return " ".join(" ".join(block.text.split()) for block in frame.blocks)
            if kind == "beside":
                self._frames[-1].beside += frame.blocks
            elif kind == "cell" and self._frames[-1].kind == "table":
                self._frames[-1].cells.append(frame)
            else:
                self._put(_with_whole_tables(frame.blocks) if frame.has_rows else frame.blocks)
        return ""

    def block(self) -> None:
        """End the current block, if one has begun. What stands beside it follows."""
        frame = self._frames[-1]
        if frame.parts:
            text = "".join(frame.parts).replace("\xad", "")
            frame.parts.clear()
            if self._preformatted:
                text = text.replace(BREAK, "\n").strip("\n")
            else:
                text = "\n".join(" ".join(line.split()) for line in text.split(BREAK)).strip("\n")
            if text.strip():
                level, frame.level = frame.level, 0
                self._put([_Block(text, level, bool(self._preformatted) and "\n" in text)])
        if frame.beside:
            beside, frame.beside = frame.beside, []
            self._put(beside)

    def _put(self, blocks: list[_Block]) -> None:
        if len(self._frames) > 1:
            self._frames[-1].blocks += blocks
            return
        for block in blocks:
            if block.level:
                self._writer.section(self._headings.enter(block.level, block.text))
            self._writer.add(block.text)

    def _end_row(self) -> None:
        """Make the cells a line, or the parts of a page that a table lays out."""
        table = self._frames[-1]
        cells, table.cells = table.cells, []
        if not cells:
            return
        is_layout = _is_layout([cell.blocks for cell in cells if cell.blocks])
        texts: list[str] = []
        column = 0

        def repeat(text: str) -> None:
            table.repeated += len(text)
            texts.append(text if table.repeated <= _MOST_REPEATED else "")

        for cell in [*cells, None]:
            while column in table.above and table.above[column][0]:  # a cell of a row above reaches here
                rows, text, columns = table.above[column]
                table.above[column] = rows - 1, text, columns
                repeat(text)
                column += columns
            if cell is None:
                break
            if not cell.is_merged:
                texts.append("" if is_layout else " ".join(" ".join(b.text.split()) for b in cell.blocks))
                text = texts[-1] if len(texts[-1]) <= _REPEATED else ""
                table.above[column] = cell.rows - 1, text, cell.columns
            elif column in table.above:
                repeat(table.above[column][1])
            column += cell.columns
        while texts and not texts[-1]:
            texts.pop()
        if is_layout:
            for cell in cells:
                table.blocks += cell.blocks
            return
        table.has_rows = True
        if len(cells) == len(texts) == len(cells[0].blocks) == 1:
            table.blocks.append(cells[0].blocks[0]._replace(is_row=True))
        elif texts:
            table.blocks.append(_Block(" | ".join(texts), is_row=True))


def _with_whole_tables(blocks: list[_Block]) -> list[_Block]:
    """Blocks with rows that follow each other as one."""
    whole: list[_Block] = []
    for is_row, group in groupby(blocks, lambda block: block.is_row):
        own = list(group)
        whole += [_Block("\n".join(row.text for row in own), has_lines=len(own) > 1)] if is_row else own
    return whole


def _is_layout(cells: list[list[_Block]]) -> bool:
    """Whether a row holds parts of a page, and not the cells of a table."""
    if sum(map(len, cells)) > _ROW_WORDS:
        return True
    blocks = [block for cell in cells for block in cell]
    if any(block.has_lines for block in blocks) or sum(len(block.text) for block in blocks) > _ROW_LENGTH:
        return True
    if not any(len(cell) > 1 for cell in cells):
        return len(cells) == 1 and blocks[0].level > 0
    if len(cells) == 1 or any(block.level for cell in cells if len(cell) > 1 for block in cell):
        return True
    return sum(len(block.text.split()) for block in blocks) > _ROW_WORDS


_FORMS = {
    **dict.fromkeys(("f", "mfrac"), "{0}/{1}"),
    **dict.fromkeys(("sSup", "msup", "limUpp"), "{0}^{1}"),
    **dict.fromkeys(("sSub", "msub", "munder", "limLow"), "{0}_{1}"),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), "{0}_{1}^{2}"),
    "sPre": "_{0}^{1}{2}",
    "rad": "{0}√{1}",
    "mroot": "{1}√{0}",
    "func": "{0} {1}",
}
_JOINED = {"mr": ", ", "mtr": ", ", "m": "; ", "mtable": "; ", "eqArr": "; "}
_SILENT = ("annotation", "annotation-xml", "del", "instrText", "moveFrom", "mphantom", "phant")


@dataclass(slots=True)
class Term:
    """A part of an equation in MathML or Office's markup. Its text is a line such as `(a+b)/2` or `10^-6`."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    parts: list[Term | str] = field(default_factory=list)

    def __str__(self) -> str:
        terms = [part for part in self.parts if isinstance(part, Term)]
        own = [each for term in terms if term.name.endswith("Pr") for each in term.parts]
        stated = {each.name: each.attributes.get("val", "") for each in own if isinstance(each, Term)}
        values = [str(each) for each in terms if not each.name.endswith("Pr")]
        form = _FORMS.get(self.name, "")
        if self.name in _SILENT:
            return ""
        if form and len(values) == form.count("{"):
            return form.format(*map(_operand, values))
        if self.name in _JOINED:
            return _JOINED[self.name].join(values)
        if self.name == "nary" and len(values) == 3:
            bounds = "".join(f"{sign}{_operand(own)}" for sign, own in zip("_^", values, strict=False) if own)
            return f"{stated.get('chr') or chr(0x222B)}{bounds} {values[2]}"
        if self.name in ("d", "mfenced"):
            marks = {"begChr": "(", "endChr": ")", "open": "(", "close": ")"} | stated | self.attributes
            start, end = ("open", "close") if self.name == "mfenced" else ("begChr", "endChr")
            return f"{marks[start]}{', '.join(values)}{marks[end]}"
        text = "".join(str(each) for each in self.parts if isinstance(each, str) or each.name[-2:] != "Pr")
        return f"√{_operand(text)}" if self.name == "msqrt" else text + stated.get("chr", "")


def _operand(value: str) -> str:
    value = value.strip()
    return value if _OPERAND.fullmatch(value) else f"({value})"

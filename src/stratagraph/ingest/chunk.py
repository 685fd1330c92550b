"""Documents into chunks: windows of whole statements, bounded in tokens, with overlap and exact offsets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from stratagraph.text.sentences import middle, recut, sentences
from stratagraph.text.statements import Statement, divided, statements
from stratagraph.types.records import Chunk, Document, Metadata, Section, StreamedDocument

CountTokens = Callable[[str], int]

_BLANK = re.compile(r"\s*")
_BORDER = re.compile(r"\s+(?=\S)|[\uff0c\u3001\uff1b\uff1a\u060c\u061b](?=\S)")


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """How documents are split.

    Parameters
    ----------
    size
        Upper bound of a chunk, in tokens. The LSH tree's paper prefers 600 to 800. On lihua_world, 1,000
        tokens of the tree's results hold .437 of the answers with 200, .449 with 400 and .420 with 800
        (`cookbook/benchmarks/chunk_size.py`).
    overlap
        What a chunk repeats of the one before, at most, in tokens; less than `size`.
    """

    size: int = 300
    overlap: int = 50

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("overlap", self.overlap)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be a whole number of tokens, not {value!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1 token, not {self.size}")
        if not 0 <= self.overlap < self.size:
            raise ValueError(
                f"overlap must be at least 0 and less than size ({self.size} tokens), not {self.overlap}"
            )


class _ChunkUnit(NamedTuple):
    """A statement, or a piece of one that is longer than a chunk, with the blank space after it.

    `above` are lines that a chunk repeats if it begins here, with a line break, and `lead` their tokens.
    """

    start: int
    text: str
    tokens: int
    paragraph: bool
    record: bool = False
    above: str = ""
    lead: int = 0


def split(document: Document | StreamedDocument, config: ChunkConfig, count: CountTokens) -> Iterator[Chunk]:
    """The chunks of a document, in order; none for a blank one.

    A chunk holds whole statements (`text.statements`) and ends with a paragraph where one ends in its last
    third. A sentence longer than `config.size` is cut at clauses, else between words, else inside a word; a
    record is cut between its fields. A chunk that begins inside of a table, a record or a list repeats the
    header row, the first field or the line that leads to the list. The overlap is whole statements, or the
    last words of a sentence that is too long for it. The document is read once, block by block, with at most
    a few chunks and 128 Ki characters in memory.

    Parameters
    ----------
    document
        A document, in memory or streamed; how it is divided into blocks does not matter.
    config
        Size and overlap.
    count
        Counts tokens. A chunk's size is the sum over its statements.

    Yields
    ------
    Chunks without an id, such that `text` is `document.text[start:end]` after the repeated lines
    (`Chunk.repeated`), without blank space at either end. A lone surrogate, which cannot be stored, becomes
    U+FFFD.
    """
    units = _units(document.blocks(), config.size, count)
    for ordinal, window in enumerate(_windows(units, config, count)):
        text = "".join(unit.text for unit in window)
        body = text.strip()
        start = window[0].start + len(text) - len(text.lstrip())
        sections = document.sections if isinstance(document, Document) else ()
        above = window[0].above
        metadata = _metadata(document.metadata, sections, start, start + len(body), len(above))
        yield Chunk(above + body, document.id, ordinal, start, start + len(body), metadata)


def _metadata(own: Metadata, sections: Sequence[Section], start: int, end: int, above: int) -> Metadata:
    """The metadata of a stretch of a document: that of its middle, and of all sections if it has several.

    `above`: characters that stand before the stretch in its chunk.
    """
    first, middle, last = (
        bisect_right(sections, place, key=lambda section: section.start) - 1
        for place in (start, (start + end) // 2, end - 1)
    )
    if last < 0:
        return own
    metadata = {**own, **(sections[middle].metadata if middle >= 0 else {})}
    if first < last:
        reached = sections[max(first, 0) : last + 1]
        metadata["sections"] = [
            [above + each.start - start if each.start > start else 0, dict(each.metadata)] for each in reached
        ]
    return metadata


def _windows(
    units: Iterable[_ChunkUnit], config: ChunkConfig, count: CountTokens
) -> Iterator[list[_ChunkUnit]]:
    window: list[_ChunkUnit] = []
    total = 0
    repeated = 0  # units at the front that the window before has too
    for unit in units:
        if not unit.text.strip():  # a long blank stretch: nothing reaches across
            if len(window) > repeated:
                yield window
            window, total, repeated = [], 0, 0
            continue
        while window and total + unit.tokens > config.size:
            if repeated == len(window):  # the overlap gives way to what is new
                window.pop(0)
                repeated -= 1
            else:
                end = _cut(window, total, repeated)
                done, rest = window[:end], window[end:]
                yield done
                room = config.size - sum(each.tokens for each in rest)
                overlap = _overlap(done, min(config.overlap, room), count)
                window, repeated = overlap + rest, len(overlap)
            total = sum(each.tokens for each in window) + (window[0].lead if window else 0)
        total += unit.tokens if window else unit.tokens + unit.lead
        window.append(unit)
    if len(window) > repeated:
        yield window


def _units(blocks: Iterable[str], size: int, count: CountTokens) -> Iterator[_ChunkUnit]:
    for start, text, record, heads, paragraph in stream_statements(blocks):
        tokens = count(text)
        above = "".join(f"{head}\n" for head in heads)
        lead = count(above) if above and above not in text else 0
        if not 0 < lead <= size // 2:  # the unit has it, or it would fill the chunk
            above, lead = "", 0
        unit = _ChunkUnit(start, text, tokens, paragraph, record, above, lead)
        if tokens + lead <= size:
            yield unit
        elif not record:
            # Pieces of a quarter: small enough to fill windows well.
            yield from _pieces(unit, max(1, size // 4), count)
        else:
            yield from _parts(unit, size, count)


class ReadStatement(NamedTuple):
    """A statement of a text that is read in pieces, with what stands between it and the one before."""

    start: int
    text: str
    record: bool
    heads: tuple[str, ...]
    paragraph: bool
    """Whether a blank line follows, or the text ends."""


def stream_statements(blocks: Iterable[str]) -> Iterator[ReadStatement]:
    """The statements of a text that arrives in blocks of any size; joined, they are the text.

    Holds about 128 Ki characters. A longer text is divided there after a paragraph, a line or a sentence, and
    a sentence of that length at a clause or a word.
    """
    buffer, base, header = "", 0, ""
    for piece, last in recut(blocks):
        buffer += piece
        end, half = len(buffer), len(buffer) // 2
        if not last:  # the rest is not known: after a paragraph, a line, a sentence, or anywhere
            paragraph_end, line_end = buffer.rfind("\n\n", half) + 2, buffer.rfind("\n", half) + 1
            ends = (stop for _, stop in reversed(list(sentences(buffer))) if stop < end)
            end = paragraph_end if paragraph_end > 1 else line_end or next(ends, 0) or middle(buffer)
        found = statements(buffer[:end], header=header) or [Statement(0, end)]
        at = 0
        for each in found:
            after = _BLANK.match(buffer, each.end)
            border = end if each is found[-1] or after is None else after.end()
            paragraph = border == len(buffer) or buffer.count("\n", each.end, border) > 1
            yield ReadStatement(base + at, buffer[at:border], each.record, each.heads, paragraph)
            at = border
        header = "" if paragraph or not found[-1].heads else found[-1].heads[0]
        buffer, base = buffer[end:], base + end


def _parts(unit: _ChunkUnit, size: int, count: CountTokens) -> Iterator[_ChunkUnit]:
    """A record that is longer than a chunk, divided between its fields."""
    words = len(unit.text.split()) * size // (2 * unit.tokens)
    parts = divided(unit.text, words)
    borders = [0, *(part.start for part in parts[1:]), len(unit.text)]
    for part, (begin, end) in zip(parts, pairwise(borders), strict=True):
        text = unit.text[begin:end]
        above = unit.above + "".join(f"{head}\n" for head in part.heads)
        lead = count(above)
        if not 0 < lead <= size // 2:
            above, lead = "", 0
        own = _ChunkUnit(
            unit.start + begin, text, count(text), unit.paragraph and end == borders[-1], True, above, lead
        )
        yield from [own] if own.tokens + lead <= size else _pieces(own, max(1, (size - lead) // 4), count)


def _pieces(unit: _ChunkUnit, size: int, count: CountTokens) -> Iterator[_ChunkUnit]:
    if unit.tokens <= size or len(unit.text) < 2:
        yield unit
        return
    cut = middle(unit.text)
    left, right = unit.text[:cut], unit.text[cut:]
    yield from _pieces(unit._replace(text=left, tokens=count(left), paragraph=False), size, count)
    yield from _pieces(unit._replace(start=unit.start + cut, text=right, tokens=count(right)), size, count)


def _cut(window: Sequence[_ChunkUnit], total: int, repeated: int) -> int:
    """After how many units to close a full window: after the last paragraph in its last third, else all."""
    tokens = total
    for end in range(len(window), repeated, -1):
        if 3 * tokens < 2 * total:
            break
        if window[end - 1].paragraph:
            return end
        tokens -= window[end - 1].tokens
    return len(window)


def _overlap(window: Sequence[_ChunkUnit], budget: int, count: CountTokens) -> list[_ChunkUnit]:
    """The last units of a window within the budget, never all; else the last words of the last unit."""
    first = best = len(window)
    left = budget
    while first > 1 and window[first - 1].tokens <= left:
        first -= 1
        left -= window[first].tokens
        if (
            window[first].lead <= left and not (window[first - 1].text[-1] + window[first].text[0]).isalnum()
        ):  # not inside a word
            best = first
    if best < len(window):
        return list(window[best:])
    unit = window[-1]
    budget = min(budget, unit.tokens // 2)
    if budget < 1 or unit.record:
        return []
    length = len(unit.text)
    at = length - length * budget // unit.tokens
    while border := _BORDER.search(unit.text, at):
        at = border.end()
        tokens = count(unit.text[at:])
        if tokens <= budget:
            return [unit._replace(start=unit.start + at, text=unit.text[at:], tokens=tokens)]
        at += (length - at) // 4
    return []

"""How many words of a question texts contain: what a line, a prompt or a place shows of a hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2

import numpy as np

from stratagraph.ingest.headings import statements
from stratagraph.text.packing import words_in
from stratagraph.text.statements import Statement, whole_fields
from stratagraph.types.records import Metadata, at_place, sections_in


def telling(question: str, text: str, most: int) -> str:
    """A text in one line, cut to `most` characters around the sentence with most words of the question.

    The cut begins with the first sentence from which that sentence fits; "..." stands for omitted text.
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    found = statements(text)
    best = int(np.argmax(words_in(question, [text[each.start : each.end] for each in found]).sum(axis=1)))
    starts = [0, *(each.start for each in found[: best + 1])]
    parts = (" ".join(text[start : found[best].end].split()) for start in starts)
    begin = next((start for start, part in zip(starts, parts, strict=True) if len(part) <= most), starts[-1])
    rest = " ".join(text[begin:].split())
    return f"{'... ' if begin else ''}{rest if len(rest) <= most else rest[:most] + '...'}"


def asked_metadata(question: str, text: str, metadata: Metadata) -> Metadata:
    """The metadata of a chunk as of its section that has most words of the question; see `at_place`."""
    starts = [start for start, _ in sections_in(metadata)]
    if not starts:
        return metadata
    fields = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    scores = words_in(question, fields).sum(axis=1)
    best = np.flatnonzero(scores == scores.max())
    return at_place(metadata, starts[best[0]]) if scores.any() and len(best) == 1 else metadata


def shortened(
    question: str,
    texts: Sequence[str],
    tokens: int,
    count_tokens: Callable[[str], int],
    told: Sequence[str],
) -> list[str]:
    """Texts, best first, cut to a total of tokens: long ones keep their best statements.

    Statements are chosen by the question's words, and stand in their order after the text's title, with "..."
    where others are left out. Long texts share what short ones leave over, the text at place n by
    1 / log2(n + 1): of five ways to share, the one that keeps most answers of three corpora and the demo.
    Words of what is `told` above each text are known without it and choose no statement.
    """
    costs = [count_tokens(text) for text in texts]
    parts = [1 / log2(place + 2) for place in range(len(texts))]
    left, unit, rest = float(tokens), 0.0, sum(parts)
    for place in sorted(range(len(texts)), key=lambda place: costs[place] / parts[place]):
        unit = left / rest
        if costs[place] > unit * parts[place]:
            break
        left, rest = left - costs[place], rest - parts[place]
    if sum(costs) <= tokens:
        return list(texts)
    found = [statements(text) for text in texts]
    weights = words_in(
        question, [each.line(text) for text, own in zip(texts, found, strict=True) for each in own]
    )
    known = words_in(question, told) > 0
    scores = iter(np.where(np.repeat(known, [*map(len, found)], axis=0), 0, weights).sum(axis=1).tolist())
    scored = [[(next(scores), each) for each in own] for own in found]
    return [
        text if cost <= unit * part else _best_statements(text, own, int(unit * part), count_tokens)
        for text, cost, part, own in zip(texts, costs, parts, scored, strict=True)
    ]


def _best_statements(
    text: str, scored: Sequence[tuple[float, Statement]], limit: int, count_tokens: Callable[[str], int]
) -> str:
    """The statements of a text of largest score, in their order, up to `limit` tokens."""
    found = [each for _, each in scored]
    above = found[0].heads if found else ()
    lead = "" if above else text[: found[0].start].strip() if found else ""
    left = limit - count_tokens(lead)
    lines = [each.line(text) for each in found]
    chosen: list[int] = []
    for place in sorted(range(len(found)), key=lambda place: (-scored[place][0], place)):
        cost = count_tokens(lines[place]) + 1
        if not chosen or cost <= left:  # the best one in any case
            chosen.append(place)
            left -= cost
    parts = [lead] if lead else []
    before = -1
    for place in sorted(chosen):
        parts.append(("... " if place > before + 1 else "") + lines[place])
        before = place
    best = lines[chosen[0]] if chosen else text
    shown = " ".join(parts) or text
    shown = shown if count_tokens(shown) <= limit else whole_fields(best, limit, count_tokens)
    return f"{shown} ..." if before < len(found) - 1 else shown

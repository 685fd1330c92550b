"""Finds the entities that a question is about, apart from words that only happen to be names.

A corpus may have an entity "president" or "first". In "Who was the first president of Kenya?" a walk that
starts there goes astray. So a match counts as named only if it shares a content word with something that the
extractor takes for a name in the question (a capitalised span, a quoted title, a date).

A name in the question may be a part of an entity's longer name ("Philbrook Museum") or misspelt ("Brittish"),
and a question in lower case names nothing. Then the entities that may be meant are candidates, with weights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.extraction.mentions import CAPITALS
from stratagraph.ingest.names.index import NameIndex, NameMatches, Rows, words
from stratagraph.ingest.names.spelling import iso_date
from stratagraph.text.stopwords import ENGLISH
from stratagraph.types.question import SearchQuestion

NAMESAKES = 12
"""Most entities that share a part of their names ("Kennedy"); a part of more names ("John") is ignored."""
LIKENESS = 0.5
"""Score of `NameIndex.fuzzy` above which a name may be a misspelt one: one shared word of two is not enough.

R@5 on five corpora with a letter of each name altered: .72 with .6, .74 with this."""
ALONE = 0.1
"""Weight of a contained name of one word ("president") if the question names nothing; longer ones have 1."""

_NO_ROWS: Rows = np.empty(0, np.int64)
_CAPITAL = re.compile(rf"[ -][{CAPITALS}]")

_Mask = NDArray[np.bool_]


class Linked(NamedTuple):
    """Rows of names, ascending: named by a question, only contained in it, or near.

    Near names have weights in (0, 1]. They are the candidates for the names that no entity has, and those of
    one name share a weight of 1. If the question names nothing, the contained names are the near ones.
    """

    named: Rows
    contained: Rows
    near: Rows
    weights: NDArray[np.float64]


def link(question: str, index: NameIndex, entities: Sequence[str] | None = None) -> Linked:
    """Find the names of an index in a question of any language.

    A name inside a longer match ("York" in "New York City") is left out. A name that no entity has stands for
    the longer names that contain it ("Geoffrey Hinton" for "Hinton"), which share its weight. If there are
    none, it stands for the name with the most similar spelling. `entities` are names that the question is
    about, instead of those of the extractor; it need not contain them.
    """
    tokens = words(question)
    matches = index.find(question)
    outer = _outermost(matches, len(tokens))
    names = question_entities(question) if entities is None else entities
    places = {name: _place(tokens, words(name)) for name in names}
    content = np.zeros(len(tokens) + 1, np.int64)
    for place in places.values():
        content[1:] |= place
    content_before = np.cumsum(content)
    has_content = content_before[matches.starts + matches.sizes] > content_before[matches.starts]
    stretches = zip(matches.starts, matches.sizes, strict=True)
    alone = [_stands_alone(tokens[start : start + size], question) for start, size in stretches]
    named = outer & (has_content | np.array(alone, np.bool_))
    covered = np.zeros(len(tokens), np.bool_)
    for start, size in zip(matches.starts[named], matches.sizes[named], strict=True):
        covered[start : start + size] = True
    exact_rows, missed = [matches.rows[named]], []
    for name, place in places.items():
        date = iso_date(name)
        exact = _NO_ROWS
        if date or not place.any():  # the name does not stand in the question literally
            own = index.find(date or name)
            exact = own.rows[own.sizes == len(words(date or name))]
        exact_rows.append(exact)
        if not exact.size and ((place & ~covered).any() or not place.any()):
            missed.append(name)
    near, weights = _candidates(missed, index)
    rows = np.unique(np.concatenate(exact_rows))
    contained, first = np.unique(matches.rows[outer & ~named], return_index=True)
    if not rows.size and not near.size:
        near, weights = contained, np.where(matches.sizes[outer & ~named][first] > 1, 1.0, ALONE)
    return Linked(rows, contained, near, weights)


def linked_once(question: SearchQuestion, index: NameIndex) -> Linked:
    """As `link`, once for a question."""
    return question.once(index, "linked", lambda: link(question.text, index, question.entities), by_text=True)


def _stands_alone(span: Sequence[str], question: str) -> bool:
    """Whether stop words are a name ("The Who") and not the beginning of one ("The Who Sell Out")."""
    if not ENGLISH.issuperset(span):
        return False
    pattern = r"\W+".join(map(re.escape, span))
    occurrences = list(re.finditer(rf"\b{pattern}\b", question, re.IGNORECASE))
    capital = [match for match in occurrences if match[0][0].isupper()]
    return not occurrences or any(not _CAPITAL.match(question, match.end()) for match in capital)


def _outermost(matches: NameMatches, count: int) -> _Mask:
    """Whether each occurrence is outside all longer ones."""
    covered = np.zeros(count, np.bool_)
    outermost = np.zeros(matches.rows.size, np.bool_)
    for size in np.unique(matches.sizes)[::-1]:
        same = np.flatnonzero(matches.sizes == size)
        places = [slice(start, start + size) for start in matches.starts[same]]
        outermost[same] = [not covered[place].all() for place in places]
        for place in places:
            covered[place] = True
    return outermost


def _place(tokens: list[str], part: list[str]) -> _Mask:
    """Whether each word of the question is a content word of a name in it."""
    place = np.zeros(len(tokens), np.bool_)
    content = [word not in ENGLISH for word in part]
    for start in range(len(tokens) - len(part) + 1):
        if tokens[start : start + len(part)] == part:
            place[start : start + len(part)] = content
    return place


def _candidates(missed: Sequence[str], index: NameIndex) -> tuple[Rows, NDArray[np.float64]]:
    """Candidates for names that no entity has, ascending, with weights."""
    weights: dict[int, float] = {}
    for name in missed:
        if ENGLISH.issuperset(words(name)):
            continue
        rows = index.match(name, NAMESAKES + 1)
        if not rows.size:
            rows, likeness = index.fuzzy(name, 1)
            rows = rows[likeness > LIKENESS]
        if rows.size <= NAMESAKES:
            for row in rows.tolist():
                weights[row] = max(1 / rows.size, weights.get(row, 0.0))
    near = np.array(sorted(weights), np.int64)
    return near, np.array([weights[row] for row in near.tolist()], np.float64)

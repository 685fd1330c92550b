"""Which entities a question is about: names in it, told from words that only happen to be names.

A corpus may have an entity "president" or "first". In "Who was the first president of Kenya?" a walk that
starts there goes astray. A match counts as named if it has a content word of something that the extractor
takes for a name in the question (a capitalised span, a quoted title, a date).

A name in the question that no entity has may be part of a longer one ("Philbrook Museum") or misspelt
("Brittish"), and a question in lower case names nothing. Entities that may be meant are candidates, with
weights.
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
from stratagraph.types.question import Question

NAMESAKES = 12
"""Entities that may share a part of their names ("Kennedy"); a part of more names ("John") tells nothing."""
LIKENESS = 0.5
"""Score of `NameIndex.fuzzy` above which a name may be a misspelt one: one of two common words is not enough.

R@5 on five corpora with a letter of each name altered: .72 with .6, .74 with this."""
ALONE = 0.1
"""Weight of a single word that a question contains ("president") if it names nothing; longer names have 1."""

_NO_ROWS: Rows = np.empty(0, np.int64)
_CAPITAL = re.compile(rf"[ -][{CAPITALS}]")

_Mask = NDArray[np.bool_]


class Linked(NamedTuple):
    """Rows of names, ascending: named by a question, only contained in it, or near.

    Near names have weights in (0, 1]. They are the candidates for names that no entity has, which share 1
    per name, or else, where the question names nothing, the contained ones.
    """

    named: Rows
    contained: Rows
    near: Rows
    weights: NDArray[np.float64]


def link(question: str, index: NameIndex, entities: Sequence[str] | None = None) -> Linked:
    """Find the names of an index in a question.

    A name inside a longer one that is there too ("York" in "New York City") is left out. A name that no
    entity has stands for longer names ("Geoffrey Hinton" for "Hinton"), which share its weight, else for the
    one spelt most like it.

    Parameters
    ----------
    question
        In any language.
    index
        The names of all entities.
    entities
        The names in the question, if known better than by the extractor; they need not stand in it literally.
    """
    tokens = words(question)
    matches = index.find(question)
    outer = _outermost(matches, len(tokens))
    names = question_entities(question) if entities is None else entities
    places = {name: _place(tokens, words(name)) for name in names}
    about = np.zeros(len(tokens) + 1, np.int64)
    for place in places.values():
        about[1:] |= place
    about = np.cumsum(about)
    about_them = about[matches.starts + matches.sizes] > about[matches.starts]
    stretches = zip(matches.starts, matches.sizes, strict=True)
    alone = [_stands_alone(tokens[start : start + size], question) for start, size in stretches]
    named = outer & (about_them | np.array(alone, np.bool_))
    met = np.zeros(len(tokens), np.bool_)
    for start, size in zip(matches.starts[named], matches.sizes[named], strict=True):
        met[start : start + size] = True
    exact_rows, missed = [matches.rows[named]], []
    for name, place in places.items():
        date = iso_date(name)
        exact = _NO_ROWS
        if date or not place.any():  # the name does not stand in the question literally
            own = index.find(date or name)
            exact = own.rows[own.sizes == len(words(date or name))]
        exact_rows.append(exact)
        if not exact.size and ((place & ~met).any() or not place.any()):
            missed.append(name)
    near, weights = _candidates(missed, index)
    rows = np.unique(np.concatenate(exact_rows))
    contained, first = np.unique(matches.rows[outer & ~named], return_index=True)
    if not rows.size and not near.size:
        near, weights = contained, np.where(matches.sizes[outer & ~named][first] > 1, 1.0, ALONE)
    return Linked(rows, contained, near, weights)


def linked_once(question: Question, index: NameIndex) -> Linked:
    """As `link`, once for a question."""
    return question.once(index, "linked", lambda: link(question.text, index, question.entities))


def _stands_alone(span: Sequence[str], question: str) -> bool:
    """Whether words of grammar are a name ("The Who") and not the beginning of one ("The Who Sell Out")."""
    if not ENGLISH.issuperset(span):
        return False
    pattern = r"\W+".join(map(re.escape, span))
    met = list(re.finditer(rf"\b{pattern}\b", question, re.IGNORECASE))
    capital = [match for match in met if match[0][0].isupper()]
    return not met or any(not _CAPITAL.match(question, match.end()) for match in capital)


def _outermost(matches: NameMatches, count: int) -> _Mask:
    """Which occurrences are not covered by longer ones."""
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
    """Which words of the question are the content words of a name in it."""
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

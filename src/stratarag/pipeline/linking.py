"""Which entities a question is about: names that stand in it, told from words that only happen to be names.

Somewhere a corpus has an entity "president" or "first". In "Who was the first president of Kenya?" these
are not what is asked about, and a walk that starts there goes astray. A match counts as named if it has a
content word of something that the extractor takes for a name in the question (a capitalised span, a quoted
title, a date).

A name in the question that no entity has may be part of a longer one ("Philbrook Museum") or misspelt
("Brittish"). Entities that it may mean are candidates, not matches: they are told apart, with weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag.pipeline.extract_nlp import question_entities
from stratarag.pipeline.names import Found, NameIndex, Rows, words
from stratarag.stopwords import ENGLISH

CANDIDATES = 5
"""Entities that a name may mean at most. A part of more names than this ("John") tells nothing."""
LIKENESS = 0.5
"""Least score of `NameIndex.fuzzy`."""

_Mask = NDArray[np.bool_]


class Linked(NamedTuple):
    """Rows of names, ascending, by what they have to do with a question.

    Those that it names; those that it only contains; those that a name in it may mean where no entity has
    that name, with weights in (0, 1] (the candidates of one name have at most 1 together).
    """

    named: Rows
    contained: Rows
    near: Rows
    weights: NDArray[np.float64]


def link(
    question: str, index: NameIndex, entities: Sequence[str] | None = None, *, fuzzy: bool = True
) -> Linked:
    """Find the names of an index in a question.

    A name inside a longer one that is there too ("York" in "New York City") is left out.

    Parameters
    ----------
    question
        In any language.
    index
        The names of all entities.
    entities
        The names in the question, where they are known better than the extractor knows them. They need not
        stand in it word by word.
    fuzzy
        Whether to look for what a name may mean that no entity has.
    """
    spoken = words(question)
    found = index.find(question)
    outer = _outermost(found, len(spoken))
    entities = question_entities(question) if entities is None else entities
    places = [_place(spoken, words(entity)) for entity in entities]
    about = np.zeros(len(spoken) + 1, np.int64)
    about[1:] = np.cumsum(np.any(places, axis=0)) if places else 0
    named = outer & (about[found.starts + found.sizes] > about[found.starts])
    contained = outer & ~named
    met = np.zeros(len(spoken), np.bool_)
    for start, size in zip(found.starts[named], found.sizes[named], strict=True):
        met[start : start + size] = True
    missed = [entity for entity, place in zip(entities, places, strict=True) if not (met & place).any()]
    near, weights = _candidates(missed if fuzzy else [], index)
    return Linked(np.unique(found.rows[named]), np.unique(found.rows[contained]), near, weights)


def _outermost(found: Found, count: int) -> _Mask:
    """Which occurrences are not part of a longer one, or of the words of several longer ones."""
    covered = np.zeros(count, np.bool_)
    kept = np.zeros(found.rows.size, np.bool_)
    for size in np.unique(found.sizes)[::-1]:
        same = np.flatnonzero(found.sizes == size)
        places = [slice(start, start + size) for start in found.starts[same]]
        kept[same] = [not covered[place].all() for place in places]
        for place in places:
            covered[place] = True
    return kept


def _place(spoken: list[str], part: list[str]) -> _Mask:
    """Which words of the question are the content words of a name in it."""
    place = np.zeros(len(spoken), np.bool_)
    content = [word not in ENGLISH for word in part]
    for start in range(len(spoken) - len(part) + 1):
        if spoken[start : start + len(part)] == part:
            place[start : start + len(part)] = content
    return place


def _candidates(missed: Sequence[str], index: NameIndex) -> tuple[Rows, NDArray[np.float64]]:
    """The entities that names may mean which none has, with weights: longer names, else names spelt alike."""
    weights: dict[int, float] = {}
    for name in missed:
        if ENGLISH.issuperset(words(name)):
            continue
        rows = index.match(name, CANDIDATES + 1)
        scores = np.ones(rows.size)
        if rows.size > CANDIDATES:
            continue
        if not rows.size:
            rows, likeness = index.fuzzy(name, CANDIDATES)
            scores = likeness.astype(np.float64)
            rows, scores = rows[scores >= LIKENESS], scores[scores >= LIKENESS]
        for row, score in zip(rows.tolist(), (scores / max(rows.size, 1)).tolist(), strict=True):
            weights[row] = max(score, weights.get(row, 0.0))
    near = np.array(sorted(weights), np.int64)
    return near, np.array([weights[row] for row in near.tolist()], np.float64)

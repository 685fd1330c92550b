"""Which entities a question is about: names that stand in it, told from words that only happen to be names.

Somewhere a corpus has an entity "president" or "first". In "Who was the first president of Kenya?" these
are not what is asked about, and a walk that starts there goes astray. A match counts as named if it has a
content word of something that the extractor takes for a name in the question (a capitalised span, a quoted
title, a date).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratarag.pipeline.extract_nlp import question_entities
from stratarag.pipeline.names import Found, NameIndex, Rows, words
from stratarag.stopwords import ENGLISH


class Linked(NamedTuple):
    """Rows of the names in a question, ascending: those that it names, and those that it only contains."""

    named: Rows
    contained: Rows


def link(question: str, index: NameIndex, entities: Sequence[str] | None = None) -> Linked:
    """Find the names of an index in a question.

    `entities` are the names in the question, where they are known better than the extractor knows them.

    A name inside a longer one that is there too ("York" in "New York City") is left out of both.
    """
    spoken = words(question)
    found = index.find(question)
    outer = _outermost(found, len(spoken))
    about = np.zeros(len(spoken) + 1, np.int64)
    about[1:] = np.cumsum(_named(spoken, question_entities(question) if entities is None else entities))
    named = about[found.starts + found.sizes] > about[found.starts]
    return Linked(np.unique(found.rows[outer & named]), np.unique(found.rows[outer & ~named]))


def _outermost(found: Found, count: int) -> NDArray[np.bool_]:
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


def _named(spoken: list[str], entities: Sequence[str]) -> NDArray[np.bool_]:
    """Which words of the question belong to an entity in it and mean something."""
    named = np.zeros(len(spoken), np.bool_)
    for entity in entities:
        part = words(entity)
        for start in range(len(spoken) - len(part) + 1):
            if spoken[start : start + len(part)] == part:
                named[start : start + len(part)] = [word not in ENGLISH for word in part]
    return named

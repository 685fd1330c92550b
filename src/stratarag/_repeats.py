"""Hits that only repeat another become part of it, so that their places go to something new."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from stratarag.results import Hit

_WORDS = re.compile(r"\w+")
_LASTING = ("chunk", "relation", "entity", "summary_entity")
"""Kinds that stay whatever repeats them: a passage is its own source, a relation says what is joined, and an
entity is what its name stands for."""


def grouped(hits: Sequence[Hit], without: Collection[int] = ()) -> list[list[int]]:
    """The places of hits in groups, the best one first: a hit, and those whose words are part of its words.

    Places `without` which the hits tell as much are in none.

    In a group the hit that contains the others comes first, of equal ones the better one. A group has the
    place of its best member. Hits of one id, which two shards may have, are one, whatever their kind.
    """
    texts = [f" {' '.join(_WORDS.findall(hit.text)).casefold()} " for hit in hits]
    groups: dict[int, list[int]] = {}
    places = [place for place in range(len(hits)) if place not in without]
    for place in sorted(places, key=lambda place: (-len(texts[place]), place)):
        same = (other for other in groups if hits[other].id == hits[place].id)
        holder = next(same, place)
        if hits[place].kind not in _LASTING and holder == place:
            holder = next((other for other in groups if texts[place] in texts[other]), place)
        groups.setdefault(holder, []).append(place)
    return sorted(groups.values(), key=min)

"""Hits that only repeat another become part of it, so that their places go to something new."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Protocol

_WORDS = re.compile(r"\w+")
_LASTING = ("chunk", "relation", "entity", "summary_entity")
"""Kinds that stay whatever repeats them: a passage is its own source, a relation says what is joined, and an
entity is what its name stands for."""


_ASCII = "".join(chr(code).lower() if _WORDS.match(chr(code)) else " " for code in range(128))


class Shown(Protocol):
    """What is shown of a thing that was found."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def text(self) -> str:
        """Its text."""
        ...


def grouped(things: Sequence[Shown], without: Collection[int] = ()) -> list[list[int]]:
    """The places of things in groups, the best one first: one, and those whose words are part of its words.

    Places `without` which the others tell as much are in none.

    In a group the thing that contains the others comes first, of equal ones the better one. A group has the
    place of its best member. Things of one id, which two shards may have, are one, whatever their kind.
    """
    places = [place for place in range(len(things)) if place not in without]
    lasting = all(things[place].kind in _LASTING for place in places)
    if lasting and len({things[place].id for place in places}) == len(places):
        return [[place] for place in places]
    texts = {place: f" {_words(things[place].text)} " for place in places}
    groups: dict[int, list[int]] = {}
    for place in sorted(places, key=lambda place: (-len(texts[place]), place)):
        same = (other for other in groups if things[other].id == things[place].id)
        holder = next(same, place)
        if things[place].kind not in _LASTING and holder == place:
            holder = next((other for other in groups if texts[place] in texts[other]), place)
        groups.setdefault(holder, []).append(place)
    return sorted(groups.values(), key=min)


def _words(text: str) -> str:
    """The words of a text with a space between two."""
    if text.isascii():  # a fifth of the time
        return " ".join(text.translate(_ASCII).split())
    return " ".join(_WORDS.findall(text)).casefold()

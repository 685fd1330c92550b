"""Which of the names of a group a person would call it by."""

from __future__ import annotations

from collections.abc import Iterable

from stratagraph.pipeline.names.spelling import words


def telling(names: Iterable[str], count: int) -> list[str]:
    """The first of some names that tell most, at most `count`.

    What is written as a name comes before what is not ("deep yellow" beside "Petrel"); a name whose words one
    before it has says nothing new ("Ferrymen" beside "Ferrymen's Company"). In scripts without
    capitals none is in lower case.
    """
    chosen: list[str] = []
    told: list[set[str]] = []
    for name in sorted(dict.fromkeys(names), key=str.islower):
        own = set(words(name))
        if own and any(own <= each for each in told):
            continue
        chosen.append(name)
        told.append(own)
        if len(chosen) == count:
            break
    return chosen

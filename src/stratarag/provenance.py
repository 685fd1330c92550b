"""Source sets: which chunks a record came from, and what follows when some of them go.

A set of sources is a sorted, duplicate-free tuple of chunk ids. Every derived record (entity,
relation, summary) holds one. Four operations are all that insert, delete and filters need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

Sources = tuple[str, ...]


def contribute(*sets: Iterable[str]) -> Sources:
    """The union: a summary's sources are those of all its members."""
    return tuple(sorted({chunk for sources in sets for chunk in sources}))


def subtract(sources: Iterable[str], removed: Collection[str]) -> Sources:
    """What is left of a source set when chunks are deleted."""
    return tuple(sorted({chunk for chunk in sources if chunk not in removed}))


def orphaned(sources: Iterable[str], removed: Collection[str]) -> bool:
    """Whether a record has no source left, so that it must go too."""
    return not subtract(sources, removed)


def allowed_under(sources: Iterable[str], allowed: Collection[str]) -> bool:
    """Whether a filter admits a record: only if *every* source of it is admitted.

    One forbidden member is enough to forbid a summary, since its text may hold that member's facts.
    A record without sources is admitted by no filter.
    """
    chunks = tuple(sources)
    return bool(chunks) and all(chunk in allowed for chunk in chunks)

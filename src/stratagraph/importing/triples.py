"""What language models write where a triple was asked, read as it is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from stratagraph.importing.draft import clean_name

_ROLES = (("subject", "head", "source"), ("predicate", "relation", "label"), ("object", "tail", "target"))
_DEPTH = 3  # a list of triples in a list of triples; what is deeper is no triple


def read_triple(value: Any, notes: Counter[str]) -> list[tuple[str, ...]]:
    """The triples that a value stands for, usually one.

    Returns
    -------
    Tuples of three non-blank parts (the middle one may be empty), or of two: a statement whose roles are
    not known. What is neither is counted in `notes`, as is every repair.
    """
    parts = [next((value[k] for k in keys if k in value), "") for keys in _ROLES] if _is_map(value) else value
    if not isinstance(parts, list | tuple):
        return _dropped(notes)
    nested = any(isinstance(part, list | tuple) for part in parts)
    if nested:
        notes["triples with lists inside: taken apart"] += 1
    flat = _flat(parts, _DEPTH)
    return [read for one in flat for read in _read(one, notes)] if flat else _dropped(notes)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _dropped(notes: Counter[str]) -> list[tuple[str, ...]]:
    notes["triples that are no triples: left out"] += 1
    return []


def _flat(parts: list[Any] | tuple[Any, ...], depth: int) -> list[list[Any]]:
    """Lists of lists as their members; a list in the place of one part as one triple per member."""
    if not parts or not depth:
        return []
    if all(isinstance(part, list | tuple) for part in parts):
        return [flat for part in parts for flat in _flat(part, depth - 1)]
    choices = [(list(part) or [""]) if isinstance(part, list | tuple) else [part] for part in parts]
    if sum(len(choice) > 1 for choice in choices) > 1:  # several lists: which goes with which is not known
        return [[", ".join(map(clean_name, choice)) for choice in choices]]
    return [list(choice) for choice in product(*choices)]


def _read(parts: list[Any], notes: Counter[str]) -> list[tuple[str, ...]]:
    texts = [clean_name(part) for part in parts]
    full = [text for text in texts if text]
    if len(full) < 2:
        return _dropped(notes)
    if len(full) < len(texts):
        notes["triples with an empty part: read without it"] += 1
    if len(texts) > 2 and texts[0] and texts[-1]:
        if len(texts) > 3:
            notes["triples of more than three parts: middle parts joined"] += 1
        return [(texts[0], " ".join(full[1:-1]), texts[-1])]
    notes["triples without two ends: kept as facts"] += 1
    return [(full[0], " ".join(full[1:]))]

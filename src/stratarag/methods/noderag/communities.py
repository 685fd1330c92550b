"""Communities of the heterograph before texts come in, and what each is made of (paper 001, 2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.leiden import leiden
from stratarag.methods.base import Stored
from stratarag.methods.noderag.config import NodeRAGConfig
from stratarag.methods.noderag.material import Keys, Material, lookup
from stratarag.protocols import Rows
from stratarag.records import Node, content_id

_KNOWN_SHARE = 0.5
_NAMES = 3


def communities(ends: Rows, keys: Keys, config: NodeRAGConfig, previous: Stored | None) -> Rows:
    """The community of each entity, relation, unit and attribute, shape (nodes,).

    Nodes that were there stay where they were, so that what did not change keeps its members; new ones join
    where they fit best. An index of which less than half is left is partitioned anew.

    Parameters
    ----------
    ends
        The edges among them, shape (edges, 2).
    keys
        What tells each node from others, whatever the build, shape (nodes,).
    """
    settings = {"resolution": config.resolution, "max_size": config.max_community, "seed": config.seed}
    initial = _before(keys, previous)
    if np.count_nonzero(initial >= 0) < max(1.0, _KNOWN_SHARE * len(keys)):
        return leiden(ends, None, len(keys), **settings)  # type: ignore[arg-type]
    fixed = np.zeros(len(keys), np.bool_)
    return leiden(ends, None, len(keys), initial=initial, movable=fixed, **settings)  # type: ignore[arg-type]


def _before(keys: Keys, previous: Stored | None) -> Rows:
    if previous is None:
        return np.full(len(keys), -1, np.int64)
    places = lookup(keys, previous.arrays["communities.keys"])
    labels = previous.arrays["communities.labels"]
    found = np.full(len(keys), -1, np.int64)
    found[places >= 0] = labels[places[places >= 0]]
    return found


@dataclass(frozen=True, slots=True)
class Community:
    """What the high-level elements of a community are made of.

    `rows` are graph rows of its units (of its relations, where it has no units), `attributes` places among
    the attributes; `texts` are theirs, attributes first, and `members` their ids. `names` are those of the
    entities that the units name most.
    """

    digest: str
    label: int
    rows: Sequence[int]
    attributes: Sequence[int]
    names: Sequence[str]
    texts: Sequence[str]
    members: Sequence[str]


def gather(
    labels: Rows, attributes: Sequence[Node], material: Material, config: NodeRAGConfig
) -> list[Community]:
    """The communities that are large enough to have high-level elements, by their labels."""
    own = labels[len(material.ids) :]
    rows = _rows_by_label(labels, material)
    places: dict[int, list[int]] = {}
    for place, label in enumerate(own.tolist()):
        places.setdefault(label, []).append(place)
    large = [
        label
        for label in sorted({*rows, *places})
        if len(rows.get(label, ())) + len(places.get(label, ())) >= config.min_members
    ]
    named = {label: _most_named(rows.get(label, ()), material) for label in large}
    names = material.names([row for found in named.values() for row in found])
    relations = [row for label in large for row in rows.get(label, ()) if row < material.first_unit]
    texts = dict(zip(relations, material.texts(relations), strict=True))
    return [
        _community(
            label,
            rows.get(label, []),
            [(place, attributes[place]) for place in places.get(label, ())],
            [names[row] for row in named[label]],
            texts,
            material,
            config,
        )
        for label in large
    ]


def _rows_by_label(labels: Rows, material: Material) -> dict[int, list[int]]:
    """The units of each community, or its relations where it has no units."""
    found: dict[int, list[int]] = {}
    total, first = len(material.ids), material.first_unit
    for row, label in enumerate(labels[first:total].tolist(), first):
        found.setdefault(label, []).append(row)
    spoken = frozenset(found)
    entities = material.graph.entities
    for row, label in enumerate(labels[entities:first].tolist(), entities):
        if label not in spoken:
            found.setdefault(label, []).append(row)
    return found


def _most_named(rows: Sequence[int], material: Material) -> list[int]:
    """Entities that most of these units name, or relations join."""
    graph, counts = material.graph, Counter[int]()
    indptr, indices = graph.unit_entities
    for row in rows:
        unit = row - material.first_unit
        near: NDArray[np.integer] = (
            graph.ends[row - graph.entities] if unit < 0 else indices[indptr[unit] : indptr[unit + 1]]
        )
        counts.update(near.tolist())
    return [row for row, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_NAMES]]


def _community(
    label: int,
    rows: Sequence[int],
    attributes: Sequence[tuple[int, Node]],
    names: Sequence[str],
    relations: dict[int, str],
    material: Material,
    config: NodeRAGConfig,
) -> Community:
    first = material.first_unit
    spoken = [relations[row] if row < first else material.units[row - first] for row in rows]
    texts = [*(node.text for _, node in attributes), *spoken]
    members = [*(node.id for _, node in attributes), *(material.ids[row] for row in rows)]
    settings = ("noderag", "community", str(config.element_tokens), str(config.elements))
    digest = content_id(*settings, *names, "", *members, "", *texts)
    return Community(digest, label, rows, [place for place, _ in attributes], names, texts, members)

"""What a build reads of the graph, and attributes: summaries around important entities (paper 001, 2.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Keys, Labels
from stratagraph.ingest.marks import Marks, combined, label_sums, list_sums, mixed
from stratagraph.ingest.summarize import Group, Summary, fitted, summarize, words_for
from stratagraph.kernels.centrality import centrality
from stratagraph.kernels.ranges import ranges
from stratagraph.methods.base import Stored
from stratagraph.methods.groups import MARKS, GroupBuilder, NodeDraft, NodeTable, united
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.models.gate import CallItem
from stratagraph.models.prompts import load_prompt
from stratagraph.types.protocols import Rows
from stratagraph.types.records import content_id

Builder = GroupBuilder[NodeRAGConfig]
ELEMENT_LABELS = "elements.labels"
"""The array of the community of each high-level element."""
BORDERS, MEMBERS = "attributes.indptr", "attributes.indices"
"""Arrays: where the rows of the graph of each attribute begin and end, and these: its entity, then others."""
SLACK = 0.5
"""An important entity stays important while it reaches this share of a threshold.

Every insert moves the thresholds a little; without slack, unchanged entities would gain and lose attributes.
"""
_ODD = 0x9E3779B97F4A7C15
SOURCES = "important.sources"
"""The array of the rows of the graph from which paths were counted."""


class BuildInputs:
    """The rows of the graph: entities, then relations, then units."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.graph = builder, builder.graph
        self.keys: Keys = self.graph.stored.keys

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def first_unit(self) -> int:
        """The row of the first unit."""
        return self.graph.entities + self.graph.relations

    @cached_property
    def attributes_before(self) -> Rows:
        """The place of each entity's attribute in the previous index, or -1, shape (entities,)."""
        graph, previous = self.graph, self.builder.previous
        if previous is None or graph.before is None:
            return np.full(graph.entities, -1, np.int64)
        owners = previous.arrays[MEMBERS][previous.arrays[BORDERS][:-1]]
        places = np.full(graph.before.size + 1, -1, np.int64)  # the last is found where there was no entity
        places[owners] = np.arange(len(owners))
        return places[graph.before.rows_before[: graph.entities]]

    def ids(self, rows: Iterable[int]) -> dict[int, str]:
        """Ids by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.ids(distinct), strict=True))

    def texts(self, rows: Iterable[int]) -> dict[int, str]:
        """Texts of relations and units by row."""
        distinct = sorted(set(rows))
        return dict(zip(distinct, self.graph.stored.texts(distinct), strict=True))

    def names(self, entities: Iterable[int]) -> dict[int, str]:
        """Names of entities by row."""
        distinct = sorted(set(entities))
        nodes = self.graph.stored.nodes(distinct)
        return {row: str(node.extra["name"]) for row, node in zip(distinct, nodes, strict=True)}

    def sources(self, rows: Iterable[int]) -> list[int]:
        """The chunks that any of some rows came from, ascending."""
        indptr, indices = self.graph.sources
        return united(indices[indptr[row] : indptr[row + 1]] for row in rows)

    @cached_property
    def marks(self) -> Marks:
        """The mark of each row as what statements say of it.

        An entity stands for its name alone, and a relation or unit for the names of its entities too.
        """
        graph, marks = self.graph, self.builder.row_marks.copy()
        names = mixed(graph.shown[:, 1])
        indptr, indices = graph.unit_entities
        marks[: graph.entities] = combined(self.keys[: graph.entities], names)
        of_ends = names[graph.ends[:, 0]] + names[graph.ends[:, 1]]
        named = np.concatenate([of_ends, list_sums(indptr, names[indices])])
        marks[graph.entities :] = combined(marks[graph.entities :], named)
        return marks

    def regrouped_attributes(self, lists: tuple[Rows, Rows]) -> tuple[Marks, Rows]:
        """The mark of each attribute, made of its rows in `statement_lists`, and its previous row or -1."""
        indptr, indices = lists
        return self.builder.regroup(list_sums(indptr, self.marks[indices]), "attribute")

    def regrouped_elements(
        self, labels: Labels, attributes: NodeTable
    ) -> tuple[Marks, NDArray[np.bool_], Rows, Rows]:
        """Marks of communities, which need new elements, and labels and previous rows of the other elements.

        `labels` are those of the rows of the graph, then of the attributes. A community needs elements if it
        has enough attributes and units, or, without units, relations.
        """
        count, builder = int(labels.max(initial=-1)) + 1, self.builder
        borders = self.graph.entities, self.first_unit, self.size
        relations, units, own = (np.bincount(each, minlength=count) for each in np.split(labels, borders)[1:])
        large = np.where(units > 0, units, relations) + own >= builder.config.min_members
        members = np.concatenate([self.marks, attributes.member_marks()])
        marks, rows = builder.regroup(label_sums(labels, members, count), "element")
        if builder.previous is None:
            return marks, large, rows[:0], rows[:0]
        before = builder.previous.arrays[MARKS]  # the elements of a community lie together
        ends = np.append(np.flatnonzero((before[1:] != before[:-1]).any(axis=1)) + 1, len(before))
        known = np.flatnonzero(rows >= 0)
        sizes = ends[np.searchsorted(ends, rows[known], "right")] - rows[known]
        return marks, large & (rows < 0), np.repeat(known, sizes), ranges(rows[known], sizes)


class Important(NamedTuple):
    """Rows of important entities, ascending, and those of the nodes from which paths were counted."""

    rows: Rows
    sources: Rows


def important_entities(
    inputs: BuildInputs, ends: Rows, previous: Stored | None, *, measure: bool = True
) -> Important:
    """Entities that occur more than once and are in the core of the graph or high in betweenness.

    `ends` are the edges among entities, relations and units (2.2), as rows of the graph. The sample of a
    previous index stays, and so do its important entities, with some `SLACK`. To `measure` takes a pass over
    the graph per source; without it only previous entities stay important (`methods.drift.Drift.due`).
    """
    graph, keys, config = inputs.graph, inputs.keys, inputs.builder.config
    before, sources = np.zeros(graph.entities, np.bool_), np.zeros(0, np.int64)
    named = np.bincount(graph.unit_entities[1], minlength=graph.entities)  # by several units, or texts (N3)
    repeated = (named > 1) | (np.diff(graph.sources[0][: graph.entities + 1]) > 1)
    if previous is not None and graph.before is not None:
        before = inputs.attributes_before >= 0
        sources = graph.before.now[previous.arrays[SOURCES]]
        sources = sources[sources >= 0]
        if not measure:
            return Important(np.flatnonzero(before & repeated), sources)
    hashes = (keys ^ np.uint64(config.seed)) * np.uint64(_ODD)  # the previous sources, then others by hash
    order = np.arange(len(keys))
    if len(keys) > config.sources:
        order = np.argpartition(hashes, config.sources)[: config.sources]
    order = order[np.argsort(hashes[order], kind="stable")]
    sample = np.concatenate([sources, order[~np.isin(order, sources)]])[: config.sources]
    measured = centrality(ends, inputs.size, sample)

    def high(share: float) -> NDArray[np.bool_]:
        core = measured.cores >= max(1.0, share * measured.core_threshold)
        bridge = measured.betweenness > max(share * measured.bridge_threshold, 0)
        return np.asarray(core | bridge)[: graph.entities]

    rows = np.flatnonzero((high(1.0) | (before & high(SLACK))) & repeated)
    return Important(rows.astype(np.int64), sample)


PROMPT = load_prompt("stratagraph.methods.noderag", "attribute")
STAGE = "attributes"


def statement_lists(inputs: BuildInputs, entities: Rows, stated: Rows) -> tuple[Rows, Rows]:
    """The graph rows behind each entity's attribute, the entity first, in CSR form.

    Statements come most important first, and `NodeRAGConfig.statements` of them at most. They take turns by
    the other entity that they connect the entity with: first the best statement on each of these, the best
    connected one first; then the second statement on each, and so on. A statement that names no other entity
    has the first turn. Of statements on the same entity the relation comes first, then what more chunks say.
    How well an entity is connected is the logarithm of the number of units that name it, rounded down, so
    that an insert changes few attributes.
    """
    graph = inputs.graph
    named = np.bincount(graph.unit_entities[1], minlength=graph.entities)
    connected = np.frexp(named.astype(np.float64))[1].astype(np.int64)
    owner, rows, others = _statements(inputs, entities, stated, connected)
    order = np.argsort(inputs.keys[rows])  # breaks the ties that are left
    owner, rows, others = owner[order], rows[order], others[order]
    chunks = np.diff(graph.sources[0])[rows]
    turns = _ranked((-chunks, rows >= inputs.first_unit), owner * (graph.entities + 1) + others)
    best = np.where(others >= 0, connected[others], np.iinfo(np.int64).max)
    places = _ranked((-best, turns), owner)
    few = np.flatnonzero(places < inputs.builder.config.statements)
    few = few[np.lexsort((places[few], owner[few]))]
    sizes = 1 + np.bincount(owner[few], minlength=len(entities))
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    indices = np.empty(int(indptr[-1]), np.int64)
    first = np.zeros(len(indices), np.bool_)
    first[indptr[:-1]] = True
    indices[first], indices[~first] = entities, rows[few]
    return indptr, indices


def _ranked(columns: tuple[NDArray[Any], ...], groups: Rows) -> Rows:
    """The rank of each row in its group, sorted by `columns`; the last column is the primary key."""
    order = np.lexsort((*columns, groups))
    starts = np.ones(len(order), np.bool_)
    starts[1:] = np.diff(groups[order]) != 0
    number = np.arange(len(order))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = number - np.maximum.accumulate(np.where(starts, number, 0))
    return ranks


def _statements(
    inputs: BuildInputs, entities: Rows, stated: Rows, connected: Rows
) -> tuple[Rows, Rows, Rows]:
    """The statements around some entities: places of these, rows, and the other entity of each, or -1.

    Statements are units, and relations that have a description or that no unit states (`stated`, pairs of
    relation and unit). The other entity is the best `connected` one that the statement names.
    """
    graph = inputs.graph
    place = np.full(graph.entities, -1, np.int64)
    place[entities] = np.arange(len(entities))
    bare = np.ones(graph.relations, np.bool_)
    bare[stated[:, 0]] = False
    relations = np.flatnonzero(bare | graph.described)
    units = np.repeat(np.arange(graph.units), np.diff(graph.unit_entities[0]))
    named = np.concatenate([graph.unit_entities[1], graph.ends[relations].ravel()])
    rows = np.concatenate([inputs.first_unit + units, np.repeat(graph.entities + relations, 2)])
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(np.append(starts, len(rows)))
    rank = (connected[named] + 1) * graph.entities - named  # the best connected, then the first
    best = np.repeat(np.maximum.reduceat(rank, starts), counts)
    second = np.repeat(np.maximum.reduceat(np.where(rank == best, 0, rank), starts), counts)
    others = np.where(rank == best, second, best)
    others = np.where(others > 0, -others % graph.entities, -1)
    owner = place[named]
    around = owner >= 0
    return owner[around], rows[around], others[around]


def draft_attributes(inputs: BuildInputs, lists: Sequence[Sequence[int]]) -> list[NodeDraft]:
    """Attributes before their texts, from the entity and the other rows of each, most important first."""
    names = inputs.names(rows[0] for rows in lists)
    ids = inputs.ids(row for rows in lists for row in rows)
    texts = inputs.texts(row for _, *rows in lists for row in rows)
    settings = ("noderag", "attribute", *inputs.builder.config.text_settings)
    drafts = []
    for entity, *rows in lists:
        ordered = sorted(rows)  # other statements change which are most important, but not this order
        members, own, name = [ids[row] for row in ordered], [texts[row] for row in ordered], names[entity]
        drafts.append(
            NodeDraft(
                content_id(*settings, ids[entity], name, *members, *own),
                "attribute",
                0,
                name,
                own,
                inputs.sources(ordered),
                {"title": name, "entity": ids[entity], "members": members},
                ranked=[texts[row] for row in rows],
            )
        )
    return drafts


async def write_attributes(groups: Sequence[Group], builder: Builder) -> list[Summary]:
    """The texts of attributes."""
    gate, config = builder.gate, builder.config

    def item(group: Group) -> CallItem:
        shown = fitted(group.ranked, config.context_tokens, gate.count_tokens)
        values = {
            "name": group.item,
            "passages": "\n".join(f"- {text}" for text in shown),
            "words": str(words_for(config.attribute_tokens, len(shown))),
        }
        return CallItem(values, group.item, group.sources)

    return await summarize(groups, gate, prompt=PROMPT, max_tokens=config.attribute_tokens, item=item)

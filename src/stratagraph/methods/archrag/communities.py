"""The nodes of a level's communities: what each report is made of, what is taken over, what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stratagraph.ingest.carryover import VECTORS, Labels
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.names.spelling import telling
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.archrag.levels import Level, LevelBefore, Partition, inner_degrees
from stratagraph.methods.groups import GroupBuilder, NodeDraft, NodeTable, united
from stratagraph.methods.reports import write_reports
from stratagraph.models.prompts import load_prompt
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Node, content_id

PROMPT = load_prompt("stratagraph.methods.archrag", "report")
KIND = "community"
TITLE_NAMES = 3
"""Members whose names make the title of a report that no model wrote."""


Builder = GroupBuilder[ArchRAGConfig]


@dataclass(frozen=True)
class Communities:
    """The communities of a level: their nodes and vectors, in the order of the labels."""

    nodes: NodeTable
    vectors: Vectors

    def level(self, number: int, partition: Partition) -> Level:
        """These communities as the next level."""
        before = self.nodes.before
        return Level(
            number,
            self.vectors,
            partition.ends,
            partition.weights,
            self.nodes.read,
            lambda rows: [],
            LevelBefore(before, before >= 0),
        )


async def write_communities(builder: Builder, level: Level, partition: Partition) -> Communities:
    """A node and a vector for each community of a level.

    A community of one has no report: it is its member, with the member's vector. Nothing is read of those
    that are as they were.
    """
    config = builder.config
    members, edges = partition.members(), partition.inner_edges(level.ends)
    degrees = inner_degrees(level, partition.labels)
    labels = partition.labels
    if level.number == 0:
        labels = np.concatenate([labels, partition.of_edges(level.ends)])
    parents = partial(_parents, builder, level.number)
    before = await asyncio.to_thread(
        builder.unchanged, labels, level.before.origin, level.before.same, parents, partition.count
    )

    def drafts(batch: Sequence[int]) -> list[NodeDraft]:
        """Nodes and relations are read at once for all of them."""
        groups = [members[row] for row in batch]
        ordered = [rows[np.lexsort((rows, -degrees[rows]))] for rows in groups]
        nodes = iter(level.read_nodes(np.concatenate(ordered).tolist()))
        texts = iter(level.read_relations(np.concatenate([edges[row] for row in batch]).tolist()))
        batch_drafts = []
        for row, rows in zip(batch, ordered, strict=True):
            own = [next(nodes) for _ in rows]
            places = {each: place for place, each in enumerate(rows.tolist())}
            joined = ((places[one], places[two]) for one, two in level.ends[edges[row]].tolist())
            relations = [(ends, text) for ends, text in zip(joined, texts, strict=False) if text]
            batch_drafts.append(_draft(level.number + 1, own, relations, config))
        return batch_drafts

    write = partial(
        write_reports,
        gate=builder.gate,
        prompt=PROMPT,
        max_tokens=config.summary_tokens,
        form=config.report_form,
        context_tokens=config.context_tokens,
    )
    new: list[int] = np.flatnonzero(before < 0).tolist()
    short = config.summary_tokens if config.report_form == "short" else 0
    fresh = await builder.read_and_write(new, drafts, write, short=short)
    several = [members[row].tolist() for row in new if row < partition.joined]
    embedded = await group_vectors(
        fresh[: len(several)], several, level.vectors, stage="embed reports", carry=builder.carry
    )
    alone = np.array([members[row][0] for row in new[len(several) :]], np.int64)
    nodes = builder.table(before, fresh)
    return Communities(nodes, nodes.column(VECTORS, np.concatenate([embedded, level.vectors[alone]])))


def _draft(
    number: int,
    members: Sequence[Node],
    relations: Sequence[tuple[tuple[int, int], str]],
    config: ArchRAGConfig,
) -> NodeDraft:
    """A community before its report is written: its members, the most connected first, and their relations.

    A relation is given by the places of the two members that it joins, and its text. The id depends on all
    that the report is made of, but not on the order of members. A report without a model has the names of the
    most connected members as its title; for a member that is a community, the name of an entity in it.
    """
    ids, texts = [node.id for node in members], [node.text for node in members]
    told = [text for _, text in relations]
    sizes = map(str, (number, *config.text_settings, len(ids)))
    identity = content_id("archrag", KIND, *sizes, *sorted(ids), *sorted(texts), *sorted(told))
    names = telling(map(_name, members), TITLE_NAMES)
    alone = {"title": _name(members[0])} if len(members) == 1 else {}
    extra = {**alone, "names": names, "members": ids}
    about = [*((each,) for each in ids), *((ids[one], ids[two]) for (one, two), _ in relations)]
    return NodeDraft(
        identity,
        KIND,
        number,
        ", ".join(names),
        [*texts, *told],
        united(node.sources for node in members),
        extra,
        about=about,
        text=texts[0] if alone else "",
    )


def _name(node: Node) -> str:
    """An entity's name; a community's first."""
    return str(node.extra["name"] if node.kind == "entity" else node.extra["names"][0])


def _parents(builder: Builder, number: int) -> Labels:
    """The previous community of each previous node.

    At level 0, that of each relation follows; -1 for one that joins two communities.
    """
    if number > 0:
        return np.asarray(builder.arrays["parents"])
    assert builder.graph.before is not None
    parents: Labels = np.asarray(builder.arrays["entities.parents"])
    own = parents[builder.graph.before.stored.arrays["relations.ends"]]
    return np.concatenate([parents, np.where(own[:, 0] == own[:, 1], own[:, 0], -1)])

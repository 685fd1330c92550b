"""Entity resolution as a step between extractions and graph: names are changed, and all is grouped again.

Namesakes are told apart in the tables of their chunks; variants of a name are keys that lead to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np

from stratagraph.ingest.extraction.stored import extraction_of, extractions
from stratagraph.ingest.graph.entity_resolution import (
    Candidate,
    Rule,
    aliases,
    candidates,
    default_rule,
    resolve,
)
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.layout import MOST_UNITS, Entity, Unit, entity_records, read_texts
from stratagraph.ingest.graph.lists import Lists
from stratagraph.ingest.graph.same_things import Identities, collected_as
from stratagraph.ingest.graph.tables import Arrays, Flat, joined
from stratagraph.kernels.ranges import order
from stratagraph.models.gate import Gate
from stratagraph.types.protocols import Corpus, Stored


async def resolved(
    corpus: Corpus,
    extracted: Stored,
    tables: Arrays,
    graph: Grouping,
    gate: Gate,
    *,
    rule: Rule = default_rule,
    use_llm: bool,
) -> Grouping:
    """The graph of tables with variants of a name as one entity, and namesakes as several.

    A model judges both, or titles tell namesakes apart; then `rule` decides on variants by descriptions.
    """
    named = _entities(graph)
    read = partial(extractions, extracted, corpus.size)
    identities = Identities(corpus, read, {entity.key: entity.name for entity in named})
    if use_llm and rule is default_rule:
        pairs = candidates(named, await asyncio.to_thread(_units, graph, extracted))
        identified = await identities.by_model(pairs, gate)
    else:
        identified = await asyncio.to_thread(identities.by_titles)
    if identified.apart:
        rows = sorted(identified.apart)
        told = (
            collected_as(extraction_of(node), identified.apart[row])
            for row, node in zip(rows, extracted.nodes(rows), strict=True)
        )
        own = np.arange(corpus.size)
        own[rows] = -1
        tables = joined(tables, Flat(told).arrays(), own)
    if identified.apart or identified.aliases:
        graph = await asyncio.to_thread(Grouping, tables, [identified.aliases])
        named = _entities(graph)
    pairs = [each for each in candidates(named) if (each.alias, each.kept) not in identified.judged]
    described = await asyncio.to_thread(_described, graph, extracted, named, pairs)
    same = await resolve(list(described), pairs, gate, describe=described.__getitem__, rule=rule)
    if same:
        graph = await asyncio.to_thread(Grouping, tables, [identified.aliases, aliases(same)])
    graph.notes.update(identified.notes)
    graph.notes.update({f"resolved: {candidate}": 1 for candidate in same})
    return graph


def _entities(graph: Grouping) -> list[Entity]:
    """All entities, without descriptions."""
    return entity_records(graph, np.arange(len(graph.entities.names)), {})


def _units(graph: Grouping, extracted: Stored) -> list[Unit]:
    """The units that name several entities."""
    several = np.flatnonzero(np.diff(graph.units.entities.starts) > 1)
    units = graph.units.at(several)
    texts = read_texts(extracted, units.texts, units.chunks.values[units.chunks.starts[:-1]])
    keys = graph.strings.texts(graph.entities.names)
    named = units.entities.split([keys[row] for row in units.entities.values.tolist()])
    return [Unit(texts[key], own, ()) for key, own in zip(units.texts.tolist(), named, strict=True)]


def _described(
    graph: Grouping, extracted: Stored, named: Sequence[Entity], pairs: Sequence[Candidate]
) -> dict[Entity, Sequence[str]]:
    """The entities of some pairs, with the texts that describe them: statements, else the first units."""
    wanted = {name for pair in pairs for name in (pair.alias, pair.kept)}
    rows = np.array([row for row, entity in enumerate(named) if entity.key in wanted], np.int64)
    statements = graph.entities.statements.at(rows)
    units = graph.units
    by_entity = order(units.entities.values, len(named))
    naming = Lists.of(units.entities.values[by_entity], units.entities.owners[by_entity], len(named)).at(rows)
    first = units.chunks.values[units.chunks.starts[:-1]]
    bare = (np.diff(statements.texts.starts) == 0)[naming.owners]
    texts = read_texts(
        extracted,
        np.concatenate([statements.texts.values, units.texts[naming.values[bare]]]),
        np.concatenate([statements.chunks, first[naming.values[bare]]]),
    )
    described: dict[Entity, Sequence[str]] = {}
    of_units = naming.split([texts.get(key, "") for key in units.texts[naming.values].tolist()])
    for entity, own in zip(entity_records(graph, rows, texts), of_units, strict=True):
        described[entity] = entity.fragments or sorted(own)[:MOST_UNITS]
    return described

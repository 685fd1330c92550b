"""The one recipe behind build, insert, delete, add_method and estimate.

Take in documents, assemble the corpus, embed what is new, let each method build over it with its
former index at hand, publish. What the recipe needs of the world is the gate and a staging area, so an
estimate is the same recipe with a gate that only counts, and without the last step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain

import numpy as np

from stratarag._intake import Arrival, Documents, Intake, arrivals, take_in
from stratarag._models import Models
from stratarag.config import Config
from stratarag.errors import IndexExists
from stratarag.methods import get_method
from stratarag.models.gateway import Gate
from stratarag.pipeline.extract import NAME as EXTRACTION
from stratarag.pipeline.extract import Given, extract_corpus
from stratarag.pipeline.graph import NAME as GRAPH
from stratarag.pipeline.graph import Graph, build_graph
from stratarag.protocols import Stored
from stratarag.records import BuildReport
from stratarag.store.manifest import Manifest
from stratarag.store.snapshot import IndexFolder, Snapshot
from stratarag.store.staging import Staging

STAGES = (EXTRACTION, GRAPH)
_EMBED_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done: documents that come, ids that go, and the methods afterwards."""

    operation: str
    methods: Sequence[str]
    documents: Documents | None = None
    removed: Collection[str] = ()
    extraction: Given | None = None


@dataclass(frozen=True, slots=True)
class Workshop:
    """What an update works with."""

    folder: IndexFolder
    gate: Gate
    config: Config
    models: Models
    publish: bool = True


def methods_of(snapshot: Snapshot) -> list[str]:
    """The methods in a generation, the default one first; its other parts are the stages before them."""
    return [name for name in snapshot.manifest.methods if name not in STAGES]


async def update(shop: Workshop, change: Change) -> BuildReport:
    """Carry out a change and publish it as the folder's next generation."""
    with shop.folder.writer(change.operation) as staging:
        before = staging.base
        intake = await asyncio.to_thread(_take_in, shop, change, staging)
        if before is not None and change.operation == "build":
            _check_same(before, intake, change, shop)
        if before is not None and _nothing_to_do(before, change, intake):
            return _report(shop, change, intake, before, before.manifest.generation, {})
        await asyncio.to_thread(staging.assemble, removed=change.removed)
        await _embed(staging, shop.gate)
        notes = await _extract(staging, before, shop, change)
        for name in change.methods:
            await _build_method(staging, before, name, shop)
        return await asyncio.to_thread(_publish, shop, change, intake, staging, notes)


def _take_in(shop: Workshop, change: Change, staging: Staging) -> Intake:
    if change.documents is None:
        return Intake()
    existing = staging.base.documents() if staging.base is not None else {}
    with shop.gate.stage("read"):
        coming = arrivals(change.documents, shop.config.chunking, shop.models.count_tokens)
        return take_in(coming, existing, lambda arrival: _add(staging, arrival))


def _add(staging: Staging, arrival: Arrival) -> bool:
    """Store a document; False if it has no text."""
    chunks = arrival.chunks()
    first = next(chunks, None)
    if first is None:
        return False
    staging.add(arrival.id, arrival.digest, arrival.metadata, chain([first], chunks))
    return True


def _check_same(before: Snapshot, intake: Intake, change: Change, shop: Workshop) -> None:
    """A build may meet an index of the very same things, left by a build that was not seen to finish."""
    same_documents = (
        not intake.added and not intake.updated and len(intake.unchanged) == before.document_count
    )
    same_methods = list(change.methods) == methods_of(before)
    same_settings = shop.config.to_dict() == before.manifest.config
    if not (same_documents and same_methods and same_settings):
        differs = [
            name
            for name, same in (
                ("documents", same_documents),
                ("methods", same_methods),
                ("settings", same_settings),
            )
            if not same
        ]
        raise IndexExists(
            f"{str(before.path)!r} holds an index already, of other {' and '.join(differs)}. Open it with "
            "open_index and use insert, delete or add_method, or build in another folder"
        )


def _nothing_to_do(before: Snapshot, change: Change, intake: Intake) -> bool:
    same_corpus = not change.removed and not intake.added and not intake.updated
    return same_corpus and list(change.methods) == methods_of(before)


async def _embed(staging: Staging, gate: Gate) -> None:
    """Fill the vectors of the corpus: those of known chunks are copied, the others computed."""
    fresh = np.ones(staging.size, dtype=np.bool_)
    fresh[staging.known_rows()[0]] = False
    rows = np.flatnonzero(fresh)
    vectors = None
    if staging.base is not None:
        dimension = staging.base.manifest.dimension
        vectors = await asyncio.to_thread(staging.create_vectors, dimension)
    with gate.stage("embed chunks", len(rows)):
        for start in range(0, len(rows), _EMBED_ROWS):
            batch = rows[start : start + _EMBED_ROWS]
            embedded = await gate.embed("embed chunks", staging.texts(batch.tolist()))
            if vectors is None:
                vectors = staging.create_vectors(embedded.shape[1])
            vectors[batch] = embedded


async def _extract(
    staging: Staging, before: Snapshot | None, shop: Workshop, change: Change
) -> Mapping[str, int]:
    """Extract, merge and lay out the graph of the corpus, which all methods share; returns the notes."""
    config = shop.config.extraction
    needed = any(get_method(name).needs_graph for name in change.methods)
    use_llm = shop.gate.has_llm and (config.mode == "llm" or (config.mode == "auto" and needed))
    extracted = await extract_corpus(
        staging,
        shop.gate,
        config=config,
        previous=_previous(before, EXTRACTION),
        use_llm=use_llm,
        given=change.extraction,
    )
    await asyncio.to_thread(staging.put_method, EXTRACTION, extracted.nodes, extracted.arrays)
    graph = await build_graph(
        staging,
        staging.method(EXTRACTION),
        shop.gate,
        config=config,
        previous=_previous(before, GRAPH),
        use_llm=use_llm,
    )
    await asyncio.to_thread(staging.put_method, GRAPH, graph.nodes, graph.arrays)
    return {**extracted.notes, **graph.notes}


def _previous(before: Snapshot | None, name: str) -> Stored | None:
    return before.method(name) if before is not None and name in before.manifest.methods else None


async def _build_method(staging: Staging, before: Snapshot | None, name: str, shop: Workshop) -> None:
    built = await get_method(name).build(
        staging,
        Graph(staging.method(GRAPH)),
        shop.gate,
        config=shop.config.method(name),
        previous=_previous(before, name),
    )
    await asyncio.to_thread(staging.put_method, name, built.nodes, built.arrays)


def _publish(
    shop: Workshop, change: Change, intake: Intake, staging: Staging, notes: Mapping[str, int]
) -> BuildReport:
    generation = 0
    if shop.publish:
        manifest = Manifest(
            methods={name: asdict(shop.config.method(name)) for name in change.methods}
            | {stage: asdict(shop.config.extraction) for stage in STAGES},
            embedder=shop.models.embedder_name(staging.vectors.shape[1]),
            dimension=staging.vectors.shape[1],
            tokenizer=shop.models.count_tokens.name,
            config=shop.config.to_dict(),
            prompts=dict(shop.gate.prompts_used),
        )
        generation = staging.publish(manifest)
    return _report(shop, change, intake, staging, generation, notes)


def _report(
    shop: Workshop,
    change: Change,
    intake: Intake,
    corpus: Snapshot | Staging,
    generation: int,
    notes: Mapping[str, int],
) -> BuildReport:
    return BuildReport(
        operation=change.operation,
        generation=generation,
        documents=corpus.document_count,
        chunks=corpus.size,
        nodes={name: corpus.method(name).size for name in (*change.methods, GRAPH)},
        added=tuple(intake.added),
        updated=tuple(intake.updated),
        deleted=tuple(change.removed),
        unchanged=tuple(intake.unchanged),
        skipped=tuple(intake.skipped),
        failures=tuple(shop.gate.failures),
        notes=notes,
        stages=dict(shop.gate.ledger.stages),
    )

"""The one recipe behind build, insert, delete, add_method and estimate.

Take in documents, assemble the corpus, embed what is new, let each method build over it with its
former index at hand, publish. What the recipe needs of the world is the gate and a staging area, so an
estimate is the same recipe with a gate that only counts, and without the last step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from stratarag._intake import Arrival, Documents, Intake, arrivals, take_in
from stratarag._models import Models
from stratarag.config import Config
from stratarag.errors import IndexExists
from stratarag.methods import get_method
from stratarag.models.gateway import Gate
from stratarag.records import BuildReport
from stratarag.store.manifest import Manifest
from stratarag.store.snapshot import IndexFolder, Snapshot
from stratarag.store.staging import Staging

_EMBED_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done: documents that come, ids that go, and the methods afterwards."""

    operation: str
    methods: Sequence[str]
    documents: Documents | None = None
    removed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Workshop:
    """What an update works with."""

    folder: IndexFolder
    gate: Gate
    config: Config
    models: Models
    publish: bool = True


async def update(shop: Workshop, change: Change) -> BuildReport:
    """Carry out a change and publish it as the folder's next generation."""
    with shop.folder.writer(change.operation) as staging:
        before = staging.base
        intake = await asyncio.to_thread(_take_in, shop, change, staging)
        if before is not None and change.operation == "build":
            _check_same(before, intake, change, shop)
        if before is not None and _nothing_to_do(before, change, intake):
            return _report(shop, change, intake, before, before.manifest.generation)
        await asyncio.to_thread(staging.assemble, removed=change.removed)
        await _embed(staging, shop.gate)
        for name in change.methods:
            await _build_method(staging, before, name, shop)
        return await asyncio.to_thread(_publish, shop, change, intake, staging)


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
    same_methods = tuple(change.methods) == tuple(before.manifest.methods)
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
    return same_corpus and set(change.methods) == set(before.manifest.methods)


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


async def _build_method(staging: Staging, before: Snapshot | None, name: str, shop: Workshop) -> None:
    method = get_method(name)
    had = before is not None and name in before.manifest.methods
    previous = before.method(name) if before is not None and had else None
    built = await method.build(staging, shop.gate, config=shop.config.method(name), previous=previous)
    await asyncio.to_thread(staging.put_method, name, built.nodes, built.arrays)


def _publish(shop: Workshop, change: Change, intake: Intake, staging: Staging) -> BuildReport:
    generation = 0
    if shop.publish:
        manifest = Manifest(
            methods={name: shop.config.to_dict()["methods"].get(name, {}) for name in change.methods},
            embedder=shop.models.embedder_name(staging.vectors.shape[1]),
            dimension=staging.vectors.shape[1],
            tokenizer=shop.models.count_tokens.name,
            config=shop.config.to_dict(),
            prompts=dict(shop.gate.prompts_used),
        )
        generation = staging.publish(manifest)
    return _report(shop, change, intake, staging, generation)


def _report(
    shop: Workshop, change: Change, intake: Intake, corpus: Snapshot | Staging, generation: int
) -> BuildReport:
    return BuildReport(
        operation=change.operation,
        generation=generation,
        documents=corpus.document_count,
        chunks=corpus.size,
        nodes={name: corpus.method(name).size for name in change.methods},
        added=tuple(intake.added),
        updated=tuple(intake.updated),
        deleted=tuple(change.removed),
        unchanged=tuple(intake.unchanged),
        skipped=tuple(intake.skipped),
        failures=tuple(shop.gate.failures),
        stages=dict(shop.gate.ledger.stages),
    )

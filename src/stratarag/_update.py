"""The one recipe behind build, insert, delete, add_method and estimate.

Take in documents, assemble the corpus, embed what is new, let each method build over it with its
former index at hand, publish. What the recipe needs of the world is the gate and a staging area, so an
estimate is the same recipe with a gate that only counts, and without the last step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from stratarag._intake import Documents, Intake, arrivals, take_in
from stratarag._models import Models
from stratarag.config import Config
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
        return take_in(coming, existing, lambda a: staging.add(a.id, a.digest, a.metadata, a.chunks()))


def _nothing_to_do(before: Snapshot, change: Change, intake: Intake) -> bool:
    same_corpus = not change.removed and not intake.added and not intake.updated
    return same_corpus and set(change.methods) == set(before.manifest.methods)


async def _embed(staging: Staging, gate: Gate) -> None:
    """Fill the vectors of the corpus: those of known chunks are copied, the others computed."""
    known, earlier = await asyncio.to_thread(staging.known_rows)
    fresh = np.ones(staging.size, dtype=np.bool_)
    fresh[known] = False
    rows = np.flatnonzero(fresh)
    vectors = None
    if staging.base is not None:
        vectors = staging.create_vectors(staging.base.manifest.dimension)
        for start in range(0, len(known), _EMBED_ROWS):
            part = slice(start, start + _EMBED_ROWS)
            vectors[known[part]] = staging.base.vectors[earlier[part]]
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

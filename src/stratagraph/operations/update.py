"""The one recipe behind build, rebuild, insert, delete, add_method, regroup, reembed and estimate.

Read documents, assemble the corpus, embed, extract, merge the graph, build each method, publish. An estimate
is the same recipe with a counting gate and without the last step. What a change means is decided under the
writer's lock, from the generation that it follows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from threading import Event
from typing import TypeVar

import numpy as np

from stratagraph.config import Config
from stratagraph.errors import SettingsConflict, VectorStoreError
from stratagraph.ingest.carryover import Before, Kept, TextsOnly
from stratagraph.ingest.extraction.stage import NAME as EXTRACTION
from stratagraph.ingest.extraction.stage import extract_corpus
from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph, build_graph
from stratagraph.ingest.graph.statements import Pooled
from stratagraph.ingest.headings import forget_bylines
from stratagraph.methods import get_method
from stratagraph.methods.groups import GroupBuilder
from stratagraph.models.gate import ModelGate
from stratagraph.models.tracing import logger
from stratagraph.operations.changes import (
    Change,
    continued,
    require_methods,
    require_same_settings,
    settings_of,
)
from stratagraph.operations.checks import UNNAMED, blamed, check_all
from stratagraph.operations.documents import Intake, arrivals, require_some
from stratagraph.operations.gates import Models
from stratagraph.operations.listing import documents_of
from stratagraph.store.folder import IndexFolder
from stratagraph.store.manifest import Manifest
from stratagraph.store.snapshot import Snapshot
from stratagraph.store.staging import Staging
from stratagraph.system.memory import release
from stratagraph.system.threads import entered, in_thread, stoppable
from stratagraph.types.built import Built
from stratagraph.types.dates import day_of
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import BuildReport, DocumentState, Usage

T = TypeVar("T")
SHARED = (EXTRACTION, GRAPH)  # parts that all methods rest on
SAME_EMBEDDER = "nothing done: the vectors are of this embedder already"
NO_VECTOR = "texts without a vector, not found by similarity"
NOT_ASKED = "passages, too few for a summary; the model was not asked"
_EMBED_ROWS = 1024
_MANY = 1024  # new chunks from which on freed memory is returned to the system after each stage
_NAMED = 10  # documents that a line of the log names


async def update(
    folder: IndexFolder, gate: ModelGate, models: Models, change: Change, *, publish: bool = True
) -> BuildReport:
    """Carry out a change with these models and publish it, or only reckon what it takes."""
    before = (await in_thread(folder.snapshot)).manifest if folder.generation else None
    require_methods(before, change)
    action = change.action
    writer = folder.writer(
        action.name, compact=action.rewrites, restore=action.embeds_all, anew=action.starts_over
    )
    async with entered(writer) as staging:
        with stoppable() as stop:
            return await _Update(folder, gate, models, change, staging, stop, publish).run()


class _Update:
    """One update under way."""

    def __init__(
        self,
        folder: IndexFolder,
        gate: ModelGate,
        models: Models,
        change: Change,
        staging: Staging,
        stop: Event,
        publish: bool,
    ) -> None:
        self._folder, self._gate, self._models, self._publishes = folder, gate, models, publish
        self._change = change
        self._staging = staging
        self._before = staging.base
        self._stop = stop
        self._methods, self._config = self._planned()
        self._intake = Intake()
        self._removed: tuple[str, ...] = ()
        self._notes: Counter[str] = Counter()
        self._complete: dict[str, bool] = {}
        self._graph: Graph | None = None
        methods = map(get_method, self._methods)
        has_units = any(method.needs_units or method.needs_vectors for method in methods)
        self._pooled = Pooled() if self._gate.offers_spans and has_units else None
        self._embeds_all = change.action.embeds_all

    def _planned(self) -> tuple[tuple[str, ...], Config]:
        """The methods and settings of the next generation."""
        change, before = self._change, self._before
        if before is None:
            return tuple(change.methods), change.config
        recorded = settings_of(before.manifest, change.config)
        if change.action.continues:
            require_same_settings(self._models, before.manifest, before.path, change)
            return continued(before.manifest, change)
        if not change.action.changes_embedder:
            self._models.check_embedder(before.manifest, before.path)
        present = before.manifest.methods
        if change.action.embeds_all and present and before.manifest.spent and not self._gate.has_llm:
            kind = SettingsConflict if change.action.changes_embedder else VectorStoreError
            raise kind(
                f"{change.action.name}: a model wrote the summaries ({', '.join(before.manifest.spent)}), "
                "and those of groups that change are written again: open the index with llm=...; summaries "
                "of other groups stay"
            )
        if change.action.is_upkeep:
            return tuple(present), recorded
        added = {name: change.config.method(name) for name in change.methods}
        config = replace(recorded, methods={**recorded.methods, **added}) if added else recorded
        return tuple(dict.fromkeys([*present, *change.methods])), config

    async def run(self) -> BuildReport:
        self._intake = await in_thread(self._take_in)
        named, vanished = await in_thread(self._leaving)
        if self._change.documents is not None and not vanished and not self._change.share:
            require_some(self._intake)
        self._removed = (*named, *self._intake.emptied, *vanished)
        if self._before is not None:
            if self._nothing_to_do(self._before):
                if self._change.action.changes_embedder:
                    self._notes[SAME_EMBEDDER] = 1
                return self._report(self._before, self._before.manifest.generation)
            with self._booked("check"):
                await in_thread(check_all, self._before)
        try:
            return await self._next_generation()
        except UNNAMED as error:
            if self._before is not None and (damage := await in_thread(blamed, self._before, error)):
                raise damage from error
            raise
        finally:
            if self._removed or self._intake.updated or self._staging.replaced is not None:
                forget_bylines()  # which quote texts that were deleted or replaced

    async def _next_generation(self) -> BuildReport:
        """Make and publish the next generation."""
        if self._publishes:
            self._gate.ledger.resume(await in_thread(self._folder.journal.spent))
        with self._booked("assemble"):
            await in_thread(self._staging.assemble, removed=self._removed)
        self._gate.documents_of = partial(documents_of, self._staging)
        if self._pooled is None:  # so that an embedder that fails does so before a model is paid
            await self._embed()
            await self._extract()
        else:  # statements are embedded together with the passages that hold them
            await self._extract()
            await self._embed()
        await self._give_back()
        with self._booked(GRAPH):
            await self._lay_out_graph()
        await self._give_back()
        for name in self._methods:
            with self._gate.independently():
                await self._build_method(name)
            await self._give_back()
        self._gate.require_answers()
        if failures := self._gate.failures:
            documents = sorted({document for each in failures for document in each.documents})
            shown = ", ".join(documents[:_NAMED]) + (" ..." if len(documents) > _NAMED else "")
            name, count = self._change.action.name, len(failures)
            logger.warning("%s: %d units failed, of documents %s", name, count, shown or "none")
        usage = self._gate.ledger.total
        builds = self._change.action.builds and bool(self._methods)
        if builds and self._gate.has_llm and not usage.calls and not usage.cached_calls:
            self._notes[NOT_ASKED] = self._staging.size
        with self._booked("publish"):
            generation = await in_thread(self._publish) if self._publishes else 0
        return self._report(self._staging, generation)

    async def _give_back(self) -> None:
        """Return freed memory to the system, unless there are few new chunks."""
        if self._staging.size - len(self._staging.known_rows()[0]) >= _MANY:
            await in_thread(release)

    @contextmanager
    def _booked(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to the ledger, without those of stages inside it; not in estimates."""
        ledger = self._gate.ledger
        began, booked = time.perf_counter(), ledger.total.seconds
        with self._gate.underway(name):
            yield
        if self._publishes:
            seconds = time.perf_counter() - began - (ledger.total.seconds - booked)
            ledger.add(name, Usage(seconds=max(0.0, seconds)))

    async def _build_method(self, name: str) -> None:
        with self._booked(name):
            assert self._graph is not None
            config, previous = self._config.method(name), self._previous(name)
            regroup = self._change.action.regroups and name in self._change.methods
            if previous is not None and self._before is not None:
                settings = settings_of(self._before.manifest, self._change.config).method(name)
                regroup |= settings.group_settings != config.group_settings
            builder = GroupBuilder(
                self._staging, self._graph, self._gate, config, previous, divides_anew=regroup
            )
            built = await builder.with_statements(await get_method(name).build(builder))
        await self._put(name, built)

    def _take_in(self) -> Intake:
        """Store the new and changed documents, and tell what happened to each."""
        intake = Intake()
        if self._change.documents is None:
            return intake
        existing = {} if self._before is None else self._before.document_states()
        self._change.join(self._before)
        states: dict[str, DocumentState] = {}
        with self._gate.stage("read"):
            coming = arrivals(
                self._change.documents, self._config.chunking, self._models.count_tokens, self._notes
            )
            for each in self._until_stopped(coming):
                if each.id in states:
                    if each.state != states[each.id]:
                        raise ValueError(
                            f"document id {each.id!r} was given twice with different content; "
                            "ids must be unique within one call"
                        )
                    intake.skipped.append(each.id)
                    continue
                states[each.id] = each.state
                if existing.get(each.id) == each.state:
                    intake.unchanged.append(each.id)
                    continue
                self._gate.advance("read")
                chunks = self._until_stopped(each.chunks())
                if (first := next(chunks, None)) is None:  # it has no text
                    (intake.emptied if each.id in existing else intake.skipped).append(each.id)
                    continue
                self._staging.add(each.id, each.state, each.metadata, chain([first], chunks))
                (intake.updated if each.id in existing else intake.added).append(each.id)
                key = self._config.date_key
                if key is not None and day_of(each.metadata.get(key)) is None:
                    self._notes[f"documents without a date in {key!r}"] += 1
        return intake

    def _until_stopped(self, items: Iterator[T]) -> Iterator[T]:
        """The items, until the operation is cancelled."""
        for item in items:
            if self._stop.is_set():
                raise InterruptedError("the operation was cancelled")
            yield item

    def _leaving(self) -> tuple[list[str], list[str]]:
        """Ids of documents that are to be deleted, and of those that the input has no more."""
        change, intake = self._change, self._intake
        states = {} if self._before is None else self._before.document_states()
        change.require_known([each for each in change.removed if each not in states])
        given = {*intake.updated, *intake.emptied, *intake.unchanged, *change.removed}
        left = states.items() if change.may_remove else ()
        vanished = [each for each, state in left if each not in given and change.removes(each, state)]
        return [each for each in change.removed if each in states], vanished

    def _nothing_to_do(self, before: Snapshot) -> bool:
        moves = self._folder.table is not None and not before.manifest.vectors  # into a vector store
        if self._change.action.changes_embedder:
            return self._models.has_embedder_of(before.manifest)
        if self._change.action.is_upkeep or moves:
            return False
        same_corpus = not (self._removed or self._intake.added or self._intake.updated)
        same_methods = self._methods == tuple(before.manifest.methods)
        same_settings = self._config.to_dict(self._methods) == before.manifest.config
        same_roots = self._change.roots_after(before.manifest.roots) == before.manifest.roots
        if not (same_corpus and same_methods and same_settings and same_roots):
            return False
        parts = (*self._methods, *SHARED) if self._extracts_by_model() else self._methods
        return not self._gate.has_llm or all(before.manifest.complete.get(part, False) for part in parts)

    def _extracts_by_model(self) -> bool:
        mode = self._config.extraction.mode
        if mode == "llm" and not self._gate.has_llm and self._before is None:
            raise ValueError("extraction mode 'llm' needs a model: pass llm=..., or mode 'auto' or 'nlp'")
        needed = any(get_method(name).needs_graph for name in self._methods)
        return self._gate.has_llm and (mode == "llm" or (mode == "auto" and needed))

    async def _embed(self) -> None:
        """Copy the vectors of known chunks, and embed the others."""
        staging = self._staging
        fresh = np.ones(staging.size, dtype=np.bool_)
        fresh[staging.known_rows()[0]] = False
        rows = np.flatnonzero(fresh)
        vectors = None
        if self._embeds_all:
            rows = np.arange(staging.size)
        elif self._before is not None and self._before.manifest.dimension:
            with self._booked("assemble"):
                vectors = await in_thread(staging.create_vectors, self._before.manifest.dimension)
        with self._gate.stage("embed chunks", len(rows)):
            for start in range(0, len(rows), _EMBED_ROWS):
                batch = rows[start : start + _EMBED_ROWS]
                if self._pooled is None:
                    chunks = await in_thread(staging.chunks, batch.tolist())
                    texts, own = [chunk.searched_text for chunk in chunks], [(chunk.id,) for chunk in chunks]
                    embedded = await self._gate.embed("embed chunks", texts, own)
                else:  # with the vectors of what the chunks state
                    nodes = await in_thread(staging.part(EXTRACTION).nodes, batch.tolist())
                    embedded = await self._pooled.embed(
                        "embed chunks", self._gate, staging, batch.tolist(), nodes
                    )
                if vectors is None:
                    vectors = await in_thread(
                        staging.create_vectors, embedded.shape[1], copy_known=not self._embeds_all
                    )
                vectors[batch] = embedded
        if vectors is None:  # an index that begins empty learns its dimension from the first insert
            dimension = 0
            if self._folder.table is not None:  # a vector store must know it
                dimension = len(await self._gate.embed_query("a"))
            await in_thread(staging.create_vectors, dimension)

    async def _extract(self) -> None:
        config = self._config.extraction
        extracted = await extract_corpus(
            self._staging,
            self._gate,
            config=config,
            previous=self._previous(EXTRACTION),
            kept=self._kept(),
            use_llm=self._extracts_by_model(),
            given=self._change.extraction,
            may_load=self._models.spacy == config.spacy,
        )
        await self._put(EXTRACTION, extracted)

    async def _lay_out_graph(self) -> None:
        config, use_llm = self._config.extraction, self._extracts_by_model()
        methods = [get_method(name) for name in self._methods]
        graph = await build_graph(
            self._staging,
            self._staging.part(EXTRACTION),
            self._gate,
            config=config,
            previous=self._previous(GRAPH),
            use_llm=use_llm,
            kept=self._kept(),
            embeds_units=any(method.needs_units for method in methods),
            embeds_entities=any(method.needs_vectors for method in methods),
            pooled=self._pooled,
            rule=self._models.resolve_rule,
        )
        await self._put(GRAPH, graph)
        stored, previous, before = self._staging.part(GRAPH), self._previous(GRAPH), None
        if previous is not None and not self._embeds_all:
            before = Before(previous, stored, self._rows_before())
        self._graph = Graph(stored, before)

    def _previous(self, name: str) -> Stored | None:
        if self._before is None or not self._before.size or name not in self._before.manifest.parts:
            return None
        part = self._before.part(name)
        return TextsOnly(part) if self._embeds_all and name != EXTRACTION else part

    def _kept(self) -> Kept | None:
        """The chunks that the previous generation has too."""
        if self._before is None or not self._before.size or self._embeds_all:
            return None
        rows_before = self._rows_before()
        removed = np.setdiff1d(np.arange(self._before.size), rows_before)
        batches = (removed[at : at + _EMBED_ROWS].tolist() for at in range(0, len(removed), _EMBED_ROWS))
        chunks = chain.from_iterable(map(self._before.chunks, batches))
        texts = (chunk.searched_text for chunk in chunks)
        return Kept(rows_before, texts, self._previous(EXTRACTION), self._staging.arrived_rows())

    def _rows_before(self) -> Rows:
        """The previous row of each chunk, or -1."""
        rows = np.full(self._staging.size, -1, np.int64)
        now, before = self._staging.known_rows()
        rows[now] = before
        return rows

    async def _put(self, name: str, built: Built) -> None:
        self._notes.update(built.notes)
        self._complete[name] = built.complete
        with self._booked("store"):
            once = name == EXTRACTION  # the merger reads all of it, in order
            put = partial(self._staging.put_part, read_once=once)
            await in_thread(put, name, built.nodes, built.arrays)

    def _publish(self) -> int:
        before = None if self._before is None else self._before.manifest
        spent = {} if before is None else dict(before.spent)
        for model, used in self._gate.ledger.models.items():
            earlier = spent.get(model, {})
            counts = {name: getattr(used, name) for name in ("calls", "input_tokens", "output_tokens")}
            spent[model] = {name: count + earlier.get(name, 0) for name, count in counts.items()}
        dimension = self._staging.vectors.shape[1]
        return self._staging.publish(
            Manifest(
                parts={name: asdict(self._config.method(name)) for name in self._methods}
                | {name: asdict(self._config.extraction) for name in SHARED},
                methods=self._methods,
                embedder=self._models.embedder_name(dimension),
                dimension=dimension,
                tokenizer=self._models.count_tokens.name,
                config=self._config.to_dict(self._methods),
                prompts={**({} if before is None else before.prompts), **self._gate.prompts_used},
                complete=self._complete,
                roots=self._change.roots_after({} if before is None else before.roots),
                spent=spent,
            )
        )

    def _report(self, corpus: Snapshot | Staging, generation: int) -> BuildReport:
        zeros, deleted = len(self._gate.zero_vectors), self._removed
        if (replaced := self._staging.replaced) is not None:  # a rebuild
            present = corpus.document_metadata()
            deleted = tuple(each for each in replaced.document_states() if each not in present)
        return BuildReport(
            operation=self._change.action.name,
            generation=generation,
            documents=corpus.document_count,
            chunks=corpus.size,
            nodes={name: corpus.part(name).size for name in (*self._methods, GRAPH)},
            added=tuple(self._intake.added),
            updated=tuple(self._intake.updated),
            deleted=deleted,
            unchanged=tuple(self._intake.unchanged),
            skipped=tuple(self._intake.skipped),
            failures=tuple(self._gate.failures),
            vanished=self._change.vanished(self._before),
            notes={**self._notes, NO_VECTOR: zeros} if zeros else dict(self._notes),
            stages=dict(self._gate.ledger.stages),
            models=self._gate.ledger.models,
            cost=self._gate.cost,
        )

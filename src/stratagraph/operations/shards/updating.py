"""Carries out a change in a folder, or in the shards that it concerns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from stratagraph.errors import MapperError, NotAnIndex
from stratagraph.ingest.graph.entity_resolution import Rule
from stratagraph.mapping import in_order
from stratagraph.models.budget import Account, Prices
from stratagraph.models.estimate import Estimate
from stratagraph.operations.changes import (
    ADD_METHOD,
    DELETE,
    Change,
    continued,
    require_methods,
    require_same_settings,
)
from stratagraph.operations.documents import Documents, as_document, check_documents
from stratagraph.operations.gates import Models
from stratagraph.operations.update import update
from stratagraph.store.folder import IndexFolder
from stratagraph.store.shards import ShardedFolder
from stratagraph.store.snapshot import JoinedSnapshot
from stratagraph.store.spread import ADD_METHOD as UNFINISHED_METHOD
from stratagraph.store.spread import BUILD as UNFINISHED_BUILD
from stratagraph.store.spread import Spread
from stratagraph.system.threads import in_thread, stoppable
from stratagraph.types.records import (
    BuildReport,
    Chunk,
    Document,
    StreamedDocument,
    Usage,
    content_key,
    json_native,
)

GivenDocument = str | Document | StreamedDocument | Chunk
SIDE_BY_SIDE = 2
"""Shards that are changed at once, so that one works while the other waits for a model."""
_STAGE = "shards"
_AHEAD = 2  # shards sent to each worker in advance; each is sent with its documents


async def carried_out(folder: IndexFolder | ShardedFolder, models: Models, change: Change) -> BuildReport:
    """Carry out a change and publish it."""
    if isinstance(folder, ShardedFolder):
        return await _Shards(folder, models).changed(change)
    anew = change.action.starts_over or change.action.changes_embedder
    gate = models.gate(folder, change.config, anew=anew)
    return await update(folder, gate, models, change)


async def estimated(
    folder: IndexFolder | ShardedFolder, models: Models, change: Change, prices: Prices | None
) -> Estimate:
    """Estimate the cost of a change."""
    if isinstance(folder, ShardedFolder):
        return await _Shards(folder, models).estimated(change, prices)
    gate = models.counting_gate(folder, change.config, of_build=True)
    await update(folder, gate, models, change, publish=False)
    estimate = gate.estimate(prices)
    calls = estimate.stages.get("extract", Usage())
    return replace(estimate, form=change.config.extraction.form if calls.calls + calls.cached_calls else "")


Steps = dict[int, Change]
"""Changes by the numbers of the shards."""


class _Shards:
    def __init__(self, folder: ShardedFolder, models: Models) -> None:
        self._folder = folder
        self._models = models

    async def changed(self, change: Change) -> BuildReport:
        """Change the shards concerned, side by side, on one budget."""
        self._folder.require_whole(change.action.name)
        before = await in_thread(self._before)
        require_methods(None if before is None else before.manifest, change)
        spread, phases, skipped = await in_thread(self._planned, change, before)
        await in_thread(self._folder.record_built, spread)
        if mark := self._mark_of_unfinished(change, before):
            await in_thread(self._folder.tell, mark)
        deletes = change.action == DELETE and sum(map(len, phases)) > 1
        if deletes:
            await in_thread(self._folder.tell_deleting, map(content_key, change.removed))
        await in_thread(self._forget, phases, before)
        models, mapper = self._models, self._models.mapper
        # With given extractions, shards are built here: workers would each be sent all of them.
        apart = mapper.apart and mapper.shared_files and models.free and change.extraction is None
        account, reports = models.account(), []
        try:
            for steps in phases:  # a document is in its new shard before it is deleted from the old one
                if len(steps) > 1 and apart:
                    reports += await self._apart(steps)
                else:
                    reports += await self._side_by_side(steps, account)
        finally:
            await in_thread(self._folder.record_built, spread)
            await in_thread(self._forget, phases, before)
        if mark:
            await in_thread(self._folder.tell, None)
        if deletes or (change.action == DELETE and self._folder.spread.deleting):
            await in_thread(self._folder.tell_deleting, ())
        report = self._report(change, reports, skipped)
        return replace(report, vanished=change.vanished(before))

    async def estimated(self, change: Change, prices: Prices | None) -> Estimate:
        """The sum over the shards concerned."""
        before = await in_thread(self._before)
        spread, phases, _ = await in_thread(self._planned, change, before)
        estimates = []
        for shard, step in chain.from_iterable(steps.items() for steps in phases):
            exists = shard < len(self._folder.spread.shards)
            folder = self._folder.folder(spread.shards[shard]) if exists else IndexFolder.create(None)
            try:
                estimates.append(await estimated(folder, self._models, step, prices))
            finally:
                if not exists:
                    folder.close()
        form = next((each.form for each in estimates if each.form), "")
        return Estimate(
            _usage(each.stages for each in estimates), _sum([each.cost for each in estimates]), form
        )

    def _mark_of_unfinished(self, change: Change, before: JoinedSnapshot | None) -> str | None:
        """The mark of a change that, if it stops half way, leaves an incomplete index; else None."""
        if change.action.continues:
            if before is None or self._folder.spread.unfinished == UNFINISHED_BUILD:
                return UNFINISHED_BUILD
            methods, _ = continued(before.manifest, change)
            return UNFINISHED_METHOD if methods != tuple(before.manifest.methods) else None
        return UNFINISHED_METHOD if change.action == ADD_METHOD else None

    def _before(self) -> JoinedSnapshot | None:
        try:
            return self._folder.snapshot()
        except NotAnIndex:
            return None

    def _planned(
        self, change: Change, before: JoinedSnapshot | None
    ) -> tuple[Spread, list[Steps], list[str]]:
        """The new assignment, the steps of each phase, and skipped ids."""
        spread = self._folder.spread
        if change.action.takes_documents:
            assert change.documents is not None
            may_be_empty = change.may_remove and before is not None
            change.join(before)
            routes = _routed(change.documents, spread, before, may_be_empty=may_be_empty)
            if change.action.continues and (before is None or spread.unfinished == UNFINISHED_BUILD):
                self._owe(change, routes, before)
            return routes.spread, self._taking(change, routes, before), routes.skipped
        assert before is not None
        if change.action != DELETE:
            return spread, [dict.fromkeys(before.numbers, change)], []
        holders, unknown = _removals(tuple(change.removed), before)
        change.require_known([each for each in unknown if content_key(each) not in spread.deleting])
        return spread, [{n: replace(change, removed=tuple(ids)) for n, ids in holders.items()}], []

    def _owe(self, change: Change, routes: _Routed, before: JoinedSnapshot | None) -> None:
        """Record the documents of a first build; whoever resumes it must give them again."""
        keys = set(map(content_key, routes.ids)) - set(map(content_key, routes.skipped))
        if before is not None and not change.may_remove:
            lost = set(routes.spread.owed) - keys - set(map(content_key, before.document_states()))
            if lost:
                raise NotAnIndex(
                    f"{self._folder.path}: a build of {len(routes.spread.owed)} documents was stopped, and "
                    f"{len(lost)} of them are neither built nor given now; give them too, or build in "
                    "another folder"
                )
        routes.spread = replace(routes.spread, owed=tuple(keys))

    def _taking(self, change: Change, routes: _Routed, before: JoinedSnapshot | None) -> list[Steps]:
        """The steps that bring documents to their shards; a new shard gets the settings of the others."""
        items = routes.items
        pruned: dict[int, list[str]] = {}
        recorded = {} if before is None else before.manifest.roots
        own = replace(change, documents=(), prune=False, files=(), share=True)
        own = replace(own, roots=change.roots_after(recorded))
        if before is not None and own.roots != recorded:  # which all shards record
            items = {number: [] for number in before.numbers} | items
        if before is not None and change.action.continues:  # in all shards: each gets the methods
            require_same_settings(self._models, before.manifest, before.path, change, shards=True)
            methods, config = continued(before.manifest, change)
            own = replace(own, methods=methods, config=config)
            items = {number: [] for number in before.numbers} | items
        if before is not None and change.may_remove:
            states = before.document_states().items()
            absent = [each for each, state in states if change.removes(each, state)]
            pruned, _ = _removals([each for each in absent if each not in routes.ids], before)
            items = {number: [] for number in pruned} | items
        steps: Steps = {}
        for shard, documents in sorted(items.items()):
            steps[shard] = replace(own, documents=documents, removed=tuple(pruned.get(shard, ())))
            if before is not None and shard not in before.numbers:
                steps[shard] = replace(steps[shard], methods=own.methods or before.manifest.methods)
        leaving = Change(DELETE, config=change.config)
        moves = {shard: replace(leaving, removed=tuple(ids)) for shard, ids in routes.moved.items()}
        return [steps, moves] if moves else [steps]

    async def _side_by_side(self, steps: Steps, account: Account) -> list[BuildReport]:
        """Do all steps; after an error none is started, and running ones are awaited."""
        slots, failed = asyncio.Semaphore(SIDE_BY_SIDE), asyncio.Event()

        async def one(shard: int, change: Change) -> BuildReport | None:
            async with slots:
                if failed.is_set():
                    return None
                name = str(self._folder.spread.shards[shard])
                try:
                    folder = await in_thread(self._folder.folder, self._folder.spread.shards[shard])
                    gate = self._models.gate(folder, change.config, account=account, name=name)
                    return await update(folder, gate, self._models, change)
                except BaseException as error:
                    failed.set()
                    error.add_note(f"in {name} of {self._folder.path}")
                    raise

        results = await asyncio.gather(*(one(*each) for each in steps.items()), return_exceptions=True)
        for each in results:
            if isinstance(each, BaseException):
                raise each
        return [each for each in results if isinstance(each, BuildReport)]

    async def _apart(self, steps: Steps) -> list[BuildReport]:
        """Do all steps in workers, one shard each; after an error none is started."""
        models, shards = self._models, {self._folder.spread.shards[n]: each for n, each in steps.items()}
        jobs = [
            _Job(str(shard), self._folder.folder(shard).path.absolute(), change)
            for shard, change in shards.items()
        ]
        work = partial(
            _changed_by_worker,
            embedder=models.embedder,
            tokenizer=models.count_tokens.name,
            resolve_rule=models.resolve_rule,
            spacy=models.spacy,
        )

        def run(stop: Event) -> list[BuildReport]:
            mapper, progress, reports = models.mapper, models.progress, []
            if progress is not None:
                progress.start(_STAGE, len(jobs))
            try:
                for report in in_order(mapper, work, jobs, stop, ahead=_AHEAD, finish=True):
                    reports.append(report)
                    if progress is not None:
                        progress.advance(_STAGE)
            except InterruptedError:  # workers hold the locks of their shards, and would go on
                mapper.close()
                raise
            finally:
                if progress is not None:
                    progress.finish(_STAGE)
            return reports

        with stoppable() as stop:
            return await in_thread(run, stop)

    def _forget(self, phases: list[Steps], before: JoinedSnapshot | None) -> None:
        """Purge cached answers that quote deleted or replaced chunks."""
        if before is None or not self._folder.calls.exists():
            return
        cached = self._folder.calls.chunks()
        row_of = before.row_of(cached)
        rows = sorted(row_of.values())
        documents = before.document_ids(before.chunk_documents()[rows].tolist()) if rows else []
        named: set[str] = set()  # documents that are replaced or removed
        for step in chain.from_iterable(steps.values() for steps in phases):
            named.update(step.removed)
            for item in step.documents or ():
                named.add(str(getattr(item, "document_id", None) or getattr(item, "id", "")))
        owners = dict(zip(rows, documents, strict=True))
        self._folder.calls.purge(
            chunk for chunk in cached if chunk not in row_of or owners[row_of[chunk]] in named
        )

    def _report(self, change: Change, reports: list[BuildReport], skipped: list[str]) -> BuildReport:
        after = self._folder.snapshot()
        added = dict.fromkeys(each for report in reports for each in report.added)
        deleted = dict.fromkeys(each for report in reports for each in report.deleted)
        moved = tuple(each for each in added if each in deleted)  # out of one shard, into another
        return BuildReport(
            operation=change.action.name,
            generation=after.manifest.generation,
            documents=after.document_count,
            chunks=after.size,
            nodes={name: count for name, count in after.manifest.nodes.items() if name != "extraction"},
            added=tuple(each for each in added if each not in deleted),
            updated=(*(each for report in reports for each in report.updated), *moved),
            deleted=tuple(each for each in deleted if each not in added),
            unchanged=tuple(each for report in reports for each in report.unchanged),
            skipped=(*skipped, *(each for report in reports for each in report.skipped)),
            failures=tuple(each for report in reports for each in report.failures),
            notes=dict(sum((Counter(report.notes) for report in reports), Counter())),
            stages=_usage(report.stages for report in reports),
            models=_usage(report.models for report in reports),
            cost=_sum([each.cost for each in reports]),
        )


def _sum(costs: Sequence[float | None]) -> float | None:
    return None if None in costs else sum(filter(None, costs))


def _usage(parts: Iterable[Mapping[str, Usage]]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for each in parts:
        for name, used in each.items():
            total[name] = total.get(name, Usage()) + used
    return total


class _Job(NamedTuple):
    """A change of one shard, in the form sent to a worker."""

    name: str
    path: Path
    change: Change


def _changed_by_worker(
    job: _Job, *, embedder: Any, tokenizer: str, resolve_rule: Rule, spacy: str | None
) -> BuildReport:
    """Change a shard; runs in a worker."""
    if not job.path.is_dir():
        raise MapperError(
            f"a worker does not see the folder {str(job.path)!r}: build on a file system that all machines "
            'share, or with mapper("ray", shared_files=False), which builds shards here and maps their stages'
        )
    models = Models(None, embedder, resolve_rule=resolve_rule, spacy=spacy)
    models.prefer_tokenizer(tokenizer)
    folder = IndexFolder.create(job.path)
    try:
        gate = models.gate(folder, job.change.config)
        return asyncio.run(update(folder, gate, models, job.change))
    except Exception as error:
        error.add_note(f"in {job.name} of {job.path.parent}")
        raise
    finally:
        folder.close()


@dataclass(slots=True)
class _Routed:
    """Documents by shard number, ids that leave a shard, skipped blank documents, and all ids given."""

    spread: Spread
    items: dict[int, list[GivenDocument]] = field(default_factory=dict)
    moved: dict[int, list[str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    ids: Collection[str] = ()


def _routed(
    documents: Documents, spread: Spread, snapshot: JoinedSnapshot | None, *, may_be_empty: bool = False
) -> _Routed:
    """Assign each document to a shard by its id, or by its value of the key, which may be new.

    A document whose value changed leaves its old shard. Raises `TypeError` if an item is no document, and
    `ValueError` if a document has no value of the key, an id comes with two, or all documents are blank.
    """
    check_documents(documents)
    routes = _Routed(spread)
    shards: dict[str, int] = {}
    for position, item in enumerate(documents):
        document = item if isinstance(item, Chunk) else as_document(item, position)
        identity = document.document_id if isinstance(document, Chunk) else document.id
        by = spread.by
        if by is None:
            shard = spread.shard_of(identity)
        else:
            value = json_native(document.metadata.get(by), key=by)
            if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
                raise ValueError(
                    f"document {identity!r} has no {by!r} in its metadata by which shards are made "
                    f"(found {value!r}); give each document a text or a whole number there"
                )
            valued = routes.spread.valued(str(value))
            if valued is None:  # a new value gets a new shard
                routes.spread = routes.spread.with_value(str(value))
                valued = len(routes.spread.shards) - 1
            shard = valued
        if shards.setdefault(identity, shard) != shard:
            raise ValueError(f"document id {identity!r} was given twice, with different {routes.spread.by!r}")
        blank = not isinstance(document, StreamedDocument) and not document.text.strip()
        if blank and (snapshot is None or not _holders(snapshot, [identity])):
            routes.skipped.append(identity)
        else:
            routes.items.setdefault(shard, []).append(item)
    routes.ids = shards
    if not routes.items and not may_be_empty:
        if routes.skipped:
            raise ValueError(f"all {len(routes.skipped)} documents are blank; nothing was written")
        if snapshot is None:
            raise ValueError("no documents were given, and shards begin with some; nothing was written")
    if spread.by is not None and snapshot is not None:
        for identity, holders in _holders(snapshot, list(shards)).items():
            for holder in holders:
                if (place := snapshot.numbers[holder]) != shards[identity]:
                    routes.moved.setdefault(place, []).append(identity)
    return routes


def _removals(ids: Sequence[str], snapshot: JoinedSnapshot) -> tuple[dict[int, list[str]], list[str]]:
    """Ids by the number of the shard that holds them, and unknown ids."""
    holders_by_id = _holders(snapshot, ids)
    leaving: dict[int, list[str]] = {}
    for identity, holders in holders_by_id.items():
        for holder in holders:
            leaving.setdefault(snapshot.numbers[holder], []).append(identity)
    return leaving, [identity for identity in ids if identity not in holders_by_id]


def _holders(snapshot: JoinedSnapshot, ids: Sequence[str]) -> dict[str, list[int]]:
    """The snapshot's parts that hold documents of these ids."""
    holders: dict[str, list[int]] = {}
    for number, part in enumerate(snapshot.parts):
        for identity in part.document_metadata(ids):
            holders.setdefault(identity, []).append(number)
    return holders

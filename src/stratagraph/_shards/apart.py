"""Whole shards in the workers of a mapper, where no model is paid and workers see the files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from stratagraph._build import Change, Target, update
from stratagraph._gates import Models
from stratagraph._mapping import in_order
from stratagraph.errors import MapperError
from stratagraph.pipeline.entity_resolution import Rule
from stratagraph.records import BuildReport
from stratagraph.store.folder import IndexFolder

_STAGE = "shards"
_AHEAD = 2  # shards for each worker that are on their way; each has its documents with it


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done in one shard, as it goes to a worker."""

    name: str
    path: Path
    change: Change
    embedder: Any
    tokenizer: str
    resolve_rule: Rule
    spacy: str | None


def jobs_may_leave(models: Models, change: Change) -> bool:
    """Whether workers may carry out a change in a whole shard.

    Extractions that the caller gave are not sent along with every shard.
    """
    mapper = models.mapper
    return mapper.apart and mapper.shared_files and models.free and change.extraction is None


def job_of(name: str, folder: IndexFolder, change: Change, models: Models) -> Job:
    """What a worker needs to carry out a change in a shard."""
    return Job(
        name,
        folder.path.absolute(),
        change,
        models.embedder,
        models.count_tokens.name,
        models.resolve_rule,
        models.spacy,
    )


def done_apart(jobs: Sequence[Job], models: Models, stop: Event) -> list[BuildReport]:
    """Have workers carry out changes; after an error none is begun, and those that run are waited for."""
    mapper, progress, reports = models.mapper, models.progress, []
    if progress is not None:
        progress.start(_STAGE, len(jobs))
    try:
        for report in in_order(mapper, done, jobs, stop, ahead=_AHEAD, settle=True):
            reports.append(report)
            if progress is not None:
                progress.advance(_STAGE)
    except InterruptedError:  # the workers hold locks, and would go on for long
        mapper.close()
        raise
    finally:
        if progress is not None:
            progress.finish(_STAGE)
    return reports


def done(job: Job) -> BuildReport:
    """Carry out a change in a shard; runs in a worker."""
    if not job.path.is_dir():
        raise MapperError(
            f"a worker does not see the folder {str(job.path)!r}: build on a file system that all machines "
            'share, or with mapper("ray", shared_files=False), which builds shards here and maps their stages'
        )
    models = Models(None, job.embedder, resolve_rule=job.resolve_rule, spacy=job.spacy)
    models.prefer_tokenizer(job.tokenizer)
    folder = IndexFolder.create(job.path)
    try:
        gate = models.gate(folder, job.change.config, journal=folder.journal)
        return asyncio.run(update(Target(folder, gate, models), job.change))
    except Exception as error:
        error.add_note(f"in {job.name} of {job.path.parent}")
        raise
    finally:
        folder.close()

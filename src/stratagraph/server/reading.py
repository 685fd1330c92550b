"""Reads uploaded files: each kind in another process, with bounds of time and memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import stratagraph as sg
from stratagraph.ingest.loaders import FileDocuments
from stratagraph.server.state import Job


def read_upload(path: Path, name: str, job: Job) -> tuple[list[sg.Document | sg.StreamedDocument], bool]:
    """Read an uploaded file; returns its documents, named after it, and whether the whole file was read.

    Raises
    ------
    ValueError
        If there is nothing to read, or if reading takes more time or memory than is allowed.
    """
    documents = FileDocuments(
        [path],
        name=name,
        on_skip=job.skipped.__setitem__,
        on_warning=job.warnings.__setitem__,
        all_apart=True,
    )
    try:
        read = [replace(each, root="") for each in documents]  # of no folder that an index can read again
    except ValueError:
        if reason := job.skipped.get(name):
            raise ValueError(f"{name}: {reason}") from None
        raise
    return read, bool(documents.files)

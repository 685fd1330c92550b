"""Routes for changes: each adds or deletes documents in a job, whose progress can be watched."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

import stratagraph as sg
from stratagraph.ingest.loaders import FileDocuments
from stratagraph.server.state import Job, State, state_of

DOCUMENTS_BYTES = 4 * 2**20
"""Largest body of documents as JSON. Parsing it blocks the server, so larger texts must come as files."""
router = APIRouter(tags=["changes"])
Server = Annotated[State, Depends(state_of)]


class GivenDocument(BaseModel):
    """A document to add; it replaces a document with the same id."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=1000)
    text: str
    metadata: dict[str, Any] = {}


class Removal(BaseModel):
    """Ids of documents; an unknown id fails the job unless `missing_ok`."""

    ids: list[str] = Field(min_length=1, max_length=10_000)
    missing_ok: bool = False


async def _may_change(server: Server) -> State:
    """The server's state. Refuses the request if the server is read-only or too many changes wait."""
    if server.settings.read_only:
        raise HTTPException(403, "this server was started with --read-only")
    server.jobs.check_room()
    return server


Writable = Annotated[State, Depends(_may_change)]


@router.post("/documents", status_code=202)
async def add(documents: Annotated[list[GivenDocument], Body(min_length=1)], server: Writable) -> Job:
    """Add documents. A document whose id exists is replaced."""
    added = [sg.Document(each.id, each.text, each.metadata) for each in documents]
    index = await server.library.current()
    title = added[0].id if len(added) == 1 else f"{len(added)} documents"
    return server.jobs.start("add", title, lambda job: index.insert(added))


@router.put("/files/{name:path}", status_code=202)
async def add_file(name: str, request: Request, server: Writable) -> Job:
    """Add a file, or replace the file of this name. The body holds its bytes.

    The path is its name, which becomes the document id. If the name has no folder and the index has exactly
    one file of that name in a folder, that file is replaced. Documents of rows that are no longer in the file
    are deleted, unless one of its rows cannot be read.
    """
    document_id = _plain_name(name)
    index = await server.library.current()
    folder = await asyncio.to_thread(server.uploads.folder)
    target = folder / f"upload{PurePosixPath(document_id).suffix[:16].lower()}"

    def work(job: Job) -> sg.BuildReport:
        source = _source(index, document_id)
        documents, whole = read_upload(target, source, job)
        return index.insert(documents, files=[source] if whole else [])

    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        with server.jobs.receiving(), target.open("wb") as file:
            async for block in request.stream():
                file.write(block)
        return server.jobs.start("add", document_id, work, clear)
    except BaseException:
        clear()
        raise


@router.post("/documents/delete", status_code=202)
async def delete(removal: Removal, server: Writable) -> Job:
    """Delete documents and everything made only from them."""
    index = await server.library.current()
    title = removal.ids[0] if len(removal.ids) == 1 else f"{len(removal.ids)} documents"
    ids, missing_ok = removal.ids, removal.missing_ok
    return server.jobs.start("delete", title, lambda job: index.delete(ids, missing_ok=missing_ok))


@router.get("/jobs")
async def jobs(server: Server) -> list[Job]:
    """The changes of this server, newest first."""
    return server.jobs.all()


@router.get("/jobs/{number}")
async def job(number: int, server: Server) -> Job:
    """A change: its progress and its result."""
    return server.jobs.get(number)


def _plain_name(name: str) -> str:
    """A file name as a document id: a relative path with forward slashes and without `..`."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    plain = "/".join(parts).replace("\0", "")
    if not plain or len(plain) > 1000:
        raise HTTPException(422, f"a file needs a name of at most 1,000 characters, not {name[:80]!r}")
    return plain


def _source(index: sg.Index, name: str) -> str:
    """The index's name for an uploaded file: that of its only file so named, else the given name."""
    files = set(index.files().values())
    if name in files or "/" in name:
        return name
    alike = [file for file in files if file.endswith(f"/{name}")]
    return alike[0] if len(alike) == 1 else name


def read_upload(path: Path, name: str, job: Job) -> tuple[list[sg.Document | sg.StreamedDocument], bool]:
    """An uploaded file's documents, named after it, read in another process; and whether it was read whole.

    Raises `ValueError` if there is nothing to read, or it takes more time or memory than is allowed.
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

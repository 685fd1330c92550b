"""Routes for changes: each adds or deletes documents in a job, whose progress can be watched."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Request
from pydantic import BaseModel, Field

import stratagraph as sg
from stratagraph.server.jobs import Job
from stratagraph.server.reading import read_upload
from stratagraph.server.state import State, state_of
from stratagraph.server.views import GivenDocument

DOCUMENTS_BYTES = 4 * 2**20
"""Largest body of documents as JSON, which holds the server while it is parsed; larger texts go as files."""
router = APIRouter(tags=["changes"])
Server = Annotated[State, Depends(state_of)]


class JobView(BaseModel):
    """A change. `state` is `waiting`, `running`, `done` or `failed`."""

    id: int
    kind: str
    title: str
    state: str
    stage: str
    done: int
    total: int | None
    seconds: float
    skipped: dict[str, str]
    warnings: dict[str, str]
    report: dict[str, Any] | None
    error: str | None

    @classmethod
    def of(cls, job: Job) -> JobView:
        """The present state of a job."""
        return cls(**{name: getattr(job, name) for name in cls.model_fields})


class Removal(BaseModel):
    """Ids of documents."""

    ids: list[str] = Field(min_length=1, max_length=10_000)


async def may_change(server: Server) -> State:
    """The server, if it accepts changes now."""
    if server.settings.read_only:
        raise HTTPException(403, "this server was started with --read-only")
    server.jobs.check_room()
    return server


Writable = Annotated[State, Depends(may_change)]


@router.post("/documents", status_code=202)
async def add(documents: Annotated[list[GivenDocument], Body(min_length=1)], server: Writable) -> JobView:
    """Add documents. A document whose id exists is replaced."""
    given = [sg.Document(each.id, each.text, each.metadata) for each in documents]
    index = await server.library.current()
    title = given[0].id if len(given) == 1 else f"{len(given)} documents"
    return JobView.of(server.jobs.start("add", title, lambda job: index.insert(given)))


@router.put("/files/{name:path}", status_code=202)
async def add_file(name: str, request: Request, server: Writable) -> JobView:
    """Add a file, or replace the file of this name. The body holds its bytes.

    The path is its name, which becomes the document id. A name without folders is that of a file in a folder
    if the index has one such file. Documents of rows that the file lacks now are deleted, unless a row of it
    cannot be read.
    """
    kept = _plain_name(name)
    index = await server.library.current()
    folder = await asyncio.to_thread(server.uploads.folder)
    target = folder / f"upload{PurePosixPath(kept).suffix[:16].lower()}"

    def work(job: Job) -> sg.BuildReport:
        name = _source(index, kept)
        documents, whole = read_upload(target, name, job)
        return index.insert(documents, files=[name] if whole else [])

    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    try:
        with server.jobs.receiving(), target.open("wb") as file:
            async for block in request.stream():
                file.write(block)
        return JobView.of(server.jobs.start("add", kept, work, clear))
    except BaseException:
        clear()
        raise


@router.post("/documents/delete", status_code=202)
async def delete(removal: Removal, server: Writable) -> JobView:
    """Delete documents and everything made only from them."""
    index = await server.library.current()
    title = removal.ids[0] if len(removal.ids) == 1 else f"{len(removal.ids)} documents"
    return JobView.of(server.jobs.start("delete", title, lambda job: index.delete(removal.ids)))


@router.get("/jobs")
async def jobs(server: Server) -> list[JobView]:
    """The changes of this server, newest first."""
    return [JobView.of(job) for job in server.jobs.all()]


@router.get("/jobs/{number}")
async def job(number: int, server: Server) -> JobView:
    """A change: its progress and its result."""
    return JobView.of(server.jobs.get(number))


def _plain_name(name: str) -> str:
    """A file name as a document id: a relative path with forward slashes and without `..`."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    kept = "/".join(parts).replace("\0", "")
    if not kept or len(kept) > 1000:
        raise HTTPException(422, f"a file needs a name of at most 1,000 characters, not {name[:80]!r}")
    return kept


def _source(index: sg.Index, name: str) -> str:
    """The name under which the index has an uploaded file; its own if it has none."""
    files = set(index.files().values())
    if name in files or "/" in name:
        return name
    alike = [file for file in files if file.endswith(f"/{name}")]
    return alike[0] if len(alike) == 1 else name

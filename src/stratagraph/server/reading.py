"""Reads uploaded files in a separate process, with limits on time and memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.ingest.bounded_reading import MEMORY
from stratagraph.server.state import Job

CPU_SECONDS = 9
"""CPU seconds to start Python and read a file; each uploaded MB adds one."""
WALL = 10
"""Seconds on the clock for each CPU second, since a process may wait for a busy machine."""
OUTPUT = 128 * 2**20
"""Most bytes that the documents of a file may have as JSON."""


def read_upload(path: Path, name: str, job: Job) -> tuple[list[sg.Document | sg.StreamedDocument], bool]:
    """Read an uploaded file; returns its documents, named after it, and whether the whole file was read.

    A separate process reads it.

    Raises
    ------
    ValueError
        If there is nothing to read, or if reading takes more time or memory than is allowed.
    """
    seconds = CPU_SECONDS + path.stat().st_size // 10**6
    command = [sys.executable, "-m", "stratagraph.ingest.bounded_reading"]
    command += [str(path.parent), str(path), name, str(seconds)]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    timer = threading.Timer(seconds * WALL, end)
    timer.start()
    documents: list[sg.Document | sg.StreamedDocument] = []
    room, complete, whole = OUTPUT, False, False
    assert child.stdout is not None
    try:
        while line := child.stdout.readline(room + 1):
            room -= len(line)
            if room < 0:
                raise ValueError(f"{name}: its documents take more than {OUTPUT // 2**20} MB")
            if not line.endswith(b"\n"):
                break  # the process ended while it wrote
            entry = json.loads(line)
            if "document" in entry:
                documents.append(_document(path.parent, entry["document"], name))
            elif "error" in entry:
                raise ValueError(entry["error"])
            elif "done" in entry:
                complete, whole = True, bool(entry["done"])
            else:
                faults = job.skipped if entry["kind"] == "skipped" else job.warnings
                faults[entry["name"]] = entry["reason"]
    finally:
        timer.cancel()
        child.kill()
        child.stdout.close()
        code = child.wait()
    if complete:
        return documents, whole
    if late.is_set():
        raise ValueError(f"{name}: reading it took more than {seconds * WALL} s, and was ended")
    if code == -getattr(signal, "SIGXCPU", 0):
        raise ValueError(f"{name}: reading it took more than {seconds} s of CPU, and was ended")
    raise ValueError(
        f"{name}: the process that read it ended with code {code}; it may have needed more than "
        f"{MEMORY // 2**20} MB of memory"
    )


def _document(folder: Path, entry: dict[str, Any], file: str) -> sg.Document | sg.StreamedDocument:
    if "file" in entry:
        read = partial(_blocks, folder / str(entry["file"]))
        return sg.StreamedDocument(entry["id"], read, entry["metadata"], file)
    sections = tuple(sg.Section(start, metadata) for start, metadata in entry["sections"])
    return sg.Document(entry["id"], entry["text"], entry["metadata"], sections, file)


def _blocks(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="") as file:
        while block := file.read(2**20):
            yield block

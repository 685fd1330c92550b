"""A small index behind a server."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi.testclient import TestClient

from stratagraph.server import Settings, create_app

LONG = " ".join(
    f"On day {n} the keeper Ansel Morrow counted {n + 3} lamps at Cape Ellery." for n in range(60)
)
EVIL = (
    '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'"> & "quotes" \u202e'
)
DOCUMENTS = [
    sg.Document(
        "ferry.txt",
        "Mara Quill steered the ferry from Ostra to Bremen.",
        {"title": "The ferry", "year": 1890},
    ),
    sg.Document("quay.txt", "Tomas Weir met the ferry of Mara Quill at the quay of Bremen.", {"year": 1891}),
    sg.Document("lamps.txt", LONG, {"title": "Lamps"}),
    sg.Document("<b>evil</b>.txt", f"Ostra said {EVIL} to Mara Quill.", {"title": EVIL, "<i>key</i>": EVIL}),
    sg.Document("rtl.txt", "القارب يعبر المضيق كل صباح. مارا تقود القارب من أوسترا.", {"title": "القارب"}),
]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "idx"
    config = sg.Config(chunking=sg.ChunkConfig(size=60, overlap=15))
    embedder = sg.HashingEmbedder()
    methods = ["lshtree", "hirag"]
    sg.build_index(DOCUMENTS, methods, path, embedder=embedder, config=config, progress=False).close()
    return path


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that no method was built for."""
    path = tmp_path_factory.mktemp("walk") / "idx"
    sg.build_index(DOCUMENTS, path=path, embedder=sg.HashingEmbedder(), progress=False).close()
    return path


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "idx"))


@contextmanager
def serving(command: list[str], name: str) -> Iterator[str]:
    """Start a server, and give the address that it prints after `name`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix(name).strip()
    finally:
        process.terminate()
        process.wait(20)


Client = Callable[..., TestClient]


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    opened: list[TestClient] = []

    def make(llm: Any = None, path: Path = folder, **settings: Any) -> TestClient:
        app = create_app(
            path,
            lambda progress: sg.open_index(path, llm, sg.HashingEmbedder(), progress=progress),
            Settings(**settings),
        )
        opened.append(TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False))
        return opened[-1].__enter__()

    yield make
    for each in opened:
        each.__exit__(None, None, None)


def finished(client: TestClient, job: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
    """A job once it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = client.get(f"/api/jobs/{job['id']}").json()
        if found["state"] in ("done", "failed"):
            return found
        time.sleep(0.02)
    raise AssertionError(f"not finished after {seconds} s: {found}")

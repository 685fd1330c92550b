"""A server and tools over an index that no method was built for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratagraph as sg

pytest.importorskip("fastapi")
pytest.importorskip("mcp")

from fastapi.testclient import TestClient
from mcp import Client

from stratagraph.mcp import create_server
from stratagraph.server import Settings, create_app
from tests.server.conftest import DOCUMENTS, finished

QUESTION = {"question": "Who steered the ferry from Ostra to Bremen?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "walk"
    sg.build_index(DOCUMENTS, path=path, embedder=sg.HashingEmbedder(), progress=False).close()
    return path


@pytest.fixture
def server(folder: Path) -> Iterator[TestClient]:
    app = create_app(
        folder,
        lambda progress: sg.open_index(folder, embedder=sg.HashingEmbedder(), progress=progress),
        Settings(),
    )
    with TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False) as client:
        yield client


def test_questions_are_searched_for_and_answered(server: TestClient) -> None:
    found = server.post("/api/search", json={**QUESTION, "k": 3}).json()
    assert found["method"] == "walk"
    assert {hit["kind"] for hit in found["hits"]} == {"chunk"}
    assert found["hits"][0]["documents"] == ["ferry.txt"]
    named = server.post("/api/search", json={**QUESTION, "k": 3, "method": "walk"}).json()
    assert named["hits"] == found["hits"]
    assert "Mara Quill" in server.post("/api/answer", json=QUESTION).json()["answer"]["text"]
    told = server.post("/api/ask", json=QUESTION).text
    assert next(line for line in told.splitlines() if line.startswith("event")) == "event: hits"
    missing = server.post("/api/search", json={**QUESTION, "method": "hirag"})
    assert (missing.status_code, missing.json()["error"]) == (404, "MethodMissing")
    ignored = server.post("/api/search", json={**QUESTION, "options": {"mode": "local"}})
    assert ignored.status_code == 422


def test_what_it_holds_can_be_browsed_and_changed(server: TestClient) -> None:
    overview = server.get("/api/index").json()
    assert (overview["documents"], overview["methods"]) == (5, [])
    assert server.get("/api/levels").status_code == 404
    assert server.get("/api/browse", params={"table": "documents"}).json()["total"] == 5
    assert server.get("/api/browse", params={"table": "entities", "text": "mara"}).json()["items"]
    assert "nodes" in server.post("/api/graph", json=QUESTION).json()
    job = server.post("/api/documents", json=[{"id": "new", "text": "A zeppelin is moored at Ostra."}]).json()
    assert finished(server, job)["state"] == "done"
    found = server.post("/api/search", json={"question": "zeppelin", "k": 1}).json()
    assert found["hits"][0]["documents"] == ["new"]


async def test_tools_search_by_the_walk(folder: Path) -> None:
    opened = create_server(folder, lambda: sg.open_index(folder, embedder=sg.HashingEmbedder()))
    async with Client(opened) as client:
        for arguments in ({**QUESTION, "k": 3}, {**QUESTION, "k": 3, "method": "walk"}):
            found = (await client.call_tool("search", arguments)).structured_content
            assert found["method"] == "walk"
            assert found["hits"][0]["documents"] == ["ferry.txt"]
        answer = (await client.call_tool("answer", QUESTION)).structured_content
        assert "Mara Quill" in answer["text"]
        refused = await client.call_tool("search", {**QUESTION, "method": "hirag"})
        assert refused.is_error
        assert "MethodMissing" in json.dumps([each.text for each in refused.content])

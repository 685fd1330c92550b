"""The API: questions, contents, changes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import stratagraph as sg
from stratagraph.server.guard import Refused
from stratagraph.server.state import Jobs
from stratagraph.testing import ScriptedChatModel
from tests.server.conftest import DOCUMENTS, LONG, Client, finished
from tests.test_files import pdf

QUESTION = {"question": "Who steered the ferry from Ostra to Bremen?"}


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_hits_tell_why_they_are_there(client: Client) -> None:
    found = client().post("/api/search", json={**QUESTION, "k": 3}).json()
    assert (found["method"], len(found["hits"])) == ("lshtree", 3)
    best = found["hits"][0]
    assert best["documents"] == ["ferry.txt"]
    assert best["title"] == "The ferry"
    assert any(reason.startswith("has its words") for reason in best["why"])
    assert [hit["number"] for hit in found["hits"]] == [1, 2, 3]


def test_a_guided_search_that_must_not_guide_is_refused(client: Client) -> None:
    model = ScriptedChatModel("unasked")
    refused = client(model).post("/api/guided", json={**QUESTION, "guided": False})
    assert refused.status_code == 422
    assert "leave it out, or ask /api/search" in refused.json()["message"]
    assert not model.prompts


def test_filters_and_options_reach_the_search(client: Client) -> None:
    asked = {**QUESTION, "where": {"year": 1891}, "view": "chunks", "k": 5}
    found = client().post("/api/search", json=asked).json()
    assert {name for hit in found["hits"] for name in hit["documents"]} == {"quay.txt"}
    wrong = client().post("/api/search", json={**QUESTION, "options": {"nothing": 1}})
    assert wrong.status_code == 422
    assert "nothing" in wrong.json()["message"]


def test_a_method_s_own_ranking_is_asked_for(folder: Path, client: Client) -> None:
    server = client()
    question = {**QUESTION, "method": "hirag", "k": 5}
    with sg.open_index(folder, embedder=sg.HashingEmbedder()) as index:
        own = index.retrieve(question["question"], 5, method="hirag", fill=False)
    found = server.post("/api/search", json={**question, "fill": False}).json()["hits"]
    assert [hit["id"] for hit in found] == [hit.id for hit in own]
    assert found != server.post("/api/search", json=question).json()["hits"]
    assert server.post("/api/answer", json={**question, "fill": False}).status_code == 200


def test_an_index_without_methods_is_searched_by_the_walk(client: Client, walk: Path) -> None:
    server = client(path=walk)
    found = server.post("/api/search", json={**QUESTION, "k": 3}).json()
    assert (found["method"], {hit["kind"] for hit in found["hits"]}) == ("walk", {"chunk"})
    assert found["hits"][0]["documents"] == ["ferry.txt"]
    named = server.post("/api/search", json={**QUESTION, "k": 3, "method": "walk"}).json()
    assert named["hits"] == found["hits"]
    assert events(server.post("/api/ask", json=QUESTION).text)[0][0] == "hits"
    assert "nodes" in server.post("/api/graph", json=QUESTION).json()
    missing = server.post("/api/search", json={**QUESTION, "method": "hirag"})
    assert (missing.status_code, missing.json()["error"]) == (404, "MethodMissing")
    ignored = server.post("/api/search", json={**QUESTION, "options": {"mode": "local"}})
    assert ignored.status_code == 422
    overview = server.get("/api/index").json()
    assert (overview["documents"], overview["methods"]) == (5, [])
    assert server.get("/api/levels").status_code == 404
    assert server.get("/api/browse", params={"table": "documents"}).json()["total"] == 5
    assert server.get("/api/browse", params={"table": "entities", "text": "mara"}).json()["items"]


def test_an_answer_cites_places_among_the_hits(client: Client) -> None:
    told = client().post("/api/answer", json=QUESTION).json()
    assert told["answer"]["extractive"]
    assert "Mara Quill" in told["answer"]["text"]
    number = told["answer"]["citations"][0]
    assert "Mara Quill" in told["found"]["hits"][number - 1]["text"]


def test_an_answer_comes_as_events(client: Client) -> None:
    answered = client().post("/api/ask", json=QUESTION)
    assert answered.headers["content-type"].startswith("text/event-stream")
    told = events(answered.text)
    assert [name for name, _ in told] == ["hits", "piece", "answer", "graph"]
    parts = dict(told)
    assert parts["piece"]["text"] == parts["answer"]["text"]
    assert parts["graph"]["nodes"][0]["kind"] == "question"
    assert {link["kind"] for link in parts["graph"]["links"]} >= {"named", "mentions"}


def test_a_model_s_answer_comes_in_pieces_and_is_counted(client: Client) -> None:
    server = client(ScriptedChatModel("Mara Quill steered it [1]."))
    told = events(server.post("/api/ask", json={**QUESTION, "guided": False}).text)
    pieces = [data["text"] for name, data in told if name == "piece"]
    assert len(pieces) > 2
    answer = next(data for name, data in told if name == "answer")
    assert "".join(pieces) == answer["text"] == "Mara Quill steered it [1]."
    assert (answer["citations"], answer["extractive"], answer["usage"]["calls"]) == ([1], False, 1)
    costs = {each["operation"]: each for each in server.get("/api/costs").json()}
    assert (costs["answer"]["count"], costs["answer"]["usage"]["calls"]) == (1, 1)


def test_a_model_that_fails_leaves_the_hits(client: Client) -> None:
    model = ScriptedChatModel("never", faults=["auth"] * 20)
    told = events(client(model).post("/api/ask", json={**QUESTION, "guided": False}).text)
    assert [name for name, _ in told] == ["hits", "error", "graph"]
    assert dict(told)["error"]["error"] == "ModelError"


def test_wrong_requests_are_told_what_is_wrong(client: Client) -> None:
    server = client()
    for path, body, status in (
        ("search", {"question": ""}, 422),
        ("search", {"question": "  "}, 422),
        ("search", {"question": "x" * 20_001}, 422),
        ("search", {**QUESTION, "k": 0}, 422),
        ("search", {**QUESTION, "unknown": 1}, 422),
        ("search", {**QUESTION, "method": "nothing"}, 422),
        ("search", {**QUESTION, "method": "archrag"}, 404),
        ("search", {**QUESTION, "where": {"year": {"$nothing": 1}}}, 422),
        ("ask", {**QUESTION, "method": "archrag"}, 404),
        ("documents", [{"id": "a", "text": "b", "metadata": 3}], 422),
        ("documents", [], 422),
    ):
        answer = server.post(f"/api/{path}", json=body)
        assert answer.status_code == status, body
        assert answer.json()["message"]


def test_contents_come_in_pages(client: Client) -> None:
    server = client()
    overview = server.get("/api/index").json()
    assert (overview["documents"], overview["methods"]) == (5, ["lshtree", "hirag"])
    levels = server.get("/api/levels", params={"method": "lshtree"}).json()
    assert levels[0]["level"] >= levels[-1]["level"] >= 1
    top = server.get("/api/browse", params={"level": levels[0]["level"]}).json()
    assert top["total"] == levels[0]["count"]
    below = server.get("/api/browse", params={"within": top["items"][0]["id"]}).json()
    assert below["total"] == top["items"][0]["members"]
    names = server.get("/api/browse", params={"table": "entities", "text": "mara"}).json()
    assert names["items"][0]["title"] == "Mara Quill"
    assert server.get("/api/browse", params={"limit": 201}).status_code == 422
    assert server.get("/api/browse", params={"within": "nowhere"}).status_code == 404
    assert server.get("/api/passage", params={"id": "nowhere"}).status_code == 404


def test_a_passage_is_read_in_its_document_without_repeats(client: Client) -> None:
    server = client()
    passages = server.get("/api/browse", params={"table": "passages", "within": "lamps.txt"}).json()
    assert passages["total"] > 6
    middle = passages["items"][3]
    reading = server.get("/api/passage", params={"id": middle["id"], "limit": 200}).json()
    cited = [each for each in reading["passages"] if each["cited"]]
    assert [each["id"] for each in cited] == [middle["id"]]
    whole = " ".join(each["text"].strip() for each in reading["passages"])
    assert " ".join(whole.split()) == LONG
    later = server.get("/api/document", params={"id": "lamps.txt", "offset": 2, "limit": 2}).json()
    assert [each["id"] for each in later["passages"]] == [each["id"] for each in passages["items"][2:4]]


def test_documents_go_in_and_out(client: Client) -> None:
    server = client()
    body = [
        {"id": "new.txt", "text": "Ida Fenn painted the lighthouse of Ostra.", "metadata": {"year": 1900}}
    ]
    added = server.post("/api/documents", json=body)
    assert added.status_code == 202
    job = finished(server, added.json())
    assert (job["state"], job["report"]["added"]) == ("done", ["new.txt"])
    found = server.post("/api/search", json={"question": "Who painted the lighthouse?", "k": 1}).json()
    assert found["hits"][0]["documents"] == ["new.txt"]
    gone = finished(server, server.post("/api/documents/delete", json={"ids": ["new.txt"]}).json())
    assert gone["report"]["deleted"] == ["new.txt"]
    assert server.get("/api/index").json()["documents"] == 5
    lost = finished(server, server.post("/api/documents/delete", json={"ids": ["new.txt"]}).json())
    assert lost["state"] == "failed"
    assert "new.txt" in lost["error"]
    assert {each["operation"] for each in server.get("/api/costs").json()} == {"insert", "delete", "search"}


def test_files_are_added_under_their_names(client: Client) -> None:
    server = client()
    for name, identity in (
        ("notes/Ostra & <b>.txt", "notes/Ostra & <b>.txt"),
        ("../../etc/passwd", "etc/passwd"),
        ("/abs.txt", "abs.txt"),
        ("C:\\x\\y.txt", "C:/x/y.txt"),
    ):
        added = server.put(f"/api/files/{quote(name, safe='')}", content=b"Ida Fenn painted the lighthouse.")
        job = finished(server, added.json())
        assert (job["state"], job["report"]["added"]) == ("done", [identity])
        (item,) = server.get("/api/browse", params={"table": "documents", "text": identity}).json()["items"]
        assert item["metadata"]["source"] == identity


async def test_files_under_way_count_as_waiting_and_leave_nothing(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from httpx import ASGITransport, AsyncClient

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gate = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"Ida Fenn painted "
        await gate.wait()
        yield b"the lighthouse."

    async with AsyncClient(transport=ASGITransport(client().app), base_url="http://127.0.0.1") as server:
        puts = [server.put(f"/api/files/{n}.txt", content=slow()) for n in range(25)]
        under_way = [asyncio.create_task(put) for put in puts]
        replies = asyncio.as_completed(under_way)
        assert [(await next(replies)).status_code for _ in range(5)] == [429] * 5
        assert len(list(tmp_path.glob("stratagraph-upload-*/*/"))) == 20
        gate.set()
        assert [(await reply).status_code for reply in replies] == [202] * 20


def test_a_file_that_is_refused_after_it_was_received_leaves_nothing(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Jobs, "start", _too_many)
    assert client().put("/api/files/a.txt", content=b"Ida Fenn painted.").status_code == 429
    assert not list(tmp_path.glob("stratagraph-upload-*/*/"))


def _too_many(*_: Any) -> None:
    raise Refused(429, "TooMany", "enough")


def test_a_reader_may_not_change_anything(client: Client) -> None:
    server = client(read_only=True)
    assert server.post("/api/documents", json=[{"id": "a", "text": "b"}]).status_code == 403
    assert server.put("/api/files/a.txt", content=b"b").status_code == 403
    assert server.post("/api/documents/delete", json={"ids": ["ferry.txt"]}).status_code == 403
    assert server.get("/api/index").json()["documents"] == 5


def test_another_writer_is_named_and_followed(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratagraph.server.state.OFTEN", 0.0)
    server = client()
    inside, go_on = threading.Event(), threading.Event()

    def waiting() -> Any:
        inside.set()
        go_on.wait(30)
        yield sg.Document("other.txt", "Ida Fenn painted the lighthouse of Ostra.")

    with sg.open_index(folder, embedder=sg.HashingEmbedder()) as other:
        thread = threading.Thread(target=other.insert, args=(waiting(),))
        thread.start()
        assert inside.wait(30)
        job = finished(server, server.post("/api/documents", json=[{"id": "a", "text": "b"}]).json())
        assert (job["state"], job["error"].split(":")[0]) == ("failed", "Locked")
        assert not any(
            each in json.dumps(job) for each in (str(folder), str(os.getpid()), socket.gethostname())
        )
        go_on.set()
        thread.join(30)
    found = server.post("/api/search", json={"question": "Who painted the lighthouse?", "k": 1}).json()
    assert (found["hits"][0]["documents"], found["generation"]) == (["other.txt"], 2)


def test_a_folder_that_is_removed_or_replaced(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratagraph.server.state.OFTEN", 0.0)
    server = client()
    assert server.get("/api/index").json()["problem"] is None
    shutil.rmtree(folder)
    overview = server.get("/api/index").json()
    assert "FileNotFoundError" in overview["problem"]
    assert str(folder) not in json.dumps(overview)
    found = server.post("/api/search", json=QUESTION)
    assert found.status_code in (200, 503)
    job = server.post("/api/documents", json=[{"id": "a", "text": "b"}])
    assert finished(server, job.json())["state"] == "failed"
    sg.build_index(DOCUMENTS[:2], path=folder, embedder=sg.HashingEmbedder(), progress=False).close()
    overview = server.get("/api/index").json()
    assert (overview["problem"], overview["documents"], overview["methods"]) == (None, 2, [])
    assert server.post("/api/search", json=QUESTION).json()["hits"][0]["documents"] == ["ferry.txt"]


def test_the_api_is_described(client: Client) -> None:
    described = client().get("/api/openapi.json").json()
    assert set(described["paths"]) == {
        *(
            f"/api/{name}"
            for name in ("search", "graph", "answer", "ask", "guided", "index", "stats", "levels", "browse")
        ),
        *(f"/api/{name}" for name in ("passage", "document", "costs", "options", "jobs", "jobs/{number}")),
        *(f"/api/{name}" for name in ("documents", "documents/delete", "files/{name}")),
    }
    for path in described["paths"].values():
        for operation in path.values():
            assert operation.get("description")


def test_what_is_paid_is_told_in_money_or_as_unknown(folder: Path, client: Client) -> None:
    server = client(ScriptedChatModel("Mara Quill steered it [1]."))
    answered = server.post("/api/answer", json={**QUESTION, "guided": False}).json()
    assert (answered["answer"]["cost"], answered["found"]["cost"]) == (None, 0.0)
    assert server.get("/api/costs").json()[0]["cost"] is None
    budget = sg.Budget(prices=sg.Prices(2.0, 10.0))
    with sg.open_index(folder, ScriptedChatModel("It was she [1]."), "hashing", budget=budget) as index:
        answer = index.answer("Who met the ferry at the quay?", guided=False)
        expected = (2.0 * answer.usage.input_tokens + 10.0 * answer.usage.output_tokens) / 1e6
        assert answer.cost == pytest.approx(expected)
        assert answer.cost > 0
        assert answer.retrieval.cost == 0.0


def test_a_file_that_cannot_be_read_is_told_as_a_line(client: Client) -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("docx")
    server = client()
    for name, content, told in (
        ("locked.pdf", pdf(["secret"], encrypted=True), "encrypted"),
        ("cut.docx", b"PK\x03\x04 cut off", "damaged archive"),
        ("<img src=x>.html", b"\x89PNG\r\n\0\0", "binary"),
        ("photo.txt", bytes(range(256)) * 40, "binary"),
        ("empty.md", b"", "blank"),
    ):
        job = finished(server, server.put(f"/api/files/{quote(name, safe='')}", content=content).json())
        assert job["state"] == "failed"
        assert told in job["error"] + str(job["skipped"])
        assert name in job["error"]
        assert [*job["skipped"]] == ([] if told == "blank" else [name])
        assert tempfile.gettempdir() not in job["error"] + str(job["skipped"])
    assert server.get("/api/index").json()["generation"] == 1

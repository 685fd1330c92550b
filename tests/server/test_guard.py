"""Who may ask a server, how much, and what a browser is told about it."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

import stratagraph as sg
from stratagraph.server import Settings, checked_token, create_app, is_loopback
from stratagraph.server.connection import HALF_OPEN
from stratagraph.testing import ScriptedChatModel
from tests.server.conftest import Client, serving

QUESTION = {"question": "Who steered the ferry?"}
TOKEN = "a token that is long enough"


def test_other_addresses_than_this_machine_s_need_a_token() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.4", "example.org")] == [False] * 4
    assert checked_token("127.0.0.1", None) is None
    assert checked_token("0.0.0.0", "given") == "given"
    made = checked_token("0.0.0.0", None)
    assert made is not None
    assert len(made) > 20
    assert made != checked_token("0.0.0.0", None)
    with pytest.raises(ValueError, match="at least 12 characters"):
        Settings(token="short")


def test_a_token_opens_the_api_and_nothing_else_does(client: Client) -> None:
    server = client(token=TOKEN)
    assert server.get("/").status_code == 200
    assert server.get("/app.js").status_code == 200
    for wrong in (None, "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN, "Bearer  "):
        headers = {} if wrong is None else {"authorization": wrong}
        refused = server.get("/api/index", headers=headers)
        assert refused.status_code == 401, wrong
        assert refused.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in refused.text
    assert server.get(f"/api/index?token={TOKEN}").status_code == 401
    assert server.get("/api/index", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    other = client(token="schl\u00fcssel-und-tor")
    for encoding, token, status in (
        ("utf-8", "schl\u00fcssel-und-tor", 200),
        ("latin-1", "schl\u00fcssel-und-tor", 200),
        ("utf-8", "schl\u00f6ssel-und-tor", 401),
    ):
        headers = {"authorization": f"Bearer {token}".encode(encoding)}
        assert other.get("/api/index", headers=headers).status_code == status  # type: ignore[arg-type]


def test_guessing_tokens_is_slowed_down_and_locks_nobody_out(client: Client) -> None:
    server = client(token=TOKEN)
    codes = [
        server.get("/api/index", headers={"authorization": f"Bearer {n}"}).status_code for n in range(30)
    ]
    assert codes[0] == 401
    assert codes[-1] == 429
    assert server.get("/api/index", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_only_our_own_names_are_answered(client: Client) -> None:
    server = client(hosts=("notes.example.org",))
    own = ("127.0.0.1:8765", "localhost", "[::1]:8765", "192.168.1.4:80", "notes.example.org:8765")
    foreign = ("evil.example.com", "localhost.evil.example.com:8765", "127.0.0.1.evil.example.com", "")
    for host in (*own, *foreign):
        for path in ("/", "/api/index"):
            code = server.get(path, headers={"host": host}).status_code
            assert code == (200 if host in own else 421), host


def test_pages_of_other_sites_change_nothing(client: Client) -> None:
    server = client()
    foreign = {"origin": "http://evil.example.com"}
    assert server.post("/api/search", json=QUESTION, headers=foreign).status_code == 403
    assert server.put("/api/files/a.txt", content=b"text", headers=foreign).status_code == 403
    assert server.put("/api/files/a.txt", content=b"text", headers={"origin": "null"}).status_code == 403
    own = {"origin": "http://127.0.0.1:8765"}
    assert server.post("/api/search", json=QUESTION, headers=own).status_code == 200
    read = server.get("/api/index", headers=foreign)
    assert "access-control-allow-origin" not in read.headers


def test_a_site_that_is_allowed_may_ask(client: Client) -> None:
    server = client(origins=("https://notes.example.org",), token=TOKEN)
    known = {"origin": "https://notes.example.org"}
    preflight = server.options("/api/search", headers={**known, "access-control-request-method": "POST"})
    assert preflight.status_code == 204
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    asked = server.post("/api/search", json=QUESTION, headers={**known, "authorization": f"Bearer {TOKEN}"})
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://notes.example.org"
    assert server.post("/api/search", json=QUESTION, headers=known).status_code == 401


def test_every_answer_forbids_what_no_page_needs(client: Client) -> None:
    server = client()
    for path in ("/", "/app.js", "/api/index", "/api/nowhere", "/nowhere"):
        headers = server.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_bodies_have_limits(client: Client) -> None:
    server = client(upload_bytes=3 * 2**20)

    def pieces(count: int) -> Iterator[bytes]:
        yield from [b"x" * 2**16] * count

    assert server.put("/api/files/a.txt", content=b"x" * (4 * 2**20)).status_code == 413
    assert server.put("/api/files/a.txt", content=pieces(64)).status_code == 413
    assert server.post("/api/search", content=b" " * 2**21).status_code == 413
    assert server.post("/api/search", content=pieces(32)).status_code == 413
    assert "--max-upload" in server.put("/api/files/a.txt", content=pieces(64)).json()["message"]
    assert server.post("/api/search", json=QUESTION).status_code == 200


def test_requests_and_answers_have_rates(client: Client) -> None:
    server = client(rate=0.5)
    codes = [server.get("/api/levels").status_code for _ in range(25)]
    assert codes[0] == 200
    assert codes[-1] == 429
    assert int(server.get("/api/levels").headers["retry-after"]) >= 1
    other = client(answers=4.0)
    codes = [other.post("/api/answer", json=QUESTION).status_code for _ in range(4)]
    assert codes == [200, 200, 429, 429]
    assert other.post("/api/search", json=QUESTION).status_code == 200


def test_no_file_outside_the_page_is_served(client: Client) -> None:
    server = client()
    for path in (
        "/../__init__.py",
        "/%2e%2e/__init__.py",
        "/..%2f__init__.py",
        "/d3/../style.css",
        "//etc/passwd",
    ):
        answer = server.get(path)
        assert answer.status_code == 404 or b"def " not in answer.content
        assert b"root:x:" not in answer.content


@pytest.mark.parametrize(
    ("framework", "prefix"), [("starlette", "/idx"), ("fastapi", "/a/b"), ("root_path", "/a/b")]
)
def test_a_mounted_application_asks_for_its_token(folder: Path, framework: str, prefix: str) -> None:
    inner = create_app(
        folder,
        lambda progress: sg.open_index(folder, embedder=sg.HashingEmbedder(), progress=progress),
        Settings(token=TOKEN, answers=4.0),
    )
    if framework == "starlette":
        app: Any = Starlette(routes=[Mount(prefix, app=inner)])
    elif framework == "fastapi":
        app = FastAPI()
        app.mount(prefix, inner)
    else:
        app = inner
    root = prefix if framework == "root_path" else ""
    with TestClient(app, base_url="http://127.0.0.1:8765", root_path=root) as server:
        assert server.get(f"{prefix}/").status_code == 200
        assert server.get(f"{prefix}/app.js").status_code == 200
        for path in ("/api/index", "/api/documents/delete", "/api/openapi.json", "/nowhere"):
            assert server.get(prefix + path).status_code == 401
        assert server.post(f"{prefix}/api/answer", json=QUESTION).status_code == 401
        assert server.post(f"{prefix}/api/documents/delete", json={"ids": ["ferry.txt"]}).status_code == 401
        given = {"authorization": f"Bearer {TOKEN}"}
        codes = [
            server.post(f"{prefix}/api/answer", json=QUESTION, headers=given).status_code for _ in range(4)
        ]
        assert codes == [200, 200, 429, 429]
        large = server.post(f"{prefix}/api/search", content=b" " * 2**21, headers=given)
        assert large.status_code == 413


def test_only_options_of_the_method_pass(client: Client) -> None:
    """No option reaches the model, the filter or the budget of a question."""
    model = ScriptedChatModel("An answer [1].")
    server = client(llm=model)
    for options in (
        {"llm": "openai:m@http://127.0.0.1:9/v1"},
        {"k": 5},
        {"where": {"year": 1890}},
        {"rerank": "fastembed:some/model"},
        {"max_tokens": 10**9},
        {"decompose": True},
        {"view": "chunks"},
        {"levels": 10**12},
    ):
        for path in ("/api/search", "/api/answer", "/api/ask", "/api/graph"):
            refused = server.post(path, json={**QUESTION, "options": options})
            assert refused.status_code == 422, (path, options)
            assert refused.json()["error"] in ("ValueError", "WrongRequest")
    assert model.calls == 0
    accepted = server.post("/api/search", json={**QUESTION, "options": {"mode": "collapsed"}})
    assert accepted.status_code == 200


def test_a_filter_has_a_bounded_number_of_values(client: Client) -> None:
    many = {**QUESTION, "where": {"year": {"$in": list(range(2000))}}}
    assert client().post("/api/search", json=many).status_code == 422


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[tuple[str, int]]:
    """A real server, whose heads and bodies must arrive within a second."""
    script = (
        "import sys, stratagraph as sg; "
        "from stratagraph.server import Settings, connection, create_app, run; "
        "connection.HEAD_SECONDS = 1.0; path = sys.argv[1]; "
        "app = create_app(path, lambda progress: sg.open_index(path, embedder=sg.HashingEmbedder(), "
        "progress=progress), Settings(body_seconds=1.0)); "
        "run(app, '127.0.0.1', 0, started=lambda at: print(at, flush=True))"
    )
    with serving([sys.executable, "-c", script, str(built)], "") as url:
        yield "127.0.0.1", urlsplit(url).port


def test_requests_without_the_token_leave_the_others_their_rate(client: Client) -> None:
    server = client(token=TOKEN, rate=0.5)
    assert [server.get("/api/index").status_code for _ in range(20)][-1] == 429
    own = {"authorization": f"Bearer {TOKEN}"}
    assert server.get("/api/index", headers=own).status_code == 200


def test_a_client_that_stops_reading_is_cut_off(tmp_path: Path) -> None:
    cut_off = tmp_path / "cut off"  # until then the server waits for its client in `send`
    script = (
        "import pathlib\n"
        "from stratagraph.server import connection, run\n"
        "connection.READ_SECONDS = 0.3\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] != 'http': raise RuntimeError\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    for _ in range(64):\n"
        "        await send({'type': 'http.response.body', 'body': bytes(2**20), 'more_body': True})\n"
        f"    pathlib.Path({str(cut_off)!r}).touch()\n"
        "run(app, '127.0.0.1', 0, started=lambda at: print(at, flush=True))"
    )
    with (
        serving([sys.executable, "-c", script], "") as url,
        socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=30) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until = time.monotonic() + 60
        while not cut_off.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        received = 0
        with suppress(ConnectionError):
            while block := connection.recv(2**20):
                received += len(block)
    assert received < 32 * 2**20


def test_clients_that_stop_sending_are_cut_off(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        connections = []
        for sent in (
            b"",
            b"GET /api/index HTTP/1.1\r\nHost: localhost\r\n",
            b"GET /api/index HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/ind",
            b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{",
        ):
            connections.append(stack.enter_context(socket.create_connection(address, timeout=30)))
            connections[-1].sendall(sent)
        for connection in connections:
            while connection.recv(65536):
                pass


def test_half_open_connections_of_one_client_are_bounded(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(address, timeout=120)) for _ in range(HALF_OPEN + 20)
        ]
        closed = 0
        for connection in opened[HALF_OPEN:]:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
            closed += 1
        assert closed == 20


def test_a_slow_answer_is_not_cut_off(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=120) as connection:
        body = json.dumps(QUESTION).encode()
        head = f"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        kind = "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + kind.encode() + body)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"event: graph" in received

"""A model server on loopback that speaks OpenAI's and Ollama's protocols, and misbehaves as told.

    with ModelServer(mode="fenced") as server:
        ChatOpenAI(base_url=server.openai, api_key="k", model="m")
        ChatOllama(base_url=server.ollama, model="m")

It counts what it is asked: requests that were for a model, tokens, and how many at the same time.
"""

from __future__ import annotations

import json
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from stratagraph.testing import FakeEmbedder
from stratagraph.text.tokens import choose
from tests.clients import ollama, openai
from tests.clients.faults import Reply, reply
from tests.clients.writer import written

Modes = str | Sequence[str] | Callable[[int], str]


class ModelServer:
    """The server; in a `with` block it runs.

    Parameters
    ----------
    mode
        How it behaves (see `faults.reply`; also `hang`): always, in turn, or by the number of the request
        from 0. `every(3, "500")` is such a function.
    latency
        Seconds that a model takes.
    together
        How many requests must be under way before the first of them is answered.
    supports
        What the server knows of: `tools`, `schema`.
    system
        Whether the model's template knows system messages.
    cut
        Characters of a piece of a stream; None: words.

    Attributes
    ----------
    embed_fault
        The status by which a request to embed some texts is refused; 0 if it is not.
    """

    def __init__(
        self,
        mode: Modes = "ok",
        *,
        latency: float = 0.0,
        together: int = 1,
        supports: Sequence[str] = ("tools", "schema"),
        write: Callable[[str], str] = written,
        system: bool = True,
        cut: int | None = None,
    ) -> None:
        self.cut = cut
        self.system, self.together = system, together
        self.mode, self.latency, self.supports, self.write = mode, latency, supports, write
        self.count_tokens = choose()
        self.embedder = FakeEmbedder(16)
        self.embed_fault: Callable[[list[str]], int] = lambda texts: 0
        self.reset()
        self._stopping = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.model_server = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def reset(self) -> None:
        """Forget what was counted."""
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.embedded: list[int] = []
        self.input_tokens = self.output_tokens = 0
        self.at_once = self.peak = 0
        self.lock = threading.Lock()

    @property
    def requests(self) -> int:
        """Requests to a chat model."""
        return len(self.bodies)

    @property
    def openai(self) -> str:
        """Base address of the OpenAI-compatible side."""
        return f"{self.ollama}/v1"

    @property
    def ollama(self) -> str:
        """Base address of the Ollama-compatible side."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """Where the server listens."""
        return int(self._http.server_address[1])

    def mode_of(self, number: int) -> str:
        """How to treat a request."""
        if isinstance(self.mode, str):
            return self.mode
        return self.mode(number) if callable(self.mode) else self.mode[min(number, len(self.mode) - 1)]

    def answer(self, prompt: str, extra: str, body: dict[str, Any], gone: Callable[[], bool]) -> Reply | None:
        """Let the model answer; None if the client went away."""
        with self.lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
        try:
            while self.peak < self.together:
                if not self._wait(0.02, gone):
                    return None
            mode = self.mode_of(number)
            if not self._wait(math.inf if mode == "hang" else self.latency, gone):
                return None
            found = reply(mode, self.write(prompt))
            with self.lock:
                if found.error is None:
                    self.input_tokens += self.tokens_in(prompt, extra)
                    self.output_tokens += self.count_tokens(found.text)
            return found
        finally:
            with self.lock:
                self.at_once -= 1

    def pieces(self, text: str) -> list[str]:
        """A text as it is streamed."""
        if self.cut is None:
            return [word + " " for word in text.split()]
        return [text[at : at + self.cut] for at in range(0, len(text), self.cut)]

    def tokens_in(self, prompt: str, extra: str) -> int:
        """Tokens of a request, as real servers count them: the chat format and the schema too."""
        return self.count_tokens(prompt) + 11 + (self.count_tokens(extra) if extra else 0)

    def _wait(self, seconds: float, gone: Callable[[], bool]) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._stopping.is_set() or gone():
                return False
            time.sleep(min(left, 0.02))
        return True

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Vectors of texts; NaN for those with `not a number`."""
        with self.lock:
            self.embedded.append(len(texts))
        vectors = self.embedder.embed_documents(texts)
        return [
            [math.nan] * 16 if "not a number" in text else each
            for text, each in zip(texts, vectors, strict=True)
        ]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()


def every(number: int, mode: str, otherwise: str = "ok") -> Callable[[int], str]:
    """A mode for every so manieth request."""
    return lambda at: mode if at % number == number - 1 else otherwise


def first(count: int, mode: str) -> Callable[[int], str]:
    """A mode for the first requests."""
    return lambda at: mode if at < count else "ok"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    model_server: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        server = self.server.model_server
        server.paths.append(self.path)
        body = json.loads(content) if content else {}
        handler = {**openai.PATHS, **ollama.PATHS}.get(self.path)
        if handler is None:
            self.send(
                404, {"error": {"message": f"no such path: {self.path}", "type": "not_found", "code": None}}
            )
            return
        handler(server, body, self)

    def gone(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def send(
        self, status: int, body: Any, headers: Sequence[tuple[str, str]] = (), *, drop: bool = False
    ) -> None:
        """Send JSON, or bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/json" if not isinstance(body, bytes) or body[:1] in b"{[" else "text/html"
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(len(content))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if drop else content)
        self.close_connection = drop

    def send_lines(self, lines: Sequence[str], kind: str) -> None:
        """Send a stream, one line after the other."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(line.encode())
            self.wfile.flush()
        self.close_connection = True

"""The middleware that every request passes: host, origin, token, rate, size and time limits, headers."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stratagraph.server.settings import BODY_BYTES, Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_BURST_SECONDS = 3.0
_WRONG_TOKENS_A_MINUTE = 10.0
_CLIENTS = 4096


class Rate:
    """Token buckets, one per client: `rate` requests a second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Count a request. Returns the seconds that the client must wait, 0 if the request may proceed."""
        now = time.monotonic()
        left, seen = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - seen) * self._rate)
        missing = max(0.0, 1.0 - left)
        self._buckets[client] = (left if missing else left - 1.0, now)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return missing / self._rate


class Refused(HTTPException):
    """A request that the guard refuses, with a machine-readable kind."""

    def __init__(self, status: int, kind: str, message: str, wait: float = 0.0) -> None:
        headers = {"retry-after": str(max(1, round(wait)))} if wait else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status in (408, 413):
            headers["connection"] = "close"
        super().__init__(status, message, headers)
        self.kind = kind


class Guard:
    """Middleware around an application. A refused request never reaches the application.

    Parameters
    ----------
    app
        The application.
    settings
        Who may ask, and how much.
    public
        Paths that `GET` may read without a token. Every other path needs the token, so that a path which
        is not understood is refused.
    answers
        Paths that count against `Settings.answers`.
    body_bytes
        Largest body by path prefix; `BODY_BYTES` for other paths.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        public: Collection[str] = (),
        answers: Collection[str] = (),
        body_bytes: dict[str, int] | None = None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._public = frozenset(public)
        self._answer_paths = frozenset(answers)
        self._body_bytes = body_bytes or {}
        self._rate = Rate(settings.rate, _BURST_SECONDS * settings.rate)
        self._answers = Rate(settings.answers / 60, settings.answers / 2)
        self._wrong_tokens = Rate(_WRONG_TOKENS_A_MINUTE / 60, _WRONG_TOKENS_A_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed_origin = origin if origin in self._settings.origins else None

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                if allowed_origin is not None:
                    answer["access-control-allow-origin"] = allowed_origin
                    answer["cross-origin-resource-policy"] = "cross-origin"
                    answer.add_vary_header("Origin")
            await send(message)

        path = _path_within(scope)
        limit = next((size for start, size in self._body_bytes.items() if path.startswith(start)), BODY_BYTES)
        try:
            self._check(scope, path, headers, origin, allowed_origin)
            length = headers.get("content-length", "0")
            if length.isdecimal() and int(length) > limit:
                raise self._too_large(limit)
        except Refused as refused:
            await _refuse(send_with_headers, refused)
            return
        if scope["method"] == "OPTIONS" and allowed_origin is not None:
            await _preflight(send_with_headers)
            return
        await self._app(scope, self._limited(receive, limit), send_with_headers)

    def _check(
        self, scope: Scope, path: str, headers: Headers, origin: str | None, allowed_origin: str | None
    ) -> None:
        host = headers.get("host", "")
        if not self._is_own_name(host):
            raise Refused(421, "WrongHost", f"this server is not {host!r}; name it with --allow-host")
        method = scope["method"]
        is_foreign = origin is not None and allowed_origin is None and origin.partition("://")[2] != host
        if is_foreign and method not in _SAFE:
            raise Refused(403, "WrongOrigin", "pages of other sites may not change anything here")
        client = scope["client"][0] if scope.get("client") else "unknown"
        has_token = self._has_token(headers)
        # Behind a proxy all clients have one address: those without the token use up a rate of their own.
        if wait := self._rate.wait(client if has_token else f"{client} without the token"):
            raise Refused(429, "TooManyRequests", "too many requests; wait a moment", wait)
        if method == "OPTIONS" or (method in _SAFE and path in self._public):
            return
        if not has_token:
            if headers.get("authorization") and (wait := self._wrong_tokens.wait(client)):
                raise Refused(429, "TooManyRequests", "too many wrong tokens; wait a minute", wait)
            raise Refused(401, "Unauthorized", "send the token: Authorization: Bearer ...")
        if path in self._answer_paths and (wait := self._answers.wait(client)):
            most = self._settings.answers
            limit = f"more than {most / 2:g} answers at once or {most:g} a minute; see --answers"
            raise Refused(429, "TooManyRequests", limit, wait)

    def _has_token(self, headers: Headers) -> bool:
        if self._settings.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._settings.token.encode())
        return is_right and scheme.lower() == "bearer"

    def _is_own_name(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").rstrip(".").lower()
        if name == "localhost" or name in self._settings.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _too_large(self, limit: int) -> Refused:
        option = "; see --max-upload" if limit == self._settings.upload_bytes else ""
        return Refused(413, "TooLarge", f"a body may have at most {limit:,} bytes here{option}")

    def _limited(self, receive: Receive, limit: int) -> Receive:
        """`receive` with a bound on the bytes of a body and on the time until it is complete."""
        received = 0
        is_complete = False
        deadline = time.monotonic() + self._settings.body_seconds

        async def limited() -> Message:
            nonlocal received, is_complete
            if is_complete:  # what follows a body is the client's leaving, for which a stream waits
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                seconds = f"a body must arrive within {self._settings.body_seconds:g} seconds"
                raise Refused(408, "TooSlow", seconds) from None
            received += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if received > limit:
                raise self._too_large(limit)
            return message

        return limited


def _path_within(scope: Scope) -> str:
    """The path as the application's routes see it: without the prefix that it is mounted at."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


async def _refuse(send: Send, refused: Refused) -> None:
    body = json.dumps({"error": refused.kind, "message": refused.detail}).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(refused.headers or {}),
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status_code, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})

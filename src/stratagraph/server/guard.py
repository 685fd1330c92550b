"""What every request passes: host, origin, token, rate and size; and the headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Iterable

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
API = "/api/"
ANSWERS = frozenset({"/api/ask", "/api/answer"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_BURST = 3.0  # seconds' worth of requests that may come at once
_WRONG_TOKENS = 10.0  # a minute
_CLIENTS = 4096  # whose rates are remembered


class Rate:
    """Token buckets, one per client: `rate` a second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, *, take: bool = True) -> float:
        """Seconds that a client has to wait; 0: it may go on, and it is counted if `take`."""
        now = time.monotonic()
        left, seen = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - seen) * self._rate)
        missing = max(0.0, 1.0 - left)
        self._buckets[client] = (left - 1.0 if take and not missing else left, now)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return missing / self._rate


class Refused(HTTPException):
    """A request that is not answered; raised here, and by `receive` inside the application."""

    def __init__(self, status: int, kind: str, message: str, wait: float = 0.0) -> None:
        super().__init__(status, message)
        self.kind, self.wait = kind, wait


class Guard:
    """Middleware around an application; what it refuses never reaches it."""

    def __init__(self, app: ASGIApp, settings: Settings, uploads: Iterable[str] = (), api: str = API) -> None:
        self._app = app
        self._settings = settings
        self._uploads = tuple(uploads)
        self._api = api
        self._rate = Rate(settings.rate, _BURST * settings.rate)
        self._answers = Rate(settings.answers / 60, settings.answers / 2)
        self._wrong = Rate(_WRONG_TOKENS / 60, _WRONG_TOKENS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed_origin = origin if origin in self._settings.origins else None

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                if allowed_origin is not None:
                    answer["access-control-allow-origin"] = allowed_origin
                    answer["cross-origin-resource-policy"] = "cross-origin"
                    answer.add_vary_header("Origin")
            await send(message)

        try:
            self._check(scope, headers, origin, allowed_origin)
            limit = self._limit(scope)
            length = headers.get("content-length", "0")
            if length.isdigit() and int(length) > limit:
                raise _too_large(limit)
        except Refused as refused:
            await _refuse(dressed, refused)
            return
        if scope["method"] == "OPTIONS" and allowed_origin is not None:
            await _preflight(dressed)
            return
        await self._pass(scope, receive, dressed, limit)

    def _check(self, scope: Scope, headers: Headers, origin: str | None, allowed: str | None) -> None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Refused(421, "WrongHost", f"this server is not {host!r}; name it with --allow-host")
        changes = allowed is None and scope["method"] not in _SAFE
        if changes and origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "WrongOrigin", "pages of other sites may not change anything here")
        client = scope["client"][0] if scope.get("client") else "unknown"
        if wait := self._rate.wait(client):
            raise Refused(429, "TooManyRequests", "too many requests; wait a moment", wait)
        if not scope["path"].startswith(self._api) or scope["method"] == "OPTIONS":
            return
        self._check_token(headers, client)
        if scope["path"] in ANSWERS and (wait := self._answers.wait(client)):
            raise Refused(429, "TooManyRequests", f"more than {self._settings.answers:g} answers", wait)

    def _check_token(self, headers: Headers, client: str) -> None:
        if self._settings.token is None:
            return
        if wait := self._wrong.wait(client, take=False):
            raise Refused(429, "TooManyRequests", "too many wrong tokens; wait a minute", wait)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self._settings.token.encode())
        if scheme.lower() != "bearer" or not right:
            if given:
                self._wrong.wait(client)
            raise Refused(401, "Unauthorized", "give the token: Authorization: Bearer ...")

    def _is_ours(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").rstrip(".").lower()
        if name == "localhost" or name in self._settings.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _limit(self, scope: Scope) -> int:
        is_upload = any(scope["path"].startswith(path) for path in self._uploads)
        return self._settings.upload_bytes if is_upload else BODY_BYTES

    async def _pass(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
            return message

        await self._app(scope, counted, send)


def _too_large(limit: int) -> Refused:
    return Refused(413, "TooLarge", f"a body may have {limit:,} bytes here; see --max-upload")


async def _refuse(send: Send, refused: Refused) -> None:
    body = json.dumps({"error": refused.kind, "message": refused.detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.wait:
        headers.append((b"retry-after", str(max(1, round(refused.wait))).encode()))
    if refused.status_code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status_code == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})

"""Access to a server and its limits: the settings, and the middleware that every request passes."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = 2**20
"""Largest body of a request that brings no documents."""
SHORTEST_TOKEN = 12
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
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PUT, DELETE",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_BURST_SECONDS = 3.0
_WRONG_TOKENS_A_MINUTE = 10.0
_CLIENTS = 4096


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is guarded.

    Parameters
    ----------
    token
        The token that every request must bring (`Authorization: Bearer ...`). None: no token is needed,
        which is safe only on an address of this machine (`checked_token`).
    hosts
        Host names that requests may use, besides `localhost` and IP addresses. A request under any other
        name is refused, which prevents DNS rebinding.
    origins
        Other sites whose pages may use the API (CORS), such as `https://notes.example.org`.
    read_only
        Whether documents can be read and not changed.
    upload_bytes
        Largest body of a request that uploads a file.
    rate
        Requests a second of one client, averaged over some seconds.
    answers
        Answers a minute of one client.
    body_seconds
        Time within which a body must arrive.
    """

    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    read_only: bool = False
    upload_bytes: int = 64 * 2**20
    rate: float = 100.0
    answers: float = 60.0
    body_seconds: float = 120.0

    def __post_init__(self) -> None:
        for name in ("upload_bytes", "rate", "answers", "body_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(f"a token must have at least {SHORTEST_TOKEN} characters, not {len(self.token)}")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def checked_token(host: str, token: str | None) -> str | None:
    """The given token, or a generated one if the address can be reached from other machines."""
    if token is None and not is_loopback(host):
        return secrets.token_urlsafe(24)
    return token


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
    """A request that is refused, with a kind that programs can read."""

    def __init__(self, status: int, kind: str, message: str, wait: float = 0.0) -> None:
        headers = {"retry-after": str(max(1, round(wait)))} if wait else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status == 405:
            headers["allow"] = "POST"
        if status in (408, 413):
            headers["connection"] = "close"
        super().__init__(status, message, headers)
        self.kind = kind

    def response(self) -> JSONResponse:
        """The refusal as JSON, in the form of all errors."""
        return JSONResponse({"error": self.kind, "message": self.detail}, self.status_code, self.headers)


class Guard:
    """Middleware around an application. A refused request never reaches the application.

    `GET` may read `public` paths without the token, which every other path needs, also one that no route has.
    Paths in `answers` count against `Settings.answers`. `body_bytes` is the largest body by prefix of a path;
    `BODY_BYTES` for others.
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

        path, root = scope["path"], scope.get("root_path", "")
        if root and (path == root or path.startswith(f"{root}/")):  # as routes see it: without that prefix
            path = path[len(root) :] or "/"
        limit = next((size for start, size in self._body_bytes.items() if path.startswith(start)), BODY_BYTES)
        try:
            self._check(scope, path, headers, origin, allowed_origin)
            length = headers.get("content-length", "0")
            if length.isdecimal() and int(length) > limit:
                raise self._too_large(limit)
        except Refused as refused:
            await refused.response()(scope, receive, send_with_headers)
            return
        if scope["method"] == "OPTIONS" and allowed_origin is not None:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send_with_headers)
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
        token, sent = self._settings.token.encode(), given.strip()  # a header is decoded as Latin-1
        is_right = hmac.compare_digest(sent.encode("latin-1"), token)
        is_right |= hmac.compare_digest(sent.encode(), token)  # of a client that sends Latin-1
        return is_right and scheme.lower() == "bearer"

    def _is_own_name(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").rstrip(".").lower()
        if name == "localhost" or name in self._settings.hosts:
            return True
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False

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
            if is_complete:  # only a disconnect can follow, for which a stream waits
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

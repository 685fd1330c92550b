"""Who may ask a server, and how much."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass

BODY_BYTES = 2**20
"""Largest body of a request that brings no documents."""
SHORTEST_TOKEN = 12


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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked_token(host: str, token: str | None) -> str | None:
    """The given token, or a generated one if the address can be reached from other machines."""
    if token is None and not is_loopback(host):
        return secrets.token_urlsafe(24)
    return token

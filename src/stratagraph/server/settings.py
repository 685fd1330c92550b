"""Who may ask a server, and how much."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is guarded.

    Parameters
    ----------
    token
        What every request must bring (`Authorization: Bearer ...`); None: nothing, which only an address
        of this machine's own may do (`checked_token`).
    hosts
        Names under which the server may be asked, beside `localhost` and addresses in numbers. A page
        whose name was made to point here (DNS rebinding) asks under its own name, and is refused.
    origins
        Other sites whose pages may use the API (CORS), such as `https://notes.example.org`.
    read_only
        Whether documents can only be read.
    upload_bytes
        Largest body of a request that brings documents; others may have `BODY_BYTES`.
    rate
        Requests a second of one client, averaged over some seconds.
    answers
        Answers a minute of one client.
    """

    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    read_only: bool = False
    upload_bytes: int = 64 * 2**20
    rate: float = 100.0
    answers: float = 60.0

    def __post_init__(self) -> None:
        for name in ("upload_bytes", "rate", "answers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(f"a token must have at least {SHORTEST_TOKEN} characters, not {len(self.token)}")


BODY_BYTES = 2**20
SHORTEST_TOKEN = 12


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def checked_token(host: str, token: str | None) -> str | None:
    """The token to ask for when listening on an address; one is made where it is needed and not given."""
    if token is None and not is_loopback(host):
        return secrets.token_urlsafe(24)
    return token

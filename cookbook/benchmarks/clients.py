"""What real clients make of servers that misbehave: requests, tokens and failures by client and fault.

usage: PYTHONPATH=. python cookbook/benchmarks/clients.py [faults] [bounds]
           [--methods ...] [--clients ...] [--faults ...]

`faults` builds a small index for each method, client and fault, where every third request meets the fault.
A cell reads `requests/failures`, with the word that ended a build which ended: `stop` where every call would
fail, `many` where too many did. Below stand the tokens of all builds, as the server and as the ledger counts
them; they differ where a connection was dropped, since only the server knows what it had written.

`bounds` prints for each client: the most requests at the same time at 200 ms (wanted: 10); the CPU time of a
call by the client alone, and what the gate adds (wanted: at most 1 ms); the requests of one unit that never
succeeds (wanted: at most 1 + retries = 6); and for 20 units the requests sent, and the most at the same time,
where answers take four times the time-out and where the server asks to wait for 120 s. Counts are by the
asynchronous and by the synchronous API.

The server is that of the tests, on loopback. Pauses between attempts are short, as they are not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.clients.clients import CLIENTS
from tests.clients.server import ModelServer, every

import stratagraph as sg
from stratagraph import _sync
from stratagraph.errors import CallFailed, ModelError, TooManyFailures
from stratagraph.models.gate import CallItem, ModelGate, Prompt, Task
from stratagraph.models.structured import plain_text
from stratagraph.testing import FakeEmbedder

METHODS = ("lshtree", "archrag", "noderag", "hirag")
FAULTS = (
    *("ok", "fenced", "prose", "nul", "truncated", "wrong_key", "refusal", "empty", "filtered"),
    *("content_filter", "context", "context_ollama", "429:0.02", "429:120", "quota", "401", "404"),
    *("500", "503", "html", "drop"),
)
PEOPLE = (("Ada", "London", 33), ("Mary", "Bath", 34), ("Luigi", "Turin", 40), ("Jo", "Ely", 41))
DOCUMENTS = [
    f"{name} of {town} met Charles Babbage in 18{year}. They spoke of the Analytical Engine in {town}."
    for name, town, year in PEOPLE
]
RETRIES = 5
CALLS = 200
TASK = Task("describe", Prompt("describe", "Say something about {{text}}."), plain_text, lambda values: "")


@dataclass
class Built:
    """What one build took, by the server and by the ledger, and how it ended."""

    requests: int
    failures: int
    end: str
    server_tokens: int
    ledger_tokens: int

    def __str__(self) -> str:
        return f"{self.requests}/{self.failures}{f' {self.end}' if self.end else ''}"


async def pause(seconds: float) -> None:
    """A pause that takes no time."""
    await asyncio.sleep(min(seconds, 0.005))


def build(client: str, fault: str, method: str) -> Built:
    """One build where every third request meets a fault."""
    failures, end, used = 0, "", 0
    config = {"limits": {"retries": 2, "longest_wait": 1.0}, "max_failures": 0.5}
    with ModelServer(every(3, fault)) as server:
        try:
            index = sg.build_index(
                DOCUMENTS,
                method,
                llm=CLIENTS[client](server),
                embedder=FakeEmbedder(),
                config=config,
                progress=False,
            )
        except TooManyFailures:
            end = "many"
        except ModelError:
            end = "stop"
        else:
            with index:
                report = index.last_report
                failures = len(report.failures)
                used = report.usage.input_tokens + report.usage.output_tokens
        return Built(server.requests, failures, end, server.input_tokens + server.output_tokens, used)


def faults(methods: Sequence[str], clients: Sequence[str], modes: Sequence[str]) -> None:
    """A table for each method."""
    for method in methods:
        print(f"\n{method}: requests/failures")
        print(f"{'every third request':20}" + "".join(f"{client:>19}" for client in clients))
        whole: dict[str, list[Built]] = {client: [] for client in clients}
        for mode in modes:
            row = {client: build(client, mode, method) for client in clients}
            for client, built in row.items():
                whole[client] += [] if built.end else [built]
            print(f"{mode:20}" + "".join(f"{built!s:>19}" for built in row.values()), flush=True)
        for title, tokens in (("tokens, server", "server_tokens"), ("tokens, ledger", "ledger_tokens")):
            sums = (sum(getattr(built, tokens) for built in each) for each in whole.values())
            print(f"{title:20}" + "".join(f"{total:19,}" for total in sums))


async def sent(client: str, server: ModelServer, count: int, **limits: float) -> str:
    """Requests for `count` units, and the most at the same time."""
    allowed = sg.Limits(**{"retries": RETRIES, "grace": 0.0, **limits})
    gate = ModelGate(CLIENTS[client](server), None, limits=allowed, max_failures=1.0, sleep=pause)
    items = [CallItem({"text": f"thing {number}"}, str(number)) for number in range(count)]
    with suppress(CallFailed, ModelError):
        await gate.map(TASK, items, required=False)
    return f"{server.requests}, {server.peak} at once"


def both(client: str, mode: str, count: int, *, latency: float = 0.0, **limits: float) -> str:
    """What `sent` says, by the asynchronous API and by the synchronous one."""
    found = []
    for run in (asyncio.run, _sync.run):
        with ModelServer(mode, latency=latency, write=fine) as server:
            found.append(run(sent(client, server, count, **limits)))
    return found[0] if found[0] == found[1] else " / ".join(found)


def fine(prompt: str) -> str:
    """The answer to everything."""
    return "fine"


def added(client: str) -> str:
    """CPU milliseconds of a call in its thread: the client alone, and what the gate adds to it."""

    async def alone(server: ModelServer) -> None:
        model, slots = CLIENTS[client](server), asyncio.Semaphore(10)

        async def one(number: int) -> None:
            async with slots:
                await model.acomplete(f"Say something about thing {number}.")

        await asyncio.gather(*map(one, range(CALLS)))

    def cpu(work: Callable[[ModelServer], Coroutine[Any, Any, Any]]) -> float:
        with ModelServer(write=fine) as server:
            began = time.thread_time()  # the loop runs in this thread, the server in others
            asyncio.run(work(server))
            return 1000 * (time.thread_time() - began) / CALLS

    cpu(alone)  # imports and first connections
    pairs = [(cpu(alone), cpu(lambda server: sent(client, server, CALLS))) for _ in range(3)]
    client_alone = min(pair[0] for pair in pairs)
    return f"{client_alone:.2f} + {min(pair[1] for pair in pairs) - client_alone:.2f}"


def bounds(clients: Sequence[str]) -> None:
    """A line for each client."""
    heads = ("40 units at 200 ms", "CPU ms", "never succeeds", "4 x time-out", "Retry-After 120")
    print(f"\n{'':20}" + "".join(f"{head:>38}" for head in heads))
    for client in clients:
        cells = (
            both(client, "ok", 40, latency=0.2),
            added(client),
            both(client, "500", 1),
            both(client, "ok", 20, latency=4.0, timeout=1.0),
            both(client, "429:120", 20),
        )
        print(f"{client:20}" + "".join(f"{cell:>38}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="faults, bounds; both by default")
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--clients", nargs="*", default=tuple(CLIENTS), choices=tuple(CLIENTS))
    parser.add_argument("--faults", nargs="*", default=FAULTS)
    given = parser.parse_args()
    logging.getLogger("stratagraph").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    parts = given.parts or ("bounds", "faults")
    if "bounds" in parts:
        bounds(given.clients)
    if "faults" in parts:
        faults(given.methods, given.clients, given.faults)


if __name__ == "__main__":
    main()

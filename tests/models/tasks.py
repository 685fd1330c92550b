"""Small tasks and a pause that takes no time, for the tests of the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from stratagraph.models.gate import CallItem, ModelGate, Prompt, Task
from stratagraph.models.structured import json_as, plain_text
from stratagraph.types.records import Usage

ECHO = Prompt("echo", "Say something about {{text}}.")
PLACEHOLDER = "five tokens in all here"
TEXT = Task("describe", ECHO, plain_text, lambda values: PLACEHOLDER, expected_output_tokens=10)


class Fact(BaseModel):
    subject: str
    score: float


FACT = Task("fact", ECHO, json_as(Fact), lambda values: Fact(subject="x", score=1), schema=Fact)


def items(count: int) -> list[CallItem]:
    return [CallItem({"text": f"thing {n}"}, f"item-{n}", (f"chunk-{n}",)) for n in range(count)]


class Pauses:
    """Remembers pauses instead of taking them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def all_free(gate: ModelGate) -> bool:
    """Whether no slot is held, nothing is under way and nothing is promised."""
    requests, embedder = next(iter(gate._requests.values()), None), gate._embedder
    slots = [part.slots for part in (requests and requests.limiter, embedder) if part]
    return (
        all(each.free == each.count for each in slots)
        and not len(gate._pending)
        and (requests is None or requests.account._promised == Usage())
    )


class Recorder:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def start(self, stage: str, total: int | None) -> None:
        self.told.append(("start", stage, total))

    def advance(self, stage: str, count: int = 1) -> None:
        self.told.append(("advance", stage, count))

    def finish(self, stage: str) -> None:
        self.told.append(("finish", stage))

    def done(self, stage: str) -> int:
        return sum(entry[2] for entry in self.told if entry[:2] == ("advance", stage))


def texts(count: int) -> Sequence[str]:
    return [f"text number {n} about topic {n % 7}" for n in range(count)]

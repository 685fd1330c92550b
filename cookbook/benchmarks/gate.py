"""Time of many model calls through the gate, against the ideal. Usage: python gate.py [--small]."""

from __future__ import annotations

import argparse
import asyncio
import time

from stratagraph.models.budget import Limits
from stratagraph.models.gate import CallItem, ModelGate, Prompt, Task
from stratagraph.models.structured import plain_text
from stratagraph.testing import BlockingChatModel, MemoryCalls, ScriptedChatModel

CONCURRENCY = 10
LATENCY = 0.020

TASK = Task(
    name="summarize",
    prompt=Prompt("summarize", "Summarise these passages in {{words}} words.\n\n{{passages}}"),
    parse=plain_text,
    placeholder=lambda values: "summary",
)


def items(count: int) -> list[CallItem]:
    """Distinct prompts of about 1,500 tokens."""
    text = "some words of a text " * 300
    return [
        CallItem({"words": "80", "passages": f"Passage {number}. {text}"}, str(number))
        for number in range(count)
    ]


async def measure(model: BlockingChatModel, count: int) -> float:
    """Seconds for `count` calls, prompts, cache and ledger included."""
    gate = ModelGate(model, None, cache=MemoryCalls(), limits=Limits(concurrency=CONCURRENCY))
    work = items(count)
    started = time.perf_counter()
    answers = await gate.map(TASK, work)
    elapsed = time.perf_counter() - started
    if None in answers or model.calls != count or model.most_at_once > CONCURRENCY:
        raise RuntimeError(f"{model.calls} calls, {model.most_at_once} at once, {answers.count(None)} failed")
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="1,000 calls instead of 10,000")
    count = 1_000 if parser.parse_args().small else 10_000
    ideal = count * LATENCY / CONCURRENCY
    for kind in (ScriptedChatModel, BlockingChatModel):
        seconds = asyncio.run(measure(kind("A summary.", latency=LATENCY), count))
        ratio = f"{seconds / ideal:.3f} x the ideal {ideal:g} s"
        print(f"{kind.__name__}: {count:,} calls in {seconds:.2f} s, {ratio}")


if __name__ == "__main__":
    main()

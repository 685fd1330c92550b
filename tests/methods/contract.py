"""What the contract suite needs: one way to call the API sync and async, and a way to compare indexes."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Any

import stratarag as sr
from stratarag.testing import FakeEmbedder

TOPICS = {
    "harbour": "ferry pier captain rope tide lantern cargo gull anchor buoy",
    "orchard": "apple pear graft ladder basket blossom cider frost beehive root",
    "railway": "engine signal platform whistle timetable sleeper boiler tunnel coach guard",
    "theatre": "curtain actor prompter stage rehearsal costume balcony applause script lantern",
}


def documents(count: int = 60, *, start: int = 0) -> list[sr.Document]:
    """Short documents about four topics; document i is always the same."""
    made = []
    for number in range(start, start + count):
        chance = random.Random(number)
        topic = list(TOPICS)[number % len(TOPICS)]
        words = [chance.choice(TOPICS[topic].split()) for _ in range(24)]
        text = f"Note {number} of the {topic}. " + " ".join(words[:12]) + ". " + " ".join(words[12:]) + "."
        made.append(sr.Document(f"doc-{number:03}", text, {"topic": topic, "number": number}))
    return made


def written_summary(prompt: str) -> str:
    """A summary that depends on the whole prompt, as a real one does."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    words = [word for word in prompt.split("<passages>")[-1].split() if word.isalpha()]
    return f"Summary {digest[:16]}: " + " ".join(words[:30])


class CountingModel:
    """A chat model that remembers its prompts, and may refuse from some call on."""

    name = "contract-model"

    def __init__(self, answer: Callable[[str], str] = written_summary) -> None:
        self.prompts: list[str] = []
        self._answer = answer

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        await asyncio.sleep(0)
        self.prompts.append(prompt)
        return self._answer(prompt)


class Caller:
    """The public API, called through its synchronous or its asynchronous half."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.mode == "sync":
            return getattr(owner, name)(*args, **kwargs)

        async def call() -> Any:
            return await getattr(owner, f"a{name}")(*args, **kwargs)

        return asyncio.run(call())

    def build(self, docs: Any, **kwargs: Any) -> sr.Index:
        kwargs.setdefault("embedder", FakeEmbedder())
        kwargs.setdefault("progress", False)
        index: sr.Index = self(sr, "build_index", docs, **kwargs)
        return index


def state(index: sr.Index, method: str) -> dict[str, Any]:
    """All that an index holds, in a form that two equal indexes have in common."""
    snapshot = index._serve().snapshot
    stored = snapshot.method(method)
    rows = range(snapshot.size)
    ids = snapshot.ids(rows)
    return {
        "documents": snapshot.documents(),
        "chunks": [(c.id, c.document_id, c.text, dict(c.metadata)) for c in snapshot.chunks(rows)],
        "vectors": snapshot.vectors.tobytes(),
        "nodes": [
            (n.id, n.kind, n.level, n.text, [ids[row] for row in n.sources], dict(n.extra))
            for n in stored.nodes(range(stored.size))
        ],
        "arrays": {name: array.tobytes() for name, array in stored.arrays.items()},
    }

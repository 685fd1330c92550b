"""What the contract suite needs: one way to call the API sync and async, and a way to compare indexes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args, get_origin

from pydantic import BaseModel

import stratarag as sr
from stratarag.testing import FakeEmbedder
from stratarag.testing.opened import snapshot_of

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
    """A chat model that remembers its prompts, and may refuse from some call on.

    Where a schema is asked for, a `written_summary` comes in that form; other answers stay as they are.
    """

    name = "contract-model"

    def __init__(self, answer: Callable[[str], str] = written_summary) -> None:
        self.prompts: list[str] = []
        self._answer = answer

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        await asyncio.sleep(0)
        self.prompts.append(prompt)
        answer = self._answer(prompt)
        shaped = schema is not None and "Summary " in answer
        return json.dumps(_shaped(schema, prompt, answer)) if shaped else answer


def _shaped(schema: type[BaseModel], prompt: str, answer: str) -> dict[str, Any]:
    """An object of the schema that says what `answer` says; an extraction is one of the prompt's passage."""
    if {"entities", "relations", "units"} <= schema.model_fields.keys():
        return _extraction(prompt.split("<passage>")[-1].split("</passage>")[0].split())
    return {name: _value(item.annotation, prompt, answer) for name, item in schema.model_fields.items()}


def _value(kind: Any, prompt: str, answer: str) -> Any:
    if get_origin(kind) in (list, tuple):
        return [_value(get_args(kind)[0], prompt, answer)]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _shaped(kind, prompt, answer)
    return {int: 1, float: 5.0, bool: False}.get(kind, answer)


def _extraction(words: list[str]) -> dict[str, Any]:
    """The note, its topic and its first word, related in this order."""
    names = list(dict.fromkeys([" ".join(words[:2]), *(word.strip(".") for word in words[4:6])]))
    facts = [f"{name} is in: {' '.join(words[:12])}" for name in names]
    return {
        "units": [{"text": " ".join(words), "entities": names}],
        "entities": [
            {"name": name, "type": "thing", "description": fact}
            for name, fact in zip(names, facts, strict=True)
        ],
        "relations": [
            {"source": one, "target": other, "description": f"{one} and {other}", "strength": 5}
            for one, other in pairwise(names)
        ],
    }


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
    return {"corpus": _corpus(index), "graph": _table(index, "graph"), method: _table(index, method)}


def state_after_update(index: sr.Index, method: str) -> dict[str, Any]:
    """What an updated index has in common with one built anew.

    That is everything for methods whose hierarchy follows from the corpus alone. Communities stay where they
    are as far as they can, so of theirs all is compared but the partition, which must be sound.
    """
    if method in PARTITIONED:
        assert_sound(index, method)
        return {"corpus": _corpus(index), "graph": _table(index, "graph")}
    return state(index, method)


PARTITIONED = ("archrag", "noderag", "hirag")


def assert_sound(index: sr.Index, method: str) -> None:
    """Every node is made of members that are there, and of all their sources."""
    snapshot = snapshot_of(index)
    own, graph = snapshot.part(method), snapshot.part("graph")
    nodes = own.nodes(range(own.size))
    sources = {node.id: set(node.sources) for node in (*graph.nodes(range(graph.size)), *nodes)}
    for node in nodes:
        assert node.sources
        members = node.extra.get("members", ())
        if members:
            assert set(node.sources) == set().union(*(sources[member] for member in members)), node


def _corpus(index: sr.Index) -> dict[str, Any]:
    snapshot = snapshot_of(index)
    return {
        "documents": snapshot.documents(),
        "chunks": [
            (c.id, c.document_id, c.text, dict(c.metadata)) for c in snapshot.chunks(range(snapshot.size))
        ],
        "vectors": snapshot.vectors.tobytes(),
    }


def _table(index: sr.Index, name: str) -> dict[str, Any]:
    snapshot = snapshot_of(index)
    stored = snapshot.part(name)
    ids = snapshot.ids(range(snapshot.size))
    return {
        "nodes": [
            (n.id, n.kind, n.level, n.text, [ids[row] for row in n.sources], dict(n.extra))
            for n in stored.nodes(range(stored.size))
        ],
        "arrays": {key: array.tobytes() for key, array in stored.arrays.items()},
    }

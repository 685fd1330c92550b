"""The contract of every method, as checks for tests.

`documents` and `CountingModel` make a corpus and its model, `Caller` calls the sync or the async API,
`assert_sound` checks an index, and `state` compares two. Call
`pytest.register_assert_rewrite("stratagraph.testing.contract")` before importing it to see values in
messages.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any, get_args, get_origin

import numpy as np
from pydantic import BaseModel

import stratagraph as sg
from stratagraph.models.messages import Messages
from stratagraph.store.records import NODES
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.opened import snapshot_of

TOPICS = {
    "harbour": "ferry pier captain rope tide lantern cargo gull anchor buoy",
    "orchard": "apple pear graft ladder basket blossom cider frost beehive root",
    "railway": "engine signal platform whistle timetable sleeper boiler tunnel coach guard",
    "theatre": "curtain actor prompter stage rehearsal costume balcony applause script lantern",
}


def documents(count: int = 60, *, start: int = 0) -> list[sg.Document]:
    """Short documents about four topics. Document i is always the same."""
    notes = []
    for number in range(start, start + count):
        chance = random.Random(number)
        topic = list(TOPICS)[number % len(TOPICS)]
        words = [chance.choice(TOPICS[topic].split()) for _ in range(24)]
        text = f"Note {number} of the {topic}. " + " ".join(words[:12]) + ". " + " ".join(words[12:]) + "."
        notes.append(sg.Document(f"doc-{number:03}", text, {"topic": topic, "number": number}))
    return notes


def written_summary(prompt: str) -> str:
    """A summary that depends on the whole prompt, as a real one does."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    words = [word for word in prompt.split("<passages>")[-1].split() if word.isalpha()]
    return f"Summary {digest[:16]}: " + " ".join(words[:30])


def asks_again(prompt: str, first: str) -> bool:
    """Whether `prompt` is `first` again, or the request to repair its answer."""
    one, other = Messages.of(prompt), Messages.of(first)
    return one.system == other.system and other.user in one.user


class CountingModel:
    """A chat model that records its prompts.

    With a schema, a `written_summary` is returned in its form.
    """

    name = "contract-model"

    def __init__(self, answer: Callable[[str], str] = written_summary) -> None:
        self.prompts: list[str] = []
        self._answer = answer

    async def acomplete(self, prompt: str, *, schema: type[BaseModel] | None = None) -> str:
        """Return the answer, in the form of the schema if there is one."""
        await asyncio.sleep(0)
        self.prompts.append(prompt)
        answer = self._answer(prompt)
        if schema is None or "Summary " not in answer:
            return answer
        return json.dumps(_shaped(schema, prompt, answer))


def _shaped(schema: type[BaseModel], prompt: str, answer: str) -> dict[str, Any]:
    """The answer as an object of the schema; an extraction is one of the prompt's passages."""
    if {"entities", "relations", "units"} <= schema.model_fields.keys():
        return _extraction(prompt.split("<passage>")[-1].split("</passage>")[0].split())
    if {"sentences", "types"} == schema.model_fields.keys():
        return _names_of_sentences(prompt)
    return {name: _value(item.annotation, prompt, answer) for name, item in schema.model_fields.items()}


def _value(kind: Any, prompt: str, answer: str) -> Any:
    if get_origin(kind) in (list, tuple):
        return [_value(get_args(kind)[0], prompt, answer)]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _shaped(kind, prompt, answer)
    return {int: 1, float: 5.0, bool: False}.get(kind, answer)


def _names(words: list[str]) -> list[str]:
    """The note, its topic and its first word."""
    return list(dict.fromkeys([" ".join(words[:2]), *(word.strip(".") for word in words[4:6])]))


def _names_of_sentences(prompt: str) -> dict[str, Any]:
    """The names of each note, with its first sentence."""
    first = re.findall(r"^Passage\n(\d+) (.*)$", prompt.split("<sentences")[-1], re.MULTILINE)
    named = [(number, _names(text.split())) for number, text in first]
    names = dict.fromkeys(name for _, own in named for name in own)
    return {
        "sentences": ["|".join((number, *own)) for number, own in named],
        "types": ["|".join(("thing", *names))],
    }


def _extraction(words: list[str]) -> dict[str, Any]:
    """The names of a note, related in this order."""
    names = _names(words)
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
    """Calls the public API, synchronously or asynchronously (`mode`)."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the function of this name, or its async twin."""
        if self.mode == "sync":
            return getattr(owner, name)(*args, **kwargs)

        async def call() -> Any:
            return await getattr(owner, f"a{name}")(*args, **kwargs)

        return asyncio.run(call())

    def build(self, docs: Any, **kwargs: Any) -> sg.Index:
        """Build an index, by default with a fake embedder and without progress."""
        kwargs.setdefault("embedder", FakeEmbedder())
        kwargs.setdefault("progress", False)
        index: sg.Index = self(sg, "build_index", docs, **kwargs)
        return index


def state(index: sg.Index, method: str) -> dict[str, Any]:
    """The content of an index in a form that compares equal for equal indexes."""
    return {"corpus": _corpus(index), "graph": _table(index, "graph"), method: _table(index, method)}


def assert_equal_states(state: Any, expected: Any) -> None:
    """Assert that two states are equal.

    Raises
    ------
    AssertionError
        Naming the first places that differ, with both values.
    """
    differing = list(islice(_differences(state, expected, ""), 10))
    assert not differing, "the states differ, first here:\n" + "\n".join(differing)


def _differences(state: Any, expected: Any, path: str) -> Iterator[str]:
    if isinstance(state, dict) and isinstance(expected, dict) and state.keys() == expected.keys():
        for key in state:
            yield from _differences(state[key], expected[key], f"{path}/{key}")
    elif isinstance(state, list | tuple) and len(state) == len(expected):
        for place, (one, other) in enumerate(zip(state, expected, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif isinstance(state, bytes) and len(state) == len(expected):
        places = [place for place, pair in enumerate(zip(state, expected, strict=True)) if pair[0] != pair[1]]
        if places:
            yield f"{path}: {len(places)} of {len(state)} bytes, first at {places[:8]}"
    elif state != expected:
        yield f"{path}: {str(state)[:400]} where {str(expected)[:400]} was expected"


def state_after_update(index: sg.Index, method: str) -> dict[str, Any]:
    """The state that an updated index shares with a new build.

    Groups stay where they are under updates, as far as they can, so that they are left out and must be sound.
    """
    assert_sound(index, method)
    return {"corpus": _corpus(index), "graph": _table(index, "graph")}


GROUPED = {"lshtree": "summary", "archrag": "community", "hirag": "community"}
"""The kind of node whose members are the groups of a level, of methods whose nodes are groups."""
_WHOLE = ("lshtree", "archrag")  # every member of a level is in a group of the next; HiRAG lifts lone ones


def assert_sound(index: sg.Index, method: str) -> None:
    """Assert what every method guarantees of its index.

    - Every node has a text, existing members, and exactly their sources.
    - On each level, each thing is in one group, and no group is larger than the settings allow.
    - Every file matches its checksum.

    Raises
    ------
    AssertionError
        Naming the violation.
    """
    nodes = list(index.nodes(method))
    sources = _sources(index)
    sources |= {node.id: set(node.sources) for node in nodes}
    assert len({node.id for node in nodes}) == len(nodes), "two nodes have one id"
    for node in nodes:
        assert node.text.strip(), f"{node.id} has no text"
        assert node.sources, f"{node.id} has no sources"
        assert len(set(node.members)) == len(node.members), f"{node.id} has a member twice"
        assert node.id not in node.members, f"{node.id} is a member of itself"
        if node.members:
            absent = [member for member in node.members if member not in sources]
            assert not absent, f"{node.kind} {node.id} is made of {absent}, which is not there"
            united = set().union(*(sources[member] for member in node.members))
            assert set(node.sources) == united, f"{node.kind} {node.id} has other sources than its members"
    if method in GROUPED:
        _assert_groups(index, method, [node for node in nodes if node.kind == GROUPED[method]])
    if method == "noderag":
        _assert_labels(index, method)
    assert index.verify() == []


def _sources(index: sg.Index) -> dict[str, set[str]]:
    """The chunks behind each chunk, entity, relation and unit, by id."""
    sources = {chunk.id: {chunk.id} for chunks in index.chunks().values() for chunk in chunks}
    for things in (index.entities(), index.relations(), index.units()):
        sources |= {thing.id: set(thing.sources) for thing in things}
    return sources


def _settings(index: sg.Index, method: str) -> dict[str, Any]:
    return dict(snapshot_of(index).manifest.parts[method])


def _bounds(method: str, settings: dict[str, Any], size: int, level: int) -> tuple[int, int]:
    """Least and most members of a group, given the number of things on the level below."""
    if method == "lshtree":
        return min(settings["min_cluster"], size), settings["max_cluster"]
    bounded = method == "archrag" or level == 0
    return 1, settings["max_community"] if bounded else size


def _assert_groups(index: sg.Index, method: str, groups: list[sg.MethodNode]) -> None:
    """Groups partition the level below; HiRAG's finest communities have level 0."""
    settings = _settings(index, method)
    below = _lowest(index, method)
    for level in sorted({node.level for node in groups}):
        here = [node for node in groups if node.level == level]
        members = [member for node in here for member in node.members]
        assert len(set(members)) == len(members), f"something is in two groups of level {level}"
        assert set(members) <= below, f"a group of level {level} has members that are not below it"
        if method in _WHOLE or level == 0:
            assert set(members) == below, f"something is in no group of level {level}"
        least, most = _bounds(method, settings, len(below), level)
        sizes = [len(node.members) for node in here]
        assert least <= min(sizes), f"a group of level {level} has {min(sizes)} members, fewer than {least}"
        assert max(sizes) <= most, f"a group of level {level} has {max(sizes)} members, more than {most}"
        below = (below - set(members)) | {node.id for node in here}


def _lowest(index: sg.Index, method: str) -> set[str]:
    """What the lowest groups partition: chunks, or entities of all layers."""
    if method == "lshtree":
        return {chunk.id for chunks in index.chunks().values() for chunk in chunks}
    summaries = {node.id for node in index.nodes(method) if node.kind == "summary_entity"}
    return {entity.id for entity in index.entities()} | summaries


def _assert_labels(index: sg.Index, method: str) -> None:
    """NodeRAG stores communities as labels, one per entity, relation, unit and attribute."""
    snapshot = snapshot_of(index)
    arrays, graph = snapshot.part(method).arrays, snapshot.part("graph")
    attributes = sum(node.kind == "attribute" for node in index.nodes(method))
    labels = arrays["communities.labels"]
    assert len(labels) == graph.size + attributes, "something is in no community, or in two"
    assert (labels >= 0).all(), "something is in no community"
    if len(labels):
        most = _settings(index, method)["max_community"]
        largest = max(Counter(labels.tolist()).values())
        assert largest <= most, f"a community has {largest} members, more than {most}"


def _corpus(index: sg.Index) -> dict[str, Any]:
    snapshot = snapshot_of(index)
    return {
        "documents": dict(snapshot.document_states()),
        "chunks": [
            (c.id, c.document_id, c.text, dict(c.metadata)) for c in snapshot.chunks(range(snapshot.size))
        ],
        "vectors": np.asarray(snapshot.vectors).tobytes(),
    }


def _table(index: sg.Index, name: str) -> dict[str, Any]:
    snapshot = snapshot_of(index)
    stored = snapshot.part(name)
    ids = snapshot.ids(range(snapshot.size))
    return {
        "nodes": [
            (n.id, n.kind, n.level, n.text, [ids[row] for row in n.sources], dict(n.extra))
            for n in stored.nodes(range(stored.size))
        ],
        "arrays": {
            key: np.asarray(array).tobytes() for key, array in stored.arrays.items() if key != NODES.slots
        },
    }

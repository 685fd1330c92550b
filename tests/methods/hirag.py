"""What the tests of HiRAG share: a model that answers by schema, and what every index must hold to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import assert_sound
from stratagraph.testing.opened import snapshot_of
from stratagraph.types.records import Node

SMALL = {"report_tokens": 10, "cluster_size": 3, "max_cluster": 5, "max_community": 6}


def build(docs: Any, config: dict[str, Any] | None = None, **kwargs: Any) -> sg.Index:
    settings = {"extraction": {"form": "full"}} | ({"hirag": config} if config else {})
    kwargs.setdefault("embedder", FakeEmbedder())
    return sg.build_index(docs, method="hirag", config=settings, progress=False, **kwargs)


def stored(index: sg.Index) -> tuple[list[Node], list[Node], dict[str, np.ndarray]]:
    """The graph's nodes, the method's nodes and its arrays."""
    snapshot = snapshot_of(index)
    graph, own = snapshot.part("graph"), snapshot.part("hirag")
    return graph.nodes(range(graph.size)), own.nodes(range(own.size)), dict(own.arrays)


class Answering:
    """A chat model that answers by the schema it is asked for, and counts what it is asked."""

    name = "answering"

    def __init__(self, summaries: Callable[[str], list[str]] | None = None) -> None:
        self.asked: dict[str, int] = {}
        self._summaries = summaries or (lambda prompt: [f"group {abs(hash_of(prompt))}"])

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        await asyncio.sleep(0)
        kind = schema.__name__ if schema else "text"
        self.asked[kind] = self.asked.get(kind, 0) + 1
        if kind == "SummarySchema":
            named = self._summaries(prompt)
            return json.dumps({"entities": [{"name": each, "description": f"of {each}"} for each in named]})
        if kind == "MetaTypesSchema":
            return json.dumps({"types": ["craft", "place"]})
        if kind == "FindingsSchema":
            return json.dumps({"title": f"T{hash_of(prompt)}", "summary": "A ferry and an apple."})
        if kind == "NamesSchema":
            first = re.findall(r"^Passage\n(\d+) (.*)$", prompt.split("<sentences")[-1], re.MULTILINE)
            named = ["|".join((number, *_names(text.split()))) for number, text in first]
            return json.dumps({"sentences": named, "types": []})
        passage = prompt.split("<passage>")[-1].split("</passage>")[0].split()
        return json.dumps(extraction(passage))


def hash_of(prompt: str) -> int:
    return sum(ord(letter) * place for place, letter in enumerate(prompt, 1))


def _names(words: list[str]) -> list[str]:
    return list(dict.fromkeys([" ".join(words[:2]), *words[6:14]]))


def extraction(words: list[str]) -> dict[str, Any]:
    names = _names(words)
    return {
        "units": [{"text": " ".join(words), "entities": names}],
        "entities": [{"name": name, "type": "", "description": f"{name} is told of"} for name in names],
        "relations": [{"source": a, "target": b, "description": f"{a} {b}"} for a, b in pairwise(names)],
    }


def check(index: sg.Index, max_cluster: int = 16, max_community: int = 24) -> None:
    """Whether the index is sound, and layers and communities in their arrays are as its nodes say."""
    assert_sound(index, "hirag")
    graph, own, arrays = stored(index)
    entities = [node for node in graph if node.kind == "entity"]
    summaries = [node for node in own if node.kind == "summary_entity"]
    communities = [node for node in own if node.kind == "community"]
    count = len(entities) + len(summaries)
    labels = arrays["communities.labels"]
    assert labels.shape[1] == count
    ids = [node.id for node in (*entities, *summaries)]
    for level, of_level in enumerate(labels):
        for number in np.unique(of_level):
            rows = np.flatnonzero(of_level == number)
            start, end = arrays["communities.indptr"][number : number + 2]
            assert arrays["communities.indices"][start:end].tolist() == rows.tolist()
            node = communities[number]
            assert node.level <= level
            if level == 0:
                assert len(rows) <= max_community
                assert {ids[row] for row in rows} == set(node.extra["members"])
    sizes = np.diff(arrays["clusters.indptr"])
    assert ((sizes >= 1) & (sizes <= max_cluster)).all()
    assert ((arrays["layers.sparsity"] >= 0) & (arrays["layers.sparsity"] <= 1)).all()
    indptr, indices = arrays["layered.indptr"], arrays["layered.indices"]
    tails = np.repeat(np.arange(count), np.diff(indptr))
    assert (tails != indices).all()

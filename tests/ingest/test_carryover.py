"""What an update takes over: nodes by id, vectors by text, labels by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stratagraph.ingest.carryover import (
    RECLUSTER_SHARE,
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    derived_id,
    keys_of,
    lookup,
    needs_reclustering,
    previous_labels,
    text_keys,
)
from stratagraph.models.gate import ModelGate
from stratagraph.types.records import Node, content_id, content_key, content_keys


class Previous:
    """A stored index in memory."""

    def __init__(self, nodes: Sequence[Node], arrays: Mapping[str, Any]) -> None:
        self._nodes = list(nodes)
        self.arrays = arrays

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        return [self._nodes[row] for row in rows]

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        known = {node.id: row for row, node in enumerate(self._nodes)}
        return {each: known[each] for each in ids if each in known}


class Embedder:
    name = "by length"

    def __init__(self) -> None:
        self.given: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]


class Model:
    name = "model"

    def complete(self, prompt: str) -> str:
        return "answer"


def gate(embedder: Embedder | None = None, llm: Model | None = None) -> ModelGate:
    return ModelGate(llm, embedder)


def node(identity: str, text: str, by: str | None = None) -> Node:
    return Node(identity, "summary", 1, text, [0], {} if by is None else {"by": by})


def test_keys_tell_values_kinds_and_borders_apart() -> None:
    expected = int(content_id("a\u00e9")[:16], 16)
    assert content_keys(["a\u00e9", "b"]).tolist() == [expected, content_key("b")]
    assert content_key("a\u00e9") == content_key("a\u00e9".encode())
    assert keys_of("entity", ["a", "b"]).tolist() == [content_key("entity", "a"), content_key("entity", "b")]
    assert content_key("ab", "c") != content_key("a", "bc")


def test_lookup_agrees_with_a_dictionary() -> None:
    random = np.random.default_rng(0)
    known = random.integers(0, 50, 200).astype(np.uint64)
    keys = random.integers(0, 80, 300).astype(np.uint64)
    first = {value: place for place, value in reversed(list(enumerate(known.tolist())))}
    assert lookup(keys, known).tolist() == [first.get(value, -1) for value in keys.tolist()]
    assert lookup(keys, known[:0]).tolist() == [-1] * 300
    assert lookup(keys[:0], known).tolist() == []
    few = np.append(keys[:2], keys[:1])  # among so many known ones that these are not sorted
    assert lookup(few, known).tolist() == [first.get(value, -1) for value in few.tolist()]


def test_previous_labels_of_several_levels() -> None:
    origin, labels = np.array([2, 0, -1]), np.array([[0, 1, 2], [4, 4, 5]])
    assert previous_labels(origin, labels).tolist() == [[2, 0, -1], [5, 4, -1]]
    assert previous_labels(origin, labels[0]).tolist() == [2, 0, -1]
    assert previous_labels(np.full(3, -1), labels[:, :0]).tolist() == [[-1] * 3] * 2
    assert previous_labels(origin, labels[:0]).shape == (0, 3)


def test_reclustering_starts_above_the_share_of_new_members() -> None:
    members = np.arange(100)
    border = 100 * RECLUSTER_SHARE
    assert not needs_reclustering(members >= border)
    assert needs_reclustering(members > border)
    assert needs_reclustering(np.zeros(0, np.bool_))
    assert needs_reclustering(np.zeros(3, np.bool_))


def test_a_derived_id_knows_members_and_texts_but_not_their_order() -> None:
    members = [("a", "one"), ("b", "two")]
    assert derived_id(members, "x") == derived_id(reversed(members), "x")
    others = [[("a", "one")], [("a", "two"), ("b", "one")], [("a", "one"), ("b", "other")]]
    ids = [derived_id(each, "x") for each in (members, *others)]
    assert len({*ids, derived_id(members, "y")}) == 5


def test_nodes_are_taken_over_by_id_and_extracts_only_without_a_model() -> None:
    previous = Previous([node("a", "A", "model"), node("b", "B", "extractive"), node("c", "C")], {})
    assert set(CarryOver(previous, gate()).nodes(["a", "b", "c", "d"])) == {"a", "b", "c"}
    assert set(CarryOver(previous, gate(llm=Model())).nodes(["a", "b", "c", "d"])) == {"a", "c"}
    assert CarryOver(None, gate()).nodes(["a"]) == {}


async def test_only_new_texts_are_embedded() -> None:
    nodes = [node("a", "one"), node("b", "never embedded"), node("c", "three")]
    arrays = {VECTORS: np.array([[1, 0], [0, 0], [0, 1]], np.float32)}
    arrays[VECTOR_KEYS] = text_keys(each.text for each in nodes)
    embedder = Embedder()
    carry = CarryOver(Previous(nodes, arrays), gate(embedder))
    vectors = await carry.embed("embed", ["three", "new", "one", "never embedded", "new"], 2)
    assert embedder.given == ["new", "never embedded"]
    assert vectors[[0, 2]].tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)  # kept as float16
    assert vectors[1].tolist() == vectors[4].tolist()


async def test_vectors_of_other_arrays_and_of_a_graph_without_any() -> None:
    arrays = {"other": np.array([[1, 0], [0, 1]], np.float32), "other.keys": text_keys(["one"])}
    embedder = Embedder()
    carry = CarryOver(Previous([], arrays), gate(embedder))
    found = await carry.embed("embed", ["one"], 2, vectors="other", keys="other.keys")
    assert found.tolist() == [[1, 0]]
    assert not embedder.given
    assert (await carry.embed("embed", ["one"], 2)).shape == (1, 2)
    assert embedder.given == ["one"]
    assert (await CarryOver(None, gate(embedder)).embed("embed", [], 2)).shape == (0, 2)

"""ArchRAG's edges of similarity after updates: none outlives what its ends were, and none is missing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray

import stratagraph as sg
from stratagraph.methods import drift
from stratagraph.methods.archrag.build import ADDED
from stratagraph.testing.opened import snapshot_of

building = import_module("stratagraph.methods.archrag.build")  # as an attribute it is the function
TOPICS = "lamp rope ferry tide harbour mill bread orchard violin glacier copper saddle"
FIRST, LAST = "Ada Otto Vera Nils Mara Iris Hugo Lena", "Marsh Lind Brook Falk Reed Vale Moss Hart"
NAMES = [f"{one} {two}" for one in FIRST.split() for two in LAST.split()]
ROUNDING = 2e-3
"""Cosines of stored vectors, which are of 16 bits, beside those of the vectors that were compared."""


@dataclass(frozen=True)
class Entities:
    """The entities of an index: vectors of length 1 and degrees by id, and edges of similarity."""

    vectors: dict[str, NDArray[np.float32]]
    degrees: dict[str, int]
    edges: set[frozenset[str]]
    threshold: float
    neighbours: int

    @classmethod
    def of(cls, index: sg.Index) -> Entities:
        snapshot = snapshot_of(index)
        graph, own = snapshot.part("graph"), snapshot.part("archrag").arrays
        count = int(graph.arrays["counts"][0])
        ids, vectors = graph.ids(range(count)), np.asarray(graph.arrays["vectors"])
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        pairs = np.unique(np.sort(np.asarray(graph.arrays["relations.ends"]), axis=1), axis=0)
        degrees = np.bincount(pairs.ravel(), minlength=count)
        cosines = (vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(axis=1)
        linked = degrees[degrees > 0]
        return cls(
            dict(zip(ids, vectors, strict=True)),
            dict(zip(ids, degrees.tolist(), strict=True)),
            {frozenset((ids[one], ids[two])) for one, two in own[ADDED].tolist()} if ADDED in own else set(),
            float(np.quantile(cosines, 0.8)) if len(cosines) else -1.0,
            max(1, round(float(linked.mean())) if len(linked) else 0),
        )

    def cosine(self, edge: frozenset[str]) -> float:
        one, two = edge
        return float(self.vectors[one] @ self.vectors[two])

    def passes(self, edge: frozenset[str]) -> bool:
        """Whether an edge may be there: its ends are alike, or one has no relation."""
        alone = any(self.degrees[each] == 0 for each in edge)
        return alone or self.cosine(edge) >= self.threshold - ROUNDING

    def near(self, edge: frozenset[str]) -> bool:
        """Whether one end is now among the nearest of the other; only one without relations may be unlike."""
        alike = self.cosine(edge) >= self.threshold - ROUNDING
        for one in edge:
            others = [float(self.vectors[one] @ each) for name, each in self.vectors.items() if name != one]
            worst = sorted(others, reverse=True)[: self.neighbours][-1]
            if self.cosine(edge) >= worst - ROUNDING and (alike or self.degrees[one] == 0):
                return True
        return False

    def alike(self, edge: frozenset[str], other: Entities) -> bool:
        """Whether both ends are as in another index."""
        return all(np.array_equal(self.vectors[each], other.vectors.get(each)) for each in edge)


def told(number: int, chance: random.Random) -> sg.Document:
    """A document on one person, or on two that met."""
    said = " and ".join(chance.sample(TOPICS.split(), 3))
    one, two = chance.sample(NAMES, 2)
    text = f"{one} had {said}." if chance.random() < 0.6 else f"{one} met {two} with {said}."
    return sg.Document(f"d{number:03}", text)


def changed(index: sg.Index, documents: dict[str, sg.Document], chance: random.Random, number: int) -> None:
    """One insert, replacement or deletion."""
    how = chance.choice(["insert", "replace", "delete"])
    if how == "insert":
        came = told(number, chance)
    else:
        gone = chance.choice(sorted(documents))
        if how == "delete":
            del documents[gone]
            index.delete([gone])
            return
        came = sg.Document(gone, told(0, chance).text)
    documents[came.id] = came
    index.insert([came])


@pytest.mark.parametrize("seed", range(2))
def test_edges_of_similarity_hold_of_what_their_ends_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # else all entities of so small an index would look for neighbours after every other change
        monkeypatch.setattr(building, "_MANY", 1)
        monkeypatch.setattr(drift, "FRESH_SHARE", 1.0)
    chance = random.Random(seed)
    documents = {each.id: each for each in (told(number, chance) for number in range(60))}
    index = build(documents)
    before = Entities.of(index)
    for number in range(100, 108):
        changed(index, documents, chance, number)
        now = Entities.of(index)
        assert all(now.passes(edge) for edge in now.edges)
        kept = {edge for edge in now.edges & before.edges if now.alike(edge, before)}
        assert all(now.near(edge) for edge in now.edges - kept)
        assert_none_is_alone(now)
        before = now
    index.regroup()
    assert Entities.of(index).edges == Entities.of(build(documents)).edges


def build(documents: dict[str, sg.Document]) -> sg.Index:
    return sg.build_index(
        list(documents.values()), "archrag", embedder=sg.HashingEmbedder(64), progress=False
    )


def assert_none_is_alone(now: Entities) -> None:
    """Who has no relation has edges of similarity, if anything is like it."""
    for name, vector in now.vectors.items():
        if now.degrees[name] == 0:
            like = sum(abs(float(vector @ each)) > ROUNDING for each in now.vectors.values()) - 1
            edges = sum(name in edge for edge in now.edges)
            assert edges >= min(like, 1)

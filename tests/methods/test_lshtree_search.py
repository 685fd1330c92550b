"""The tree's search: all levels together, or from each level, and options that make no sense."""

from __future__ import annotations

from collections import Counter

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import documents

QUESTION = "the ferry captain and the apple blossom"


@pytest.fixture(scope="module")
def index() -> sg.Index:
    return sg.build_index(documents(60), "lshtree", embedder=FakeEmbedder(), progress=False)


def levels(retrieval: sg.Retrieval) -> Counter[int]:
    return Counter(hit.level for hit in retrieval)


def test_every_level_has_its_share(index: sg.Index) -> None:
    found = index.retrieve(QUESTION, k=9, mode="per_level")
    assert len(found) == 9
    present = levels(index.retrieve(QUESTION, k=1000))
    shares = levels(found)
    assert set(shares) == set(present)
    assert max(shares.values()) - min(shares.values()) <= 1 or any(
        shares[level] == count for level, count in present.items()
    )
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)


def test_so_many_of_each_level_and_nothing_else(index: sg.Index) -> None:
    present = levels(index.retrieve(QUESTION, k=1000))
    for wanted in (1, 3):
        exact = index.retrieve(QUESTION, k=2, mode="per_level", k_per_level=wanted, fill=False)
        assert levels(exact) == {level: min(wanted, count) for level, count in present.items()}
        best = index.retrieve(QUESTION, k=wanted, levels=(1,))
        assert [hit.id for hit in exact if hit.level == 1] == [hit.id for hit in best]
    assert len(index.retrieve(QUESTION, k=20, mode="per_level", k_per_level=1)) == 20

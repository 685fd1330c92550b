from __future__ import annotations

import sys
from typing import get_args

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.errors import MissingExtra
from stratagraph.kernels.leiden_quality import Quality, leiden_quality
from stratagraph.kernels.partition import cluster
from stratagraph.testing.contract import documents

QUALITIES = get_args(Quality)


def cliques(count: int = 6, size: int = 5) -> tuple[np.ndarray, np.ndarray, int]:
    """Cliques in a ring, joined by single edges."""
    ends = [
        (clique * size + one, clique * size + other)
        for clique in range(count)
        for one in range(size)
        for other in range(one + 1, size)
    ]
    bridges = [(clique * size, (clique + 1) % count * size + 1) for clique in range(count)]
    weights = np.concatenate([np.ones(len(ends)), np.full(len(bridges), 0.3)])
    return np.array(ends + bridges), weights, count * size


@pytest.mark.parametrize("quality", QUALITIES)
def test_cliques_are_communities(quality: Quality) -> None:
    pytest.importorskip("leidenalg")
    ends, weights, nodes = cliques()
    labels = leiden_quality(ends, weights, nodes, quality=quality)
    assert labels.tolist() == [node // 5 for node in range(nodes)]
    assert labels.tolist() == cluster(ends, weights, nodes, method=quality).tolist()


@pytest.mark.parametrize("quality", QUALITIES)
def test_communities_are_bounded_and_the_same_each_time(quality: Quality) -> None:
    pytest.importorskip("leidenalg")
    rng = np.random.default_rng(1)
    ends, weights = rng.integers(0, 80, (400, 2)), rng.uniform(0.1, 1, 400)
    first, again = (cluster(ends, weights, 80, method=quality, max_size=4, seed=3) for _ in range(2))
    assert np.bincount(first).max() <= 4
    assert first.tolist() == again.tolist()


def test_without_the_package_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leidenalg", None)
    config = {"archrag": {"clustering": "surprise"}}
    with pytest.raises(MissingExtra, match=r"pip install 'stratagraph\[leidenalg\]'"):
        sg.build_index(
            documents(12), "archrag", embedder=sg.HashingEmbedder(64), config=config, progress=False
        )


def test_archrag_builds_with_it() -> None:
    pytest.importorskip("leidenalg")
    config = {"archrag": {"clustering": "cpm"}}
    given = {"embedder": sg.HashingEmbedder(64), "config": config, "progress": False}
    with sg.build_index(documents(16), "archrag", **given) as index:
        assert any(node.kind == "community" for node in index.nodes())
        assert index.verify() == []

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stratagraph.kernels import _native
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.knn import knn_graph


def built(layers: Any, children: Any = None, *, threads: int = 1, **options: Any) -> CHNSW:
    return CHNSW.build(layers, children, Options(**options), threads=threads)


def hierarchy(
    sizes: list[int], dimension: int, seed: int, spread: float = 0.5
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Layers of unit vectors, the lowest first, each around a parent, with the links to them."""
    rng = np.random.default_rng(seed)
    layers, links = [rng.normal(size=(sizes[-1], dimension))], []
    for size in reversed(sizes[:-1]):
        parents = rng.integers(0, len(layers[0]), size) if len(layers[0]) else np.zeros(0, int)
        centres = layers[0][parents] if len(parents) else np.zeros((size, dimension))
        layers.insert(0, centres + spread * rng.normal(size=(size, dimension)))
        links.insert(0, np.stack([parents, np.arange(len(parents))], axis=1))
    return [unit(layer) for layer in layers], links


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def revised(
    index: CHNSW, before: list[np.ndarray], after: list[np.ndarray], children: Any = None, **how: Any
) -> tuple[CHNSW, list[int]]:
    """The index of layers `before` with layers `after`; of equal vectors each is known once."""
    rows = []
    for old, new in zip(before, after, strict=True):
        places: dict[bytes, list[int]] = {}
        for row, vector in enumerate(old):
            places.setdefault(vector.tobytes(), []).append(row)
        found = [places.get(vector.tobytes()) for vector in new]
        rows.append(np.array([each.pop(0) if each else -1 for each in found], np.int64))
    return index.revised(after, children, rows, **how)


def exact(vectors: np.ndarray, query: np.ndarray, k: int, alive: np.ndarray | None = None) -> Any:
    """The best k living rows with their scores, by float64 arithmetic."""
    v, q = vectors.astype(np.float64), query.astype(np.float64)
    scores = v @ q
    rows = np.arange(len(v)) if alive is None else np.flatnonzero(alive)
    order = rows[np.argsort(-scores[rows], kind="stable")][:k]
    return order, scores[order]


def reachable(layer: dict[str, np.ndarray]) -> set[int]:
    """The nodes that links lead to from the first pilot."""
    stack = [int(layer["pilots"][0])] if len(layer["pilots"]) else []
    seen = set(stack)
    while stack:
        for node in layer["links"][stack.pop()]:
            if node >= 0 and node not in seen:
                seen.add(int(node))
                stack.append(int(node))
    return seen


def check_exact(index: CHNSW, layers: list[np.ndarray], query: np.ndarray, k: int, **how: Any) -> None:
    ef = max(max(map(len, layers)), k, 1)
    for layer, (rows, scores) in zip(layers, index.search_all(query, k, ef=ef), strict=True):
        _, want = exact(layer, query, k)
        assert len(set(rows.tolist())) == len(rows) == len(want)
        np.testing.assert_allclose(scores, want, atol=how.get("atol", 1e-4))
        got = exact(layer[rows], query, len(rows))[1]
        np.testing.assert_allclose(scores, got, atol=how.get("atol", 1e-4))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    dimension=st.integers(1, 70),
    codes=st.sampled_from(["int8", "float32"]),
    links=st.integers(2, 6),
    duplicates=st.booleans(),
    tree=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_with_the_whole_layer_as_pool_results_are_exact(
    sizes: list[int], dimension: int, codes: Any, links: int, duplicates: bool, tree: bool, seed: int
) -> None:
    layers, children = hierarchy(sizes, dimension, seed)
    if duplicates:
        layers = [
            layer[np.random.default_rng(seed).integers(0, max(len(layer), 1) // 2 + 1, len(layer))]
            for layer in layers
        ]
    index = built(layers, children if tree else None, codes=codes, links=links, scan_limit=0)
    query = np.random.default_rng(seed).normal(size=dimension).astype(np.float32)
    check_exact(index, layers, unit(query), 7)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=3),
    st.integers(2, 20),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_every_node_is_reachable_also_after_changes(
    sizes: list[int], links: int, seed: int, paper: bool
) -> None:
    layers, children = hierarchy(sizes, 8, seed, spread=0.01)
    index = built(layers, children, links=links, scan_limit=0, mode="paper" if paper else "fast")
    rng = np.random.default_rng(seed)
    more = [np.concatenate([layers[0], unit(rng.normal(size=(20, 8)))]), *layers[1:]]
    index, _ = revised(index, layers, more, children)
    index.delete(0, rng.choice(sizes[0] + 20, size=rng.integers(0, sizes[0] + 20), replace=False))
    arrays = index.arrays()
    for level in range(len(sizes)):
        layer = {name.split(".")[1]: a for name, a in arrays.items() if name.startswith(f"layer{level}.")}
        assert reachable(layer) == set(np.flatnonzero(layer["alive"]).tolist())


@pytest.mark.parametrize("codes", ["int8", "float32"])
def test_recall_is_as_promised_on_clusters(codes: Any) -> None:
    layers, children = hierarchy([6000, 400, 30], 48, seed=3)
    index = built(layers, children, codes=codes, scan_limit=200, threads=2)
    queries = unit(layers[0][::60] + 0.05 * np.random.default_rng(1).normal(size=(100, 48)))
    for layer, (rows, _) in zip(layers, index.search_many(queries, 10), strict=True):
        found = [np.isin(exact(layer, q, 10)[0], r).mean() for q, r in zip(queries, rows, strict=True)]
        assert np.mean(found) >= 0.95


@settings(max_examples=30, deadline=None)
@given(
    before=st.lists(st.integers(0, 80), min_size=2, max_size=3),
    keep=st.floats(0, 1),
    codes=st.sampled_from(["int8", "float32"]),
    keep_vectors=st.booleans(),
    tree=st.booleans(),
    seed=st.integers(0, 10**6),
)
@example(  # its last layer loses all nodes
    before=[0, 0, 11], keep=0.0, codes="int8", keep_vectors=False, tree=False, seed=296355
)
def test_brought_up_to_date_it_holds_the_new_layers(
    before: list[int], keep: float, codes: Any, keep_vectors: bool, tree: bool, seed: int
) -> None:
    layers, children = hierarchy(before, 12, seed)
    how: dict[str, Any] = {"codes": codes, "keep_vectors": keep_vectors, "links": 4}
    index = built(layers, children if tree else None, scan_limit=10, **how)
    arrays = {name: np.array(array) for name, array in index.arrays().items()}
    rng = np.random.default_rng(seed)
    after, links = hierarchy([int(rng.integers(0, 80)) for _ in before], 12, seed + 1)
    for level, old in enumerate(layers):  # part of the old in another order, some of it twice
        chosen = rng.permutation(len(old))[: int(keep * len(old))]
        after[level][: len(chosen)] = old[chosen][: len(after[level])]
        if len(after[level]) > 2:
            after[level][-1] = after[level][0]
    found, changed = revised(index, layers, after, links if tree else None)
    for name, array in index.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    assert found.sizes == [len(layer) for layer in after]
    assert all(count <= len(a) + len(b) for count, a, b in zip(changed, layers, after, strict=True))
    if keep_vectors:
        check_exact(found, after, unit(rng.normal(size=12)), 7)
    again = CHNSW.from_arrays({name: np.array(a) for name, a in found.arrays().items()})
    unread = [np.full_like(layer, np.nan) for layer in after]  # known vectors are not read
    same, none = again.revised(unread, links if tree else None, [np.arange(len(layer)) for layer in after])
    assert none == [0] * len(after)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, same.arrays()[name])
    for level, layer in enumerate(after):
        own = {n.split(".")[1]: a for n, a in found.arrays().items() if n.startswith(f"layer{level}.")}
        if len(own["links"]):
            assert reachable(own) == set(range(len(layer)))
        for row in range(0, len(layer), 9):
            rows, _ = found.search_all(layer[row], 1, ef=200)[level]
            assert exact(layer[rows], layer[row], 1)[1] == pytest.approx(
                exact(layer, layer[row], 1)[1], abs=0.02
            )


def test_saved_and_opened_it_is_the_same(tmp_path: Any) -> None:
    layers, children = hierarchy([1500, 90, 6], 20, seed=11)
    index = built(layers, children, scan_limit=50)
    index.delete(0, np.arange(0, 300, 7))
    for name, array in index.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {p.name.removesuffix(".npy"): np.load(p, mmap_mode="r") for p in tmp_path.iterdir()}
    opened = CHNSW.from_arrays(mapped)
    queries = layers[0][:30]
    for (rows, scores), (rows_too, scores_too) in zip(
        index.search_many(queries, 5), opened.search_many(queries, 5), strict=True
    ):
        np.testing.assert_array_equal(rows, rows_too)
        np.testing.assert_array_equal(scores, scores_too)
    for name, array in opened.arrays().items():
        np.testing.assert_array_equal(array, index.arrays()[name])
    alive = index.sizes[0]
    opened.delete(0, np.arange(1, 6))
    assert opened.sizes[0] == alive - 5
    assert np.count_nonzero(mapped["layer0.alive"]) == alive


def test_neither_threads_nor_repetition_change_anything() -> None:
    layers, children = hierarchy([3000, 200, 10], 32, seed=13)
    one, two = (built(layers, children, scan_limit=100, threads=t, seed=4) for t in (1, 3))
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name], err_msg=name)
    queries = unit(np.random.default_rng(0).normal(size=(200, 32)))
    for (rows, scores), (rows_too, scores_too) in zip(
        one.search_many(queries, 5), one.search_many(queries, 5, threads=4), strict=True
    ):
        np.testing.assert_array_equal(rows, rows_too)
        np.testing.assert_array_equal(scores, scores_too)


def test_one_query_is_answered_as_in_a_batch() -> None:
    layers, children = hierarchy([700, 60, 4], 24, seed=21)
    index = built(layers, children, scan_limit=50)
    queries = 3 * unit(np.random.default_rng(5).normal(size=(30, 24)))
    batch = index.search_many(queries, 6)
    for at, query in enumerate(queries):
        for (rows, scores), (many, many_scores) in zip(index.search_all(query, 6), batch, strict=True):
            assert rows.dtype == np.int64
            np.testing.assert_array_equal(rows, many[at][: len(rows)])
            np.testing.assert_allclose(scores, many_scores[at][: len(rows)], rtol=1e-5, atol=1e-5)
            assert (many[at][len(rows) :] == -1).all()


@pytest.mark.parametrize("codes", ["int8", "float32"])
@pytest.mark.parametrize("dimension", [3, 77, 3072])
def test_all_instruction_sets_agree(codes: Any, dimension: int) -> None:
    layers, children = hierarchy([300, 20], dimension, seed=20)
    index = built(layers, children, codes=codes, scan_limit=50)
    queries = layers[0][:20]
    want = index.search_many(queries, 5, ef=30)
    for name in _native.simd_levels():
        opened = CHNSW.from_arrays(index.arrays(), instructions=name)
        for (rows, scores), (rows_too, scores_too) in zip(
            want, opened.search_many(queries, 5, ef=30), strict=True
        ):
            assert np.mean(rows == rows_too) > 0.99, name
            np.testing.assert_allclose(scores, scores_too, atol=1e-4)
    with pytest.raises(ValueError, match="sse9"):
        CHNSW.from_arrays(index.arrays(), instructions="sse9")


def test_vectors_too_small_for_a_scale() -> None:
    vectors = np.concatenate([np.full((30, 5), 1e-42), np.zeros((3, 5)), np.eye(5)])
    index = built([vectors], scan_limit=0)
    rows, scores = index.search_all(np.eye(5)[2], 3)[0]
    assert rows[0] == 35
    assert np.isfinite(scores).all()
    assert np.isfinite(index.search_all(vectors[0], 3)[0][1]).all()


def test_as_printed_in_the_paper_one_link_is_the_entry() -> None:
    layers, children = hierarchy([1500, 100, 8], 24, seed=16)
    index = built(layers, children, mode="paper", codes="float32")
    queries = layers[0][:80]
    rows = index.search_many(queries, 1, ef=64)[0][0]
    assert np.mean(rows[:, 0] == np.arange(80)) > 0.9
    assert (index.arrays()["layer1.down"] >= -1).all()
    check_exact(index, layers, layers[0][0], 5)


def test_knn_graph_is_nearly_exact() -> None:
    (vectors,), _ = hierarchy([3000], 24, seed=17)
    rows, scores = knn_graph(vectors, 10, threads=2)
    assert rows.shape == scores.shape == (3000, 10)
    assert not (rows == np.arange(3000)[:, None]).any()
    truth = vectors @ vectors.T
    np.fill_diagonal(truth, -9)
    want = np.argsort(-truth, axis=1)[:, :10]
    assert np.mean([np.isin(w, r).mean() for w, r in zip(want, rows, strict=True)]) > 0.93
    np.testing.assert_allclose(scores, np.take_along_axis(truth, rows.astype(int), axis=1), atol=1e-4)


def test_knn_of_few() -> None:
    for k in (2, 5, 10**9):
        rows, scores = knn_graph(np.eye(3, dtype=np.float32), k)
        assert np.sort(rows, axis=1).tolist() == [[1, 2], [0, 2], [0, 1]]
        assert scores.shape == (3, 2)
    assert knn_graph(np.eye(1, dtype=np.float32), 5)[0].shape == (1, 0)
    assert knn_graph(np.zeros((0, 4), np.float32), 5)[0].shape == (0, 0)

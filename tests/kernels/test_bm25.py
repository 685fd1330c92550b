"""BM25 over postings: against the formula, with masks, over damaged postings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.bm25 import TermPostings, bm25


def made(passages: int, terms: int, seed: int) -> tuple[TermPostings, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, passages + 1, terms)
    rows = [np.sort(rng.choice(passages, size, replace=False)) for size in lengths]
    every = np.concatenate(rows).astype(np.int32)
    counts = rng.integers(1, 256, len(every)).astype(np.uint8)
    norms = rng.uniform(0.3, 5, passages).astype(np.float32)
    return TermPostings(every, counts, norms), np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths


def expected(
    postings: TermPostings, starts: np.ndarray, lengths: np.ndarray, mask: np.ndarray | None
) -> dict[int, float]:
    """The formula, one posting at a time."""
    n, scores = len(postings.norms), dict[int, float]()
    for start, df in zip(starts.tolist(), lengths.tolist(), strict=True):
        for at in range(start, start + df):
            row, tf = int(postings.rows[at]), int(postings.counts[at])
            if mask is None or mask[row]:
                part = np.log(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + float(postings.norms[row]))
                scores[row] = scores.get(row, 0.0) + part
    return scores


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 6), st.booleans(), st.integers(0, 10**6))
def test_it_is_the_formula(passages: int, terms: int, masked: bool, seed: int) -> None:
    postings, starts, lengths = made(passages, terms, seed)
    mask = np.random.default_rng(seed).random(passages) < 0.5 if masked else None
    rows, scores = bm25(postings, starts, lengths, mask)
    wanted = expected(postings, starts, lengths, mask)
    assert rows.tolist() == sorted(wanted)
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    np.testing.assert_allclose(scores, [wanted[row] for row in rows.tolist()], rtol=1e-5)


def test_one_question_leaves_nothing_for_the_next() -> None:
    large, small = made(5000, 4, 1), made(70, 2, 2)
    alone = [bm25(*large), bm25(*small)]
    for _ in range(3):
        for question, (rows, scores) in zip((large, small), alone, strict=True):
            again = bm25(*question)
            assert np.array_equal(again[0], rows)
            assert np.array_equal(again[1], scores)
    with ThreadPoolExecutor(4) as pool:
        for rows, scores in pool.map(lambda _: bm25(*large), range(12)):
            assert np.array_equal(rows, alone[0][0])
            assert np.array_equal(scores, alone[0][1])


@pytest.mark.parametrize(
    ("starts", "lengths", "row"),
    [([-1], [2], 0), ([0], [99], 0), ([90], [1], 0), ([0], [3], 9), ([0], [3], -1)],
)
def test_damaged_postings_are_an_error_and_leave_no_trace(
    starts: list[int], lengths: list[int], row: int
) -> None:
    rows = np.array([0, 1, row], np.int32)
    postings = TermPostings(rows, np.ones(3, np.uint8), np.ones(9, np.float32))
    with pytest.raises(ValueError, match="the postings are damaged"):
        bm25(postings, np.array(starts), np.array(lengths))
    sound = TermPostings(np.array([4], np.int32), np.ones(1, np.uint8), np.ones(9, np.float32))
    assert bm25(sound, np.array([0]), np.array([1]))[0].tolist() == [4]

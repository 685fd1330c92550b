from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.eval import Difference, paired_difference

SCORES = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=2, max_size=40)


def test_the_interval_equals_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(5)
    ours, reference = rng.random(80), rng.random(80) * 0.8
    found = paired_difference(ours.tolist(), reference.tolist(), resamples=20_000)
    expected = stats.bootstrap(
        (ours - reference,), np.mean, n_resamples=20_000, method="percentile", rng=rng
    ).confidence_interval
    assert found is not None
    assert found.low == pytest.approx(expected.low, abs=0.005)
    assert found.high == pytest.approx(expected.high, abs=0.005)


def test_scores_of_few_values_have_the_same_interval() -> None:
    rng = np.random.default_rng(6)
    few = rng.integers(0, 3, 300) / 2
    reference = np.zeros(300)
    coarse = paired_difference(few.tolist(), reference.tolist())
    fine = paired_difference((few + rng.random(300) * 1e-6).tolist(), reference.tolist())
    assert coarse is not None
    assert fine is not None
    assert (coarse.low, coarse.high) == pytest.approx((fine.low, fine.high), abs=0.004)


@given(SCORES, st.randoms(use_true_random=False))
def test_the_difference_is_antisymmetric_and_repeatable(scores: list[float | None], rng: object) -> None:
    other = list(scores)
    rng.shuffle(other)  # type: ignore[attr-defined]
    forward = paired_difference(scores, other, resamples=50)
    backward = paired_difference(other, scores, resamples=50)
    assert forward == paired_difference(scores, other, resamples=50)
    if forward is None or backward is None:
        assert sum(a is not None and b is not None for a, b in zip(scores, other, strict=True)) < 2
        return
    assert forward.mean == pytest.approx(-backward.mean)
    assert forward.low <= forward.high
    assert forward.questions == backward.questions


def test_only_questions_with_both_scores_count() -> None:
    assert paired_difference([1.0, None, 0.0], [None, 1.0, 0.0]) is None
    found = paired_difference([1.0, 1.0, None], [0.0, 0.0, 1.0])
    assert found == Difference(1.0, 1.0, 1.0, 2)


@pytest.mark.parametrize("settings", [{"confidence": 1.0}, {"confidence": 0.0}, {"resamples": 0}])
def test_settings_that_make_no_interval_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        paired_difference([1.0, 0.0], [0.0, 0.0], **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_difference([1.0], [0.0, 0.0])

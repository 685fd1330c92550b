"""How far partitions may drift: when they are compared, and which way is taken then."""

from __future__ import annotations

import numpy as np
import pytest

from stratarag.kernels.leiden import leiden
from stratarag.kernels.quality import modularity
from stratarag.kernels.resize import resized
from stratarag.pipeline.drift import (
    COMPARE_SHARE,
    DRIFT,
    MOST_DRIFT,
    Drift,
    communities_drifted,
    first_settled,
    other_size,
)


def cliques(count: int, size: int = 6) -> np.ndarray:
    """Complete graphs, each joined with the next by one edge."""
    pairs = np.column_stack(np.triu_indices(size, 1))
    inside = [pairs + number * size for number in range(count)]
    bridges = [[number * size, (number + 1) * size] for number in range(count - 1)]
    return np.concatenate([*inside, np.array(bridges).reshape(-1, 2)])


def test_changes_add_up_until_a_comparison_is_due():
    members, counted = 1000, 0
    drift = Drift(members)
    while not drift.due:
        counted += 5
        drift = Drift.since(drift.arrays(), members, 5)
    assert COMPARE_SHARE * members < counted <= COMPARE_SHARE * members + 5
    assert drift.arrays()[DRIFT].tolist() == [0]


def test_an_index_that_never_counted_is_compared_at_once():
    assert Drift.since({}, 100, 1).due


def test_nothing_is_made_anew_unless_it_is_to_be_compared():
    def anew() -> int:
        raise AssertionError

    assert first_settled([lambda: 1], anew, lambda found, best: True, compare=False) == 1


def test_the_first_way_that_has_not_drifted_is_taken():
    ways = [lambda: 1, lambda: 5, lambda: 6]
    far = lambda found, best: abs(found - best) > 2  # noqa: E731
    assert first_settled(ways, lambda: 7, far, compare=True) == 5
    assert first_settled(ways, lambda: 20, far, compare=True) == 20


def test_communities_drift_by_number_and_by_modularity():
    ends = cliques(40)
    best = leiden(ends, None, 240)
    assert not communities_drifted(ends, None, best, best)
    halved = np.where(np.arange(240) < 60, np.arange(240) // 3, 100 + best)
    assert communities_drifted(ends, None, halved, best)
    shuffled = np.random.default_rng(0).permutation(best)
    assert len(np.unique(shuffled)) == len(np.unique(best))
    assert communities_drifted(ends, None, shuffled, best)


def test_one_more_or_less_is_no_other_size():
    assert not other_size(3, 4)
    assert other_size(round(100 * (1 + 2 * MOST_DRIFT)), 100)


@pytest.mark.parametrize("wanted", [30, 40, 44])
def test_resizing_changes_no_more_than_it_must(wanted):
    ends = cliques(40)
    labels = np.repeat(np.arange(40), 6)
    found = resized(ends, None, labels, wanted)
    assert abs(len(np.unique(found)) - wanted) <= 1
    same = sum(
        len(np.unique(found[labels == clique])) == 1 and (found == found[labels == clique][0]).sum() == 6
        for clique in range(40)
    )
    assert same >= 40 - 2 * abs(40 - wanted)


def test_joined_communities_keep_to_the_bound():
    ends = cliques(20)
    found = resized(ends, None, np.repeat(np.arange(20), 6), 5, max_size=12)
    assert np.bincount(found).max() <= 12
    assert modularity(ends, None, found) > 0.5

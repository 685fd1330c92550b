"""How far partitions may drift: when they are compared, and which way is taken then."""

from __future__ import annotations

import numpy as np
import pytest

from stratagraph.kernels.leiden import modularity, resized
from stratagraph.methods.drift import COMPARE_SHARE, DRIFT, STALE, Drift, Measures, drifted


def cliques(count: int, size: int = 6) -> np.ndarray:
    """Complete graphs, each joined with the next by one edge."""
    pairs = np.column_stack(np.triu_indices(size, 1))
    inside = [pairs + number * size for number in range(count)]
    bridges = [[number * size, (number + 1) * size] for number in range(count - 1)]
    return np.concatenate([*inside, np.array(bridges).reshape(-1, 2)])


def values(drift: Drift) -> dict[str, np.ndarray]:
    return {name: each.values for name, each in drift.arrays().items()}


def test_changes_add_up_until_a_comparison_is_due():
    members, counted = 1000, 0
    drift = Drift(members)
    while not drift.due:
        counted += 5
        drift = Drift.since(values(drift), members, 5)
    assert COMPARE_SHARE * members < counted <= COMPARE_SHARE * members + 5
    assert values(drift)[DRIFT].tolist() == [0]


def parts(count: int) -> Measures:
    return np.array([[count, 0.5]])


def unwanted() -> int:
    raise AssertionError("a fresh partition")


def compared(members: int, counted: Drift, changed: int) -> Drift:
    return Drift.since(values(counted), members, changed)


def test_nothing_is_fresh_unless_a_comparison_is_due():
    first = Drift(1000)
    assert first.fresh("a", 1000, lambda: 100, parts) == 100
    drift = compared(1000, first, 20)
    assert drift.choose("a", 1000, [lambda: 7], unwanted, parts) == 7
    assert compared(1000, drift, 1).choose("a", 1000, [lambda: 7], lambda: 100, parts) == 100


def test_nothing_is_fresh_while_it_is_like_what_was_made_last():
    drift = Drift(1000)
    drift.fresh("a", 1000, lambda: 100, parts)
    for _ in range(3):
        drift = compared(1000, drift, 30)
        assert drift.due
        assert not drift.lapsed
        assert drift.choose("a", 1000, [lambda: 104], unwanted, parts) == 104
    drift = compared(1000, drift, 30)
    assert drift.lapsed
    assert drift.choose("a", 1000, [lambda: 104], lambda: 90, parts) == 90
    assert values(drift)[STALE].tolist() == [0]
    drift = compared(2000, drift, 100)  # of twice as many members there would be twice as many parts
    assert drift.choose("a", 2000, [lambda: 180], unwanted, parts) == 180
    assert compared(2000, drift, 100).choose("a", 2000, [lambda: 104], lambda: 190, parts) == 190


def test_the_first_way_that_has_not_drifted_is_taken():
    ways = [lambda: 80, lambda: 98, lambda: 99]
    drift = compared(1000, Drift(1000), 30)
    assert drift.choose("a", 1000, ways, lambda: 100, parts) == 98
    assert drift.choose("b", 1000, ways, lambda: 200, parts) == 200


def test_partitions_drift_by_number_by_quality_and_by_levels():
    best = np.array([[100, 0.5], [10, 0.6]])
    assert not drifted(best, best)
    assert not drifted(best - [[4, 0.02], [1, 0.02]], best)
    assert drifted(best - [[6, 0], [0, 0]], best)
    assert drifted(best - [[0, 0], [0, 0.04]], best)
    assert not drifted(best - [[0, -0.2], [0, -0.2]], best)
    assert drifted(best[:1], best)


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

"""Groups by hash codes: bounds, independence of the order, quality, and how few groups an update changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.buckets import group, place
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hash_codes, hyperplanes

BOUNDS = {"minimum": 4, "maximum": 12}


def layer(count, topics=40, seed=0):
    """Unit vectors around topics, their codes, and ties."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((topics, 48))
    vectors = (centres[rng.integers(0, topics, count)] + rng.standard_normal((count, 48))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = hash_codes(vectors, hyperplanes(256, 48, seed=1))
    return vectors, codes, rng.integers(0, 2**64, count, dtype=np.uint64)


def grouped(vectors, codes, ties):
    return group(codes, knn_graph(vectors, 8)[0], ties=ties, **BOUNDS)


def cosine(vectors, members):
    """Mean cosine of the pairs within groups."""
    inside = sum(np.square(vectors[rows].sum(axis=0)).sum() - len(rows) for rows in members)
    return inside / sum(len(rows) * (len(rows) - 1) for rows in members)


@st.composite
def cases(draw):
    """Codes with few or many distinct values, some neighbours, and bounds that can hold."""
    size = draw(st.integers(0, 60))
    distinct = draw(st.sampled_from([1, 2, 5, 2**64 - 1]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = rng.integers(0, 2**64, size=(min(distinct, size + 1), draw(st.integers(1, 2))), dtype=np.uint64)
    neighbours = rng.integers(-1, max(size, 1), (size, draw(st.integers(0, 6))))
    minimum = draw(st.integers(1, 6))
    bounds = {"minimum": minimum, "maximum": draw(st.integers(2 * minimum - 1, 20))}
    return pool[rng.integers(0, len(pool), size)], neighbours, rng.permutation(size).astype(np.uint64), bounds


def assert_bounds(members, size, minimum, maximum):
    assert sorted(np.concatenate([np.zeros(0, np.int64), *members]).tolist()) == list(range(size))
    sizes = [len(rows) for rows in members]
    assert max(sizes, default=0) <= maximum
    assert min(sizes, default=0) >= min(minimum, size)


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_row_is_in_one_group_and_bounds_hold(case):
    codes, neighbours, ties, bounds = case
    found = group(codes, neighbours, ties=ties, **bounds)
    assert_bounds(found.members, len(codes), **bounds)
    assert found.representatives.shape == (len(found.members), codes.shape[1])


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_groups_do_not_depend_on_the_order_of_rows(case, seed):
    codes, neighbours, ties, bounds = case
    shuffled = np.random.default_rng(seed).permutation(len(codes))
    places = np.append(np.argsort(shuffled), -1)
    found = group(codes, neighbours, ties=ties, **bounds)
    other = group(codes[shuffled], places[neighbours[shuffled]], ties=ties[shuffled], **bounds)
    assert [sorted(shuffled[rows].tolist()) for rows in other.members] == [
        rows.tolist() for rows in found.members
    ]
    assert np.array_equal(found.representatives, other.representatives)


@given(cases(), cases())
@settings(max_examples=200, deadline=None)
def test_bounds_hold_after_updates(case, other):
    codes, neighbours, ties, bounds = case
    if not len(codes):
        return
    before = group(codes, neighbours, ties=ties, **bounds)
    rng = np.random.default_rng(int(ties[0]))
    left = np.sort(rng.permutation(len(codes))[: max(1, len(codes) // 2)])
    coming = np.resize(other[0][:, :1], (len(other[0]), codes.shape[1]))
    now = np.concatenate([codes[left], coming])
    groups = [np.searchsorted(left, np.intersect1d(rows, left)) for rows in before.members]
    found = place(
        groups,
        before.representatives,
        np.arange(len(left), len(now)),
        lambda rows: now[rows],
        changed=[number for number, rows in enumerate(groups) if len(rows) < len(before.members[number])],
        **bounds,
    )
    assert_bounds(found.members, len(now), **bounds)


def test_small_buckets_merge_with_the_nearest_as_the_paper_says():
    """Against the rule written down literally, where all pairs are compared."""
    _, codes, ties = layer(80, topics=8)
    found = group(codes, np.tile(np.arange(80), (80, 1)), ties=ties, **BOUNDS)
    assert {frozenset(rows.tolist()) for rows in found.members} == literal(codes, ties, 4, 12)


def literal(codes, ties, minimum, maximum):
    """Merge the closest pair of buckets of which one is too small and the union is not too large."""
    texts = ["".join(f"{word:064b}" for word in row) for row in codes.tolist()]

    def code(rows):
        columns = zip(*(texts[row] for row in rows), strict=True)
        return int("".join("1" if 2 * column.count("1") > len(rows) else "0" for column in columns), 2)

    buckets = {place: [row] for place, row in enumerate(np.lexsort((ties, *codes.T[::-1])).tolist())}
    representatives = {place: code(rows) for place, rows in buckets.items()}
    while True:
        pairs = [
            ((representatives[small] ^ representatives[host]).bit_count(), small, host)
            for small, rows in buckets.items()
            for host, others in buckets.items()
            if small != host and len(rows) < minimum and len(rows) + len(others) <= maximum
        ]
        if not pairs:
            return {frozenset(rows) for rows in buckets.values()}
        _, small, host = min(pairs)
        buckets[host] += buckets.pop(small)
        representatives[host] = code(buckets[host])


def test_groups_are_far_better_than_chance_and_as_good_as_with_all_pairs():
    vectors, codes, ties = layer(600)
    near = cosine(vectors, grouped(vectors, codes, ties).members)
    everything = np.tile(np.arange(600), (600, 1))
    exact = cosine(vectors, group(codes, everything, ties=ties, **BOUNDS).members)
    chance = cosine(vectors, np.array_split(np.random.default_rng(0).permutation(600), 66))
    assert near > 0.95 * exact > 5 * chance


def test_an_update_changes_few_groups_and_keeps_their_quality():
    vectors, codes, ties = layer(1000)
    before = grouped(vectors[:900], codes[:900], ties[:900])

    def hashed(rows):
        return codes[rows]

    one = place(before.members, before.representatives, np.array([900]), hashed, changed=[], **BOUNDS)
    same = {tuple(rows) for rows in before.members} & {tuple(rows) for rows in one.members}
    assert len(before.members) - len(same) == 1
    new = np.arange(900, 1000)
    grown = place(before.members, before.representatives, new, hashed, changed=[], **BOUNDS)
    anew = grouped(vectors, codes, ties)
    assert cosine(vectors, grown.members) > 0.95 * cosine(vectors, anew.members)


def test_groups_that_are_cut_off_continue_none():
    codes = np.zeros((13, 1), np.uint64)
    found = place(
        [np.arange(12)],
        codes[:1],
        np.array([12]),
        lambda rows: codes[rows],
        changed=[],
        **BOUNDS,
    )
    assert found.origin.tolist() == [0, -1]
    assert sorted(map(len, found.members)) == [4, 9]

"""Hash codes by hyperplanes, and groups of them: bounds, independence of the order, quality, few changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.buckets import group, place
from stratagraph.kernels.knn import knn_graph
from stratagraph.kernels.lsh import hamming, hash_codes, hyperplanes, pack

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
    found = place([np.arange(12)], codes[:1], np.array([12]), lambda rows: codes[rows], changed=[], **BOUNDS)
    assert found.groups_before.tolist() == [0, -1]
    assert sorted(map(len, found.members)) == [4, 9]


def test_pack_puts_the_first_bit_highest():
    bits = np.zeros((2, 70), dtype=np.bool_)
    bits[0, 0] = bits[1, 69] = True
    assert pack(bits).tolist() == [[2**63, 0], [0, 2**58]]


def unit(rng, *shape):
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class TestHyperplanes:
    def test_a_prefix_does_not_depend_on_the_number(self):
        assert np.array_equal(hyperplanes(100, 33, seed=7)[:64], hyperplanes(64, 33, seed=7))

    def test_components_are_standard_normal(self):
        planes = hyperplanes(200, 501, seed=0).ravel().astype(np.float64)
        assert abs(planes.mean()) < 0.01
        assert abs(planes.std() - 1) < 0.01
        assert abs((np.abs(planes) < 1).mean() - 0.6827) < 0.01
        assert abs(np.corrcoef(planes[:-1], planes[1:])[0, 1]) < 0.01


class TestHashCodes:
    @pytest.mark.parametrize("bits", [7, 64, 130])
    def test_agrees_with_signs_one_by_one(self, bits):
        rng = np.random.default_rng(bits)
        vectors, planes = unit(rng, 50, 20), hyperplanes(bits, 20, seed=3)
        codes = hash_codes(vectors, planes, batch=7)
        for vector, code in zip(vectors.astype(np.float64), codes, strict=True):
            text = "".join(f"{word:064b}" for word in code)
            assert text == "".join("1" if plane @ vector > 0 else "0" for plane in planes).ljust(
                len(text), "0"
            )

    def test_a_code_does_not_depend_on_the_batch(self):
        rng = np.random.default_rng(0)
        planes = hyperplanes(64, 48, seed=0)
        vectors = unit(rng, 64, 48)
        # Vectors that lie in one of the planes, up to rounding: any product may come out on either side.
        for row in range(64):
            normal = planes[row] / np.linalg.norm(planes[row])
            vectors[row] -= (vectors[row] @ normal) * normal
        whole = hash_codes(vectors, planes)
        for batch in (1, 3, 17, 63):
            assert np.array_equal(hash_codes(vectors, planes, batch=batch), whole)
        shuffled = rng.permutation(64)
        assert np.array_equal(hash_codes(vectors[shuffled], planes), whole[shuffled])

    @pytest.mark.parametrize("degrees", [5, 60, 150])
    def test_collision_probability_is_one_minus_angle_over_pi(self, degrees):
        """ERRATA L1, and not the paper's (1 + cos) / 2."""
        rng = np.random.default_rng(degrees)
        theta = np.radians(degrees)
        a = unit(rng, 300, 32)
        b = unit(rng, 300, 32)
        b -= (a * b).sum(axis=1, keepdims=True) * a
        b = np.cos(theta) * a + np.sin(theta) * b / np.linalg.norm(b, axis=1, keepdims=True)
        planes = hyperplanes(512, 32, seed=1)
        pairs = zip(hash_codes(a, planes), hash_codes(b.astype(np.float32), planes), strict=True)
        differing = np.mean([hamming(x, y[None])[0] for x, y in pairs]) / 512
        assert 1 - differing == pytest.approx(1 - theta / np.pi, abs=0.012)

    def test_a_zero_vector_and_no_vector(self):
        planes = hyperplanes(64, 5, seed=0)
        assert hash_codes(np.zeros((2, 5), np.float32), planes).tolist() == [[0], [0]]
        assert hash_codes(np.zeros((0, 5), np.float32), planes).shape == (0, 1)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.kernels.hamming import hamming
from stratagraph.kernels.lsh import bits_for, group, hash_codes, hyperplanes


def unit(rng, *shape):
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class TestHyperplanes:
    def test_a_prefix_does_not_depend_on_the_number(self):
        assert np.array_equal(hyperplanes(100, 33, seed=7)[:64], hyperplanes(64, 33, seed=7))

    def test_seeds_differ(self):
        assert not np.allclose(hyperplanes(8, 16, seed=1), hyperplanes(8, 16, seed=2))

    def test_components_are_standard_normal(self):
        planes = hyperplanes(200, 501, seed=0).ravel().astype(np.float64)
        assert abs(planes.mean()) < 0.01
        assert abs(planes.std() - 1) < 0.01
        assert abs((np.abs(planes) < 1).mean() - 0.6827) < 0.01
        assert abs(np.corrcoef(planes[:-1], planes[1:])[0, 1]) < 0.01

    @pytest.mark.parametrize(("bits", "dimension"), [(0, 4), (4, 0)])
    def test_sizes_are_checked(self, bits, dimension):
        with pytest.raises(ValueError, match="at least 1"):
            hyperplanes(bits, dimension, seed=0)


class TestHashCodes:
    @pytest.mark.parametrize("bits", [1, 7, 64, 65, 130])
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

    @pytest.mark.parametrize("degrees", [5, 30, 60, 90, 150])
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

    def test_dimensions_are_checked(self):
        with pytest.raises(ValueError, match="differ in dimension"):
            hash_codes(np.zeros((2, 5), np.float32), hyperplanes(8, 6, seed=0))


def test_bits_stay_the_same_while_a_layer_grows():
    assert {bits_for(size, 12) for size in (0, 1, 12, 1000, 20_000, 1_000_000, 20_000_000)} == {64}
    assert bits_for(2**40, 12) == 128
    with pytest.raises(ValueError, match="maximum"):
        bits_for(10, 0)


@st.composite
def layers(draw):
    """Codes with few or many distinct values, and bounds that can hold."""
    size = draw(st.integers(0, 150))
    words = draw(st.integers(1, 2))
    distinct = draw(st.sampled_from([1, 2, 5, 2**64 - 1]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = rng.integers(0, 2**64, size=(min(distinct, size + 1), words), dtype=np.uint64)
    codes = pool[rng.integers(0, len(pool), size)]
    if draw(st.booleans()):  # skewed: most bits equal
        codes &= rng.integers(0, 2**64, size=(size, words), dtype=np.uint64) | np.uint64(2**60)
    minimum = draw(st.integers(1, 6))
    maximum = draw(st.integers(2 * minimum - 1, 20))
    return codes, rng.permutation(2 * size)[:size].astype(np.uint64) << np.uint64(40), minimum, maximum


class TestGroup:
    @given(layers(), st.booleans())
    @settings(max_examples=300, deadline=None)
    def test_bounds_hold_and_labels_are_in_order(self, layer, tied):
        codes, ties, minimum, maximum = layer
        labels = group(codes, minimum=minimum, maximum=maximum, ties=ties if tied else None)
        sizes = np.bincount(labels)
        assert len(labels) == len(codes)
        assert (sizes <= maximum).all()
        if len(codes) >= minimum:
            assert (sizes >= minimum).all()
        else:
            assert not labels.any()
        if tied:
            keys = [(*code, tie) for code, tie in zip(codes.tolist(), ties.tolist(), strict=True)]
            smallest = [
                min(key for key, own in zip(keys, labels, strict=True) if own == i) for i in range(len(sizes))
            ]
            assert smallest == sorted(smallest)

    @given(layers(), st.integers(0, 2**32))
    @settings(max_examples=150, deadline=None)
    def test_depends_on_the_set_not_on_its_order(self, layer, seed):
        codes, ties, minimum, maximum = layer
        shuffled = np.random.default_rng(seed).permutation(len(codes))
        labels = group(codes, minimum=minimum, maximum=maximum, ties=ties)
        assert np.array_equal(
            group(codes[shuffled], minimum=minimum, maximum=maximum, ties=ties[shuffled]), labels[shuffled]
        )

    @given(layers())
    @settings(max_examples=100, deadline=None)
    def test_agrees_with_the_rule_taken_literally(self, layer):
        codes, ties, minimum, maximum = layer
        labels = group(codes, minimum=minimum, maximum=maximum, ties=ties)
        expected = {frozenset(part) for part in literal(codes, ties, minimum, maximum)}
        found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}
        assert found == expected

    def test_equal_vectors_are_split_evenly(self):
        labels = group(np.zeros((100, 1), np.uint64), minimum=4, maximum=12)
        assert sorted(np.bincount(labels).tolist()) == [11] * 8 + [12]

    def test_near_codes_meet(self):
        """A straggler joins the group at Hamming distance 1, not its neighbour in the order of codes."""
        a, b = 0b0001 << 60, 0b0111 << 60
        codes = np.array([a] * 5 + [b] * 5 + [b | 1 << 63], dtype=np.uint64)[:, None]
        labels = group(codes, minimum=2, maximum=6)
        assert labels[10] == labels[5]
        assert len(set(labels.tolist())) == 2

    def test_one_more_vector_changes_few_groups(self):
        rng = np.random.default_rng(5)
        planes = hyperplanes(64, 64, seed=0)
        vectors = unit(rng, 3000, 64) + unit(rng, 40, 64)[rng.integers(0, 40, 3000)]
        codes = hash_codes(vectors.astype(np.float32), planes)
        ties = rng.integers(0, 2**64, 3000, dtype=np.uint64)
        before = parts(codes[:-30], ties[:-30])
        changes = []
        for row in range(-30, 0):
            kept = np.append(np.arange(2970), 3000 + row)
            changes.append(len(parts(codes[kept], ties[kept]) - before))
        assert np.mean(changes) < 2
        assert max(changes) <= 6

    def test_coherent_vectors_change_few_groups(self):
        rng = np.random.default_rng(6)
        planes = hyperplanes(64, 64, seed=0)
        old, topic = unit(rng, 3000, 64), unit(rng, 64)
        new = topic + 0.3 * unit(rng, 30, 64)
        codes = hash_codes(np.concatenate([old, new]).astype(np.float32), planes)
        ties = rng.integers(0, 2**64, 3030, dtype=np.uint64)
        before = parts(codes[:3000], ties[:3000])
        assert len(parts(codes, ties) - before) < 0.04 * len(before)

    @pytest.mark.parametrize(("minimum", "maximum"), [(0, 5), (4, 6), (3, 2)])
    def test_bounds_that_cannot_hold(self, minimum, maximum):
        """ERRATA L3."""
        with pytest.raises(ValueError, match=r"2 \* minimum - 1"):
            group(np.zeros((9, 1), np.uint64), minimum=minimum, maximum=maximum)

    def test_shapes_are_checked(self):
        with pytest.raises(ValueError, match="expected codes"):
            group(np.zeros((9, 1), np.uint64), minimum=1, maximum=2, ties=np.zeros(8, np.uint64))


def parts(codes, ties):
    """The groups as a set of sets of (code, tie)."""
    labels = group(codes, minimum=4, maximum=12, ties=ties)
    keys = list(zip(codes[:, 0].tolist(), ties.tolist(), strict=True))
    found: dict[int, set] = {}
    for label, key in zip(labels.tolist(), keys, strict=True):
        found.setdefault(label, set()).add(key)
    return {frozenset(members) for members in found.values()}


def literal(codes, ties, minimum, maximum):
    """The rule of `trie` as a recursion over bit strings; groups as lists of rows."""
    text = ["".join(f"{word:064b}" for word in row) for row in codes.tolist()]
    bits = [code + f"{tie:064b}" for code, tie in zip(text, ties.tolist(), strict=True)]

    def majority(rows):
        columns = zip(*(text[row] for row in rows), strict=True)
        return "".join("1" if 2 * column.count("1") > len(rows) else "0" for column in columns)

    def apart(a, b):
        return sum(x != y for x, y in zip(a, b, strict=True))

    def split(rows, depth):
        if len(rows) <= maximum:
            return [rows]
        children = [[row for row in rows if bits[row][depth] == bit] for bit in "01"]
        small, large = sorted(children, key=len)
        if not small:
            return split(large, depth + 1)
        if len(small) >= minimum:
            return split(small, depth + 1) + split(large, depth + 1)
        groups = split(large, depth + 1)
        code = majority(small)
        host = min(groups, key=lambda g: (apart(majority(g), code), min(bits[row] for row in g)))
        groups.remove(host)
        union = host + small
        if len(union) <= maximum:
            return [*groups, union]
        other = majority(host)
        preference = {row: apart(text[row], code) - apart(text[row], other) for row in union}
        union.sort(key=lambda row: (preference[row], bits[row]))
        nearer = sum(value < 0 for value in preference.values())
        low, high = max(minimum, len(union) - maximum), min(maximum, len(union) - minimum)
        share = min(max(nearer, low), high)
        return [*groups, union[:share], union[share:]]

    return split(list(range(len(bits))), 0) if bits else []

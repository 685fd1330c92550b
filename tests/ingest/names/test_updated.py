"""An index of names that was brought up to date is, byte for byte, the one that is built of all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from stratagraph.ingest.names.index import NameIndex

WORDS = [
    *("ada", "marsh", "may", "the", "of", "straße", "höfe", "王国大学", "北京"),
    *("u", "s", "bb", "c++", "mill"),
]


def name(chance: random.Random) -> str:
    if chance.random() < 0.05:
        return chance.choice(["", "!!"])  # no names, but rows
    return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 5)))


@pytest.mark.parametrize("seed", range(12))
def test_names_that_come_and_go_leave_the_index_of_a_build(seed: int) -> None:
    chance = random.Random(seed)
    old = [name(chance) for _ in range(chance.choice([0, 1, 5, 60]))]
    share = chance.choice([0.5, 0.95, 1.0])
    kept = [row for row in range(len(old)) if chance.random() < share]
    if seed % 3 == 0:
        chance.shuffle(kept)  # titles of communities change their order
    size = len(kept) + chance.choice([0, 1, 5, 30])
    rows = sorted(chance.sample(range(size), len(kept)))
    now = np.full(len(old), -1, np.int64)
    now[kept] = rows
    names = {row: old[place] for place, row in zip(kept, rows, strict=True)}
    fresh = {row: name(chance) for row in range(size) if row not in names}
    found = NameIndex.updated(NameIndex.build(old), now, size, fresh)
    wanted = NameIndex.build([(names | fresh)[row] for row in range(size)])
    assert list(found) == list(wanted)
    for key, array in wanted.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array, key)

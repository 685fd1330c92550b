"""The arrays of a flat set of vectors: made anew, and brought up to date."""

from __future__ import annotations

import numpy as np

from stratagraph.ingest.nearest import Nearest


def test_zero_vectors_are_found_whatever_is_known_of_them() -> None:
    rng = np.random.default_rng(3)
    before = rng.standard_normal((300, 40)).astype(np.float32)
    before[:, :20] *= rng.random((300, 1)) < 0.3  # many begin with zeros and are none
    before[[4, 50, 299]] = 0
    arrays = Nearest.index(before, "some")
    assert arrays["some.zeros"].tolist() == [4, 50, 299]
    came = np.zeros((3, 40), np.float32)
    came[1, 39] = 1
    origin = np.concatenate([np.arange(299, -1, -1), [-1, -1, -1]])
    now = np.concatenate([before[::-1], came])
    found = Nearest.index(now, "some", (arrays, origin))["some.zeros"]
    assert found.tolist() == Nearest.index(now, "some")["some.zeros"].tolist() == [0, 249, 295, 300, 302]
    assert not len(Nearest.index(before[:0], "some", (arrays, origin[:0]))["some.zeros"])

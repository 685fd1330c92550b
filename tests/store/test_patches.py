"""Arrays as they follow from those of an earlier generation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stratagraph.store.patches import LEAST, LIST, SHARE, Patched, patch

Named = dict[str, NDArray[Any]]
ROWS = 20_000
MOVING = {"ends", "parents", "slots", "indptr", "indices", "void"}


def arrays(rows: int = ROWS, seed: int = 1) -> Named:
    """Arrays of each kind, about rows and what they point at."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 6, rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return {
        "keys": random.integers(0, 1 << 63, rows).astype(np.uint64),
        "codes": random.integers(0, 256, (rows, 16)).astype(np.uint8),
        "weights": random.random(rows).astype(np.float32),
        "ends": random.integers(0, rows, (rows, 2)).astype(np.int32),
        "parents": random.integers(-1, rows, rows),
        "slots": random.integers(0, rows, rows).astype(np.uint32),
        "indptr": indptr,
        "indices": random.integers(0, rows, int(indptr[-1])).astype(np.int32),
        "levels": np.sort(random.integers(0, 5, rows)).astype(np.int16),
        "flags": random.random(rows) < 0.1,
        "names": np.array(["a", "bc"]),
        "nothing": np.zeros((0, 3), np.float64),
        "void": np.zeros(0, np.int32),
    }


def inserted(before: Named, at: int) -> Named:
    """The same with one more row at a place: all numbers behind it move."""

    def by(numbers: NDArray[Any]) -> NDArray[Any]:
        return (numbers.astype(np.int64) + (numbers.astype(np.int64) >= at)).astype(numbers.dtype)

    indptr = before["indptr"]
    new = np.array([3, 14, 15], np.int32)
    spliced = np.concatenate([before["indices"][: indptr[at]], new, before["indices"][indptr[at] :]])
    found = {
        name: np.insert(array, at, array[5], axis=0) for name, array in before.items() if len(array) == ROWS
    }
    return {
        **before,
        **{
            name: by(array) if name in ("ends", "parents", "slots") else array
            for name, array in found.items()
        },
        "indptr": np.insert(indptr[at:] + 3, 0, indptr[: at + 1]),
        "indices": by(spliced),
    }


def same(one: Named, other: Any) -> None:
    assert list(one) == list(other)
    for name, array in one.items():
        assert other[name].dtype == array.dtype, name
        assert other[name].shape == array.shape, name
        assert other[name].tobytes() == array.tobytes(), name


def test_a_row_more_is_a_small_patch_and_gives_the_same_arrays() -> None:
    before = arrays()
    now = inserted(before, 7000)
    made = patch(before, now, MOVING)
    assert made is not None
    assert sum(array.nbytes for array in made.values()) < sum(array.nbytes for array in now.values()) / 100
    same(now, Patched(before, made))
    how = {name: how for name, how, *_ in json.loads(bytes(made[LIST]))}
    assert how["names"] == "same"
    assert how["indptr"] == "lengths"
    assert how["keys"] == how["indices"] == "spliced"


def test_arrays_that_come_go_or_change_their_kind_are_stored() -> None:
    before = arrays()
    now = {**before, "fresh": np.arange(9), "weights": before["weights"].astype(np.float64)[:100]}
    del now["codes"]
    made = patch(before, now, MOVING)
    assert made is not None
    same(now, Patched(before, made))


def test_patches_that_would_save_little_are_not_made() -> None:
    assert patch(arrays(), arrays(seed=2), MOVING) is None
    small = {"keys": np.arange(LEAST // 8 - 1, dtype=np.uint64)}
    assert patch(small, small, MOVING) is None
    large = {"keys": np.arange(LEAST, dtype=np.uint64)}
    rest = np.arange(LEAST // SHARE, dtype=np.uint64) + LEAST
    assert patch(large, {"keys": large["keys"], "rest": rest[: len(rest) // 2]}, MOVING) is not None
    assert patch(large, {"keys": large["keys"], "rest": np.tile(rest, 2)}, MOVING) is None


def test_any_change_gives_the_arrays_back() -> None:
    random = np.random.default_rng(9)
    before = arrays()
    now = before
    for _ in range(12):
        now = {
            name: np.delete(array, random.integers(len(array), size=3), axis=0) if len(array) > 9 else array
            for name, array in now.items()
        }
        made = patch(before, now, MOVING)
        assert made is not None
        same(now, Patched(before, made))


def test_rows_of_bytes_that_are_much_alike_are_found_again() -> None:
    random = np.random.default_rng(4)
    rows = np.zeros((6000, 48), np.uint8)
    rows[:, :6] = random.integers(1, 255, (6000, 6))
    now = np.delete(rows, [17, 3000, 3001, 5900], axis=0)
    before = {"codes": rows}
    made = patch(before, {"codes": now}, ())
    assert made is not None
    assert sum(array.nbytes for array in made.values()) < now.nbytes // 100
    assert np.array_equal(Patched(before, made)["codes"], now)


def _listed(change: Callable[[list[Any]], Any]) -> Callable[[Named], Named]:
    def changed(made: Named) -> Named:
        listed = json.loads(bytes(made[LIST]))
        change(listed)
        return {**made, LIST: np.frombuffer(json.dumps(listed).encode(), np.uint8)}

    return changed


def _with(key: str, value: Any) -> Callable[[Named], Named]:
    return lambda made: {**made, key: np.asarray(value)}


def _as_lengths(name: str, length: int | None = None) -> Callable[[Named], Named]:
    """An array described as the borders of lists, all of whose lengths are those of before, or of none."""

    def changed(made: Named) -> Named:
        before = arrays()[name]
        length_now = len(before) if length is None else length
        listed = [[name, "lengths", before.dtype.str, [length_now]]]
        return {
            LIST: np.frombuffer(json.dumps(listed).encode(), np.uint8),
            "0.spans": np.array([[0, max(length_now - 1, 0), 0]]),
            "0.items": before[:0],
            "0.moves": np.zeros((0, 2), np.int64),
        }

    return changed


HOSTILE: dict[str, Callable[[Named], Named]] = {
    "no list": lambda made: {key: each for key, each in made.items() if key != LIST},
    "no JSON": _with(LIST, np.frombuffer(b"{[", np.uint8)),
    "another shape": _listed(lambda listed: listed[0].__setitem__(3, [1 << 47])),
    "a negative shape": _listed(lambda listed: listed[0].__setitem__(3, [-1])),
    "another type": _listed(lambda listed: listed[0].__setitem__(2, "<f8")),
    "an unknown way": _listed(lambda listed: listed[0].__setitem__(1, "run")),
    "an unknown array": _listed(lambda listed: listed[0].__setitem__(0, "else")),
    "a path": _listed(lambda listed: listed[0].__setitem__(0, "../keys")),
    "no name": _listed(lambda listed: listed[0].__setitem__(0, 7)),
    "twice": _listed(lambda listed: listed.append(listed[0])),
    "no spans": lambda made: {key: each for key, each in made.items() if key != "0.spans"},
    "spans that overlap": _with("0.spans", [[0, 15_000, 0], [10_000, 5001, 0]]),
    "spans beyond the end": _with("0.spans", [[0, 7000, 1], [10_000, 13_000, 0]]),
    "negative spans": _with("0.spans", [[0, -7000, 1], [0, 27_000, 0]]),
    "huge spans": _with("0.spans", [[1 << 62, 1 << 62, 1], [1 << 62, 1 << 62, 0]]),
    "huge spans of 32 bits": _with("0.spans", np.full((2, 3), (1 << 31) - 1, np.int32)),
    "flat spans": _with("0.spans", [0, 20_001, 0]),
    "too few items": _with("0.items", np.zeros(0, np.uint64)),
    "moves of keys": _with("0.moves", [[5, 5]]),
    "moves that descend": _with("3.moves", [[9, 1], [5, 2]]),
    "lengths of nothing": _as_lengths("void"),
    "lengths to nothing": _as_lengths("indptr", 0),
    "lengths of text": _as_lengths("names"),
    "lengths of truths": _as_lengths("flags"),
    "lengths of keys": _as_lengths("keys"),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_patch_that_cannot_be_is_refused_before_it_is_applied(hostile: str) -> None:
    before = arrays()
    made = patch(before, inserted(before, 7000), MOVING)
    assert made is not None
    with pytest.raises((ValueError, TypeError, LookupError)):
        Patched(before, HOSTILE[hostile](made))

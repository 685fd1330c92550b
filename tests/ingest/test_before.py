"""What of a graph is as it was, found by arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagraph.ingest.before import Before, carried_keys, recognised


class Part:
    """Nodes with ids, contents and sources."""

    def __init__(self, nodes: list[tuple[int, int, list[int]]]) -> None:
        self._nodes = nodes
        sizes = [len(sources) for *_, sources in nodes]
        self.arrays = {
            "sources.indptr": np.cumsum([0, *sizes]),
            "sources.indices": np.array([row for *_, sources in nodes for row in sources], np.int32),
        }

    def keys(self, rows: list[int]) -> Any:
        return np.array([self._nodes[row][0] for row in rows], np.uint64)

    def marks(self, rows: list[int]) -> Any:
        return np.array([self._nodes[row][1] for row in rows], np.uint64)

    def find(self, keys: Any) -> Any:
        places = {node[0]: row for row, node in enumerate(self._nodes)}
        return np.array([places.get(key, -1) for key in keys.tolist()], np.int64)


def before(previous: Part, now: Part, chunks: list[int], carried: list[int] | None = None) -> Before:
    stored: list[Any] = [previous, now]
    made = [-1] * (len(now.arrays["sources.indptr"]) - 1)
    return Before(stored[0], stored[1], np.array(chunks), np.array(carried or made))


def test_a_node_is_as_it_was_if_its_record_and_its_chunks_are() -> None:
    previous = Part([(10, 1, [0]), (11, 2, [0, 2]), (12, 3, [1]), (13, 4, [2])])
    now = Part([(11, 2, [1, 2]), (14, 5, [0]), (12, 9, [1]), (13, 4, [2]), (10, 1, [0])])
    for carried in (None, [1, -1, -1, 3, -1]):
        found = before(previous, now, [-1, 0, 2], carried)  # chunk 0 is new, chunk 1 went
        assert found.origin.tolist() == [1, -1, 2, 3, 0]
        assert found.same.tolist() == [True, False, False, True, False]
        assert found.rewritten.tolist() == [False, False, True, False, False]


def test_a_chunk_that_came_is_not_one_that_went() -> None:
    previous, now = Part([(10, 1, [0, 1])]), Part([(10, 1, [0, 1])])
    assert before(previous, now, [0, 1]).same.tolist() == [True]
    assert before(previous, now, [0, -1]).same.tolist() == [False]
    assert before(Part([(10, 1, [0])]), now, [0, -1]).same.tolist() == [False]


def test_groups_are_recognised_by_all_that_they_consist_of() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2, 3, -1, 4])
    origin = np.array([0, 1, 2, 3, 4, 6, 7, 8, -1])
    same = origin >= 0
    groups = np.array([5, 5, 6, 6, 7, 7, 8, 4, -1])  # member 5 of group 7 went; 6 came from 8 to it
    assert recognised(labels, origin, same, groups, 5).tolist() == [5, 6, -1, 4, -1]
    same[2] = False
    assert recognised(labels, origin, same, groups, 5).tolist() == [5, -1, -1, 4, -1]


def test_keys_that_are_known_are_not_made_again() -> None:
    asked: list[int] = []

    def made(rows: list[int]) -> Any:
        asked.extend(rows)
        return np.array([100 + row for row in rows], np.uint64)

    known = np.array([7, 8, 9], np.uint64)
    assert carried_keys(known, np.array([2, -1, 0]), made).tolist() == [9, 101, 7]
    assert asked == [1]

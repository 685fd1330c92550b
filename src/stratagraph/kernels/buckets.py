"""Groups of bounded size from hash codes: small buckets merge with the nearest one (paper 004, 4.2).

`group` starts with every code as a bucket. Of all buckets that are too small, the one that is nearest to
another with room merges with it, until none is too small. The distance of two buckets is the Hamming distance
of their representatives, the bitwise majority of their members. A bucket is compared with the buckets of its
members' nearest neighbours only, so that the time grows with the number of codes (ERRATA L4).

`place` updates groups: it adds new members, restores the bounds, and leaves all other groups as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.lsh import Codes, hamming, pack

Rows = NDArray[np.int64]

_FAR = 2**30
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows."""

    members: list[Rows]
    """Ascending rows of each group; none is empty."""
    representatives: Codes
    """Majority codes of the groups, shape (groups, words)."""
    groups_before: Rows
    """The previous group that each continues, or -1, shape (groups,)."""


def group(
    codes: Codes, neighbours: NDArray[np.integer], *, minimum: int, maximum: int, ties: NDArray[np.uint64]
) -> Groups:
    """Group vectors by their hash codes so that each group has `minimum` to `maximum` members.

    Parameters
    ----------
    codes
        Packed codes, shape (n, words) (`hash_codes`).
    neighbours
        Rows of near vectors of each vector, or -1, shape (n, any). A small bucket without any that has room
        joins the nearest of all.
    minimum, maximum
        Bounds on the size of a group; `maximum >= 2 * minimum - 1`. A layer of fewer than `minimum` vectors
        is one group (ERRATA L3).
    ties
        A content hash of 64 bits per vector, shape (n,), which orders equal codes.

    Returns
    -------
    Groups in the order of their smallest (code, tie). They do not depend on the order of the input, but among
    equal (code, tie) pairs.
    """
    order = np.lexsort((ties, *codes.T[::-1]))
    places = np.empty(len(order) + 1, np.int64)
    places[order], places[-1] = np.arange(len(order)), -1
    ordered = np.ascontiguousarray(codes[order])
    members, representatives = _merged(ordered, places[neighbours[order]], minimum, maximum)
    state = _State(members, representatives, lambda rows: ordered[rows], minimum, maximum)
    state.restore(range(len(members)))
    groups = state.groups(0)
    first = np.argsort([rows[0] for rows in groups.members])
    return Groups(
        [np.sort(order[groups.members[each]]) for each in first.tolist()],
        groups.representatives[first],
        groups.groups_before,
    )


def place(
    groups: Sequence[Rows],
    representatives: Codes,
    new: Rows,
    hashed: Callable[[Rows], Codes],
    *,
    changed: Iterable[int],
    minimum: int,
    maximum: int,
) -> Groups:
    """Add rows to existing groups and restore the size bounds; other groups do not change.

    Each new row joins the group with the nearest representative. A group above `maximum` is cut in two, by
    2-means in Hamming distance. A group below `minimum` joins the nearest one.

    Parameters
    ----------
    groups
        The rows that are left of each group, at least one in all.
    representatives
        The majority codes that the groups had, shape (groups, words).
    new
        The new rows, in the order in which they are placed.
    hashed
        Gives the codes of rows. It is asked for new rows and for the members of groups that change.
    changed
        The groups that lost members, or whose members changed.
    minimum, maximum
        As for `group`.
    """
    state = _State([rows.tolist() for rows in groups], representatives, hashed, minimum, maximum)
    for number in changed:
        state.put(number, state.members[number])
    for row, code in zip(new.tolist(), hashed(new), strict=True):
        host = state.nearest(code)
        state.divide(host, [*state.members[host], row], len(state.members))
    state.restore(range(len(state.members)))
    return state.groups(len(groups))


class _State:
    """Groups while they change; some may be empty."""

    def __init__(
        self,
        members: list[list[int]],
        codes: Codes,
        hashed: Callable[[Rows], Codes],
        minimum: int,
        maximum: int,
    ) -> None:
        self.members = members
        self._codes = codes.copy()
        self._empty = np.array([not rows for rows in members], np.bool_)
        self._hashed, self._minimum, self._maximum = hashed, minimum, maximum

    def nearest(self, code: Codes) -> int:
        """The group whose representative is nearest to a code."""
        distances = hamming(code, self._codes).astype(np.int32)
        distances[self._empty] = _FAR
        return int(distances.argmin())

    def put(self, number: int, rows: list[int]) -> None:
        """Let a group, or a further one, have these rows."""
        if number == len(self.members):
            self.members.append([])
            self._codes = np.concatenate([self._codes, self._codes[:1]])
            self._empty = np.append(self._empty, True)
        self.members[number] = sorted(rows)
        self._empty[number] = not rows
        if rows:
            self._codes[number] = _majority(self._hashed(np.array(self.members[number], np.int64)))

    def divide(self, number: int, rows: list[int], other: int) -> None:
        """Put rows into one group, or, if they are too many, into two."""
        if len(rows) <= self._maximum:
            self.put(number, rows)
            return
        near = _halves(self._hashed(np.array(rows, np.int64)), self._minimum).tolist()
        self.put(number, [row for row, side in zip(rows, near, strict=True) if not side])
        self.put(other, [row for row, side in zip(rows, near, strict=True) if side])

    def restore(self, numbers: Iterable[int]) -> None:
        """Let groups below the minimum join the nearest one, unless there is only one group."""
        left = sum(map(bool, self.members))
        for number in numbers:
            rows = self.members[number]
            if not 0 < len(rows) < self._minimum or left == 1:
                continue
            self.members[number], self._empty[number] = [], True
            host = self.nearest(self._codes[number])
            self.divide(host, [*self.members[host], *rows], number)
            left -= not self.members[number]

    def groups(self, previous: int) -> Groups:
        """The groups that are left; the first `previous` are those that there were."""
        alive = np.flatnonzero([bool(rows) for rows in self.members])
        members = [np.array(self.members[number], np.int64) for number in alive.tolist()]
        return Groups(members, self._codes[alive], np.where(alive < previous, alive, -1))


def _merged(codes: Codes, neighbours: Rows, minimum: int, maximum: int) -> tuple[list[list[int]], Codes]:
    """Members and representatives of buckets, after all merges with buckets of neighbours that have room."""
    count = len(codes)
    code, size = codes.copy(), np.ones(count, np.int64)
    ones = _bits(codes).astype(np.int16)
    members = [[row] for row in range(count)]
    near: list[set[int]] = [set() for _ in range(count)]
    for row, others in enumerate(neighbours.tolist()):
        for other in others:
            if other >= 0 and other != row:
                near[row].add(other)
                near[other].add(row)

    def distances(bucket: int) -> tuple[Rows, Rows]:
        """The buckets near a bucket, and their distances from it, `_FAR` where there is no room."""
        others = np.fromiter(near[bucket], np.int64, len(near[bucket]))
        apart = np.bitwise_count(code[others] ^ code[bucket]).sum(axis=1, dtype=np.int64)
        return others, np.where(size[others] + size[bucket] <= maximum, apart, _FAR)

    # `least` bounds the distance from each small bucket to the nearest with room from below; the heap has it.
    least = [int(distances(bucket)[1].min(initial=_FAR)) for bucket in range(count)] if minimum > 1 else []
    heap = [(distance, bucket) for bucket, distance in enumerate(least) if distance < _FAR]
    heapq.heapify(heap)

    def push(bucket: int, distance: int) -> None:
        least[bucket] = distance
        if distance < _FAR:
            heapq.heappush(heap, (distance, bucket))

    while heap:
        distance, small = heapq.heappop(heap)
        if distance != least[small] or size[small] >= minimum:
            continue
        others, apart = distances(small)
        if apart.min(initial=_FAR) > distance:
            push(small, int(apart.min(initial=_FAR)))
            continue
        host = min(others[apart == apart.min()].tolist())
        members[host] += members[small]
        size[host] += size[small]
        ones[host] += ones[small]
        code[host] = pack(2 * ones[host][None] > size[host])[0]
        members[small], least[small] = [], _FAR
        for other in near[small]:
            near[other].discard(small)
            if other != host:
                near[other].add(host)
                near[host].add(other)
        near[small] = set()
        others, apart = distances(host)
        push(host, int(apart.min(initial=_FAR)))
        for other, distance in zip(others.tolist(), apart.tolist(), strict=True):
            if distance < least[other] and size[other] < minimum:
                push(other, distance)
    alive = [bucket for bucket in range(count) if members[bucket]]
    return [members[bucket] for bucket in alive], code[alive]


def _halves(codes: Codes, least: int) -> NDArray[np.bool_]:
    """A cut in two by 2-means in Hamming distance, as a mask; each side has at least `least` codes."""
    far = codes[hamming(codes[0], codes).argmax()]
    ends = far, codes[hamming(far, codes).argmax()]
    for _ in range(_ROUNDS):
        preference = hamming(ends[0], codes).astype(np.int64) - hamming(ends[1], codes)
        share = min(max(int(np.count_nonzero(preference < 0)), least), len(codes) - least)
        near = np.zeros(len(codes), np.bool_)
        near[np.argsort(preference, kind="stable")[:share]] = True
        ends = _majority(codes[near]), _majority(codes[~near])
    return near


def _majority(codes: Codes) -> Codes:
    """Each bit is 1 if more than half of the codes have it, shape (words,)."""
    return cast(Codes, pack(2 * _bits(codes).sum(axis=0, dtype=np.int64)[None] > len(codes))[0])


def _bits(codes: Codes) -> NDArray[np.uint8]:
    return np.unpackbits(codes.astype(">u8").view(np.uint8), axis=1)

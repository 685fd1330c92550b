"""Groups of bounded size from hash codes: a binary trie over their bits, with small leaves merged.

A node of the trie is the part of a sorted list of codes that shares a prefix.

1. A node of at most `maximum` codes is one group.
2. The next bit splits a larger node in two, and each child is grouped by itself.
3. A child of fewer than `minimum` codes joins the group of its sibling whose representative (bitwise majority
   of its members) is nearest in Hamming distance. If the union exceeds `maximum`, it is cut in two: the
   members nearer to the child's representative, and the others.

After the bits of the codes, the bits of a tie-break hash split equal codes.

A group depends only on codes with its prefix, so a change of one code changes only groups near it. Buckets of
different subtrees are never compared (ERRATA L4). All nodes of a level are split at once: two sorted
neighbours part at the first bit in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.hamming import WORD, Codes, pack

Ints = NDArray[np.int64]

_EQUAL = np.iinfo(np.int64).max
_BLOCK = 65_536


def group(codes: Codes, *, minimum: int, maximum: int, ties: NDArray[np.uint64] | None = None) -> Ints:
    """Group vectors by their hash codes so that each group has `minimum` to `maximum` members.

    Groups and labels do not depend on the order of the input, but among equal (code, tie) pairs.

    Parameters
    ----------
    codes
        Packed codes, shape (n, words), plane 0 in the highest bit (`hash_codes`).
    minimum, maximum
        Bounds on the size of a group; `maximum >= 2 * minimum - 1`. A layer of fewer than `minimum` vectors
        is one group (ERRATA L3).
    ties
        A content hash of 64 bits per vector, shape (n,), which splits equal codes. None: their places do.

    Returns
    -------
    Labels from 0, shape (n,), ascending with the smallest (code, tie) of the group.

    Raises
    ------
    ValueError
        If the bounds cannot hold, or `ties` is not one number per code.
    """
    if minimum < 1 or maximum < 2 * minimum - 1:
        raise ValueError(
            f"bounds need minimum >= 1 and maximum >= 2 * minimum - 1, not {minimum} and {maximum}: "
            "otherwise a group one too large could not be split"
        )
    codes = np.asarray(codes, dtype=np.uint64)
    if codes.ndim != 2 or (ties is not None and ties.shape != (len(codes),)):
        raise ValueError(
            f"expected codes of shape (n, words) and ties of shape (n,), not {codes.shape}"
            + (f" and {ties.shape}" if ties is not None else "")
        )
    keys = codes if ties is None else np.column_stack([codes, np.asarray(ties, dtype=np.uint64)])
    order = np.lexsort(keys.T[::-1]) if keys.shape[1] else np.arange(len(keys))
    keys = keys[order]
    leaves = _split(_prefixes(keys), len(keys), minimum, maximum)
    buckets = _Buckets(keys[:, : codes.shape[1]], leaves, minimum, maximum)
    small = np.flatnonzero(leaves.depth >= 0)
    for bucket in small[np.argsort(-leaves.depth[small], kind="stable")]:
        buckets.dissolve(int(bucket))
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = buckets.labels()
    return labels


def _prefixes(keys: Codes) -> Ints:
    """Length of the common prefix of each sorted key and the next, in bits, or `_EQUAL`."""
    lengths = np.full(max(len(keys) - 1, 0), _EQUAL, dtype=np.int64)
    for word in range(keys.shape[1] - 1, -1, -1):
        differing = keys[1:, word] ^ keys[:-1, word]
        for shift in (1, 2, 4, 8, 16, 32):
            differing |= differing >> np.uint64(shift)
        first = WORD - np.bitwise_count(differing).astype(np.int64)
        lengths = np.where(differing != 0, word * WORD + first, lengths)
    return lengths


@dataclass(frozen=True, slots=True)
class _Leaves:
    """The leaves of the trie in order, as ranges of the sorted codes.

    `depth` is the bit that cut off a leaf that is too small, which has the range of a sibling, else -1.
    """

    start: Ints
    end: Ints
    depth: Ints
    sibling_start: Ints
    sibling_end: Ints


def _split(prefixes: Ints, count: int, minimum: int, maximum: int) -> _Leaves:
    nodes = np.array([[0, count]], dtype=np.int64)
    if count <= maximum:
        return _leaves([_column(nodes[: min(count, 1)])])
    found: list[Ints] = []
    for depth, borders in _borders_by_depth(prefixes):
        place = np.minimum(np.searchsorted(borders, nodes[:, 0], side="right"), len(borders) - 1)
        border = borders[place]
        splits = (border > nodes[:, 0]) & (border < nodes[:, 1])
        left = np.column_stack([nodes[splits, 0], border[splits]])
        right = np.column_stack([border[splits], nodes[splits, 1]])
        children, siblings = np.concatenate([left, right]), np.concatenate([right, left])
        sizes = children[:, 1] - children[:, 0]
        small, large = sizes < minimum, sizes > maximum
        found += [_column(children[small], depth, siblings[small]), _column(children[~small & ~large])]
        nodes = np.concatenate([nodes[~splits], children[large]])
    return _leaves([*found, *(_column(_evenly(start, end, maximum)) for start, end in nodes)])


def _borders_by_depth(prefixes: Ints) -> Iterator[tuple[int, Ints]]:
    """For each bit, ascending, the places at which sorted neighbours first differ in it."""
    by_depth = np.argsort(prefixes, kind="stable")
    depths, first = np.unique(prefixes[by_depth], return_index=True)
    for depth, borders in zip(depths, np.split(by_depth + 1, first[1:]), strict=True):
        if depth < _EQUAL:
            yield int(depth), borders


def _evenly(start: int, end: int, maximum: int) -> Ints:
    """Cut a range of equal keys into parts of nearly the same size."""
    parts = -(-(end - start) // maximum)
    borders = start + np.arange(parts + 1) * (end - start) // parts
    return np.column_stack([borders[:-1], borders[1:]])


def _column(ranges: Ints, depth: int = -1, siblings: Ints | None = None) -> Ints:
    rows = np.zeros((len(ranges), 5), dtype=np.int64)
    rows[:, :2], rows[:, 2] = ranges, depth
    if siblings is not None:
        rows[:, 3:] = siblings
    return rows


def _leaves(found: list[Ints]) -> _Leaves:
    rows = np.concatenate(found)
    return _Leaves(*rows[np.argsort(rows[:, 0])].T.copy())


class _Buckets:
    """The leaves while small ones are dissolved; `first` is a bucket's smallest place, its key."""

    def __init__(self, codes: Codes, leaves: _Leaves, minimum: int, maximum: int) -> None:
        self._codes, self._minimum, self._maximum = codes, minimum, maximum
        self._start, self._end = leaves.start, leaves.end
        self._first, self._size = leaves.start.copy(), leaves.end - leaves.start
        self._code = _majorities(codes, leaves.start, leaves.end)
        self._changed: dict[int, Ints] = {}
        self._low = np.searchsorted(leaves.start, leaves.sibling_start)
        self._high = np.searchsorted(leaves.start, leaves.sibling_end)

    def dissolve(self, small: int) -> None:
        """Let a small bucket join the nearest under its sibling (rule 3)."""
        host = self._nearest(small)
        union = np.concatenate([self._members(host), self._members(small)])
        if len(union) <= self._maximum:
            self._size[small] = 0
            self._assign(host, union)
            return
        near, far = self._cut(union, self._code[small], self._code[host])
        self._assign(small, near)
        self._assign(host, far)

    def labels(self) -> Ints:
        """The number of the bucket of each place, in the order of their keys."""
        labels = np.empty(len(self._codes), dtype=np.int64)
        alive = np.flatnonzero(self._size)
        number = np.empty(len(self._size), dtype=np.int64)
        number[alive[np.argsort(self._first[alive])]] = np.arange(len(alive))
        labels[:] = np.repeat(number, self._end - self._start)
        for bucket, members in self._changed.items():
            labels[members] = number[bucket]
        return labels

    def _nearest(self, small: int) -> int:
        low, high = int(self._low[small]), int(self._high[small])
        if high - low == 1:
            return low
        distances = _distances(self._code[low:high], self._code[small])
        distances[self._size[low:high] == 0] = np.iinfo(distances.dtype).max
        nearest = low + np.flatnonzero(distances == distances.min())
        return int(nearest[np.argmin(self._first[nearest])])

    def _cut(self, union: Ints, small: Codes, host: Codes) -> tuple[Ints, Ints]:
        """The members nearer to the small bucket and the others, within the bounds."""
        preference = _distances(self._codes[union], small) - _distances(self._codes[union], host)
        ranked = union[np.lexsort((union, preference))]
        least = max(self._minimum, len(union) - self._maximum)
        most = min(self._maximum, len(union) - self._minimum)
        share = min(max(int(np.count_nonzero(preference < 0)), least), most)
        return ranked[:share], ranked[share:]

    def _members(self, bucket: int) -> Ints:
        known = self._changed.get(bucket)
        return np.arange(self._start[bucket], self._end[bucket]) if known is None else known

    def _assign(self, bucket: int, members: Ints) -> None:
        self._changed[bucket] = members
        self._first[bucket], self._size[bucket] = members.min(), len(members)
        self._code[bucket] = _majority(_bits(self._codes[members]).sum(axis=0, keepdims=True), len(members))


def _distances(codes: Codes, code: Codes) -> NDArray[np.int32]:
    distances: NDArray[np.int32] = np.bitwise_count(codes ^ code).sum(axis=1, dtype=np.int32)
    return distances


def _bits(codes: Codes) -> NDArray[np.uint8]:
    return np.unpackbits(codes.astype(">u8").view(np.uint8), axis=1)


def _majority(ones: NDArray[Any], count: Any) -> Codes:
    return pack(2 * ones > count)


def _majorities(codes: Codes, start: Ints, end: Ints) -> Codes:
    """Representatives of adjoining ranges, in blocks to bound the memory of unpacked bits."""
    result = np.empty((len(start), codes.shape[1]), dtype=np.uint64)
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK)
        first, last = start[part], end[part]
        bits = _bits(codes[first[0] : last[-1]])
        ones = np.add.reduceat(bits, first - first[0], axis=0, dtype=np.int32)
        result[part] = _majority(ones, (last - first)[:, None])
    return result

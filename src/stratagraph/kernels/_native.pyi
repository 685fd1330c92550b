from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def aligned(
    before: NDArray[np.integer],
    after: NDArray[np.integer],
    tolerance: int,
    most: int,
    window: int,
    reach: int,
    corner: int,
) -> list[int] | None: ...
def shifts(
    before: NDArray[np.integer],
    after: NDArray[np.integer],
    spans: NDArray[np.int64],
    found: NDArray[np.int64],
    votes: NDArray[np.int32],
) -> None: ...
def mapped(descriptor: int, size: int) -> NDArray[np.uint8]: ...
def bm25(
    rows: NDArray[np.int32],
    counts: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rarity: NDArray[np.float32],
    norms: NDArray[np.float32],
    mask: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
def behind(
    said_indptr: NDArray[np.int64],
    said_indices: NDArray[np.int64],
    named_indptr: NDArray[np.int64],
    named_indices: NDArray[np.int64],
    passages: NDArray[np.int64],
    borders: NDArray[np.int64],
    entities: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def most_telling(
    statements: NDArray[np.int64],
    borders: NDArray[np.int64],
    scores: NDArray[np.float32],
    most: NDArray[np.int64],
    told: NDArray[np.bool_],
    again: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def products(
    vectors: NDArray[np.float32], query: NDArray[np.float32], rows: NDArray[np.int64]
) -> NDArray[np.float32]: ...
def shortlist(
    query: NDArray[np.uint64], codes: NDArray[np.uint64], mask: NDArray[np.bool_], size: int
) -> NDArray[np.int64]: ...
def walks(
    offsets: NDArray[np.generic],
    targets: NDArray[np.generic],
    weights: NDArray[np.generic],
    starts: NDArray[np.int64],
    entries: NDArray[np.int64],
    shares: NDArray[np.float64],
    restart: float,
    steps: int,
    tolerance: float,
    per_edge: float,
    threads: int,
) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]: ...
def joined_walk(
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]],
    starts: NDArray[np.int64],
    owners: NDArray[np.int32],
    rows: NDArray[np.int32],
    shares: NDArray[np.float32],
    entries: NDArray[np.int64],
    weights: NDArray[np.float64],
    restart: float,
    steps: int,
    tolerance: float,
    per_edge: float,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
def shortest_paths(
    offsets: NDArray[np.int32],
    targets: NDArray[np.int32],
    edges: NDArray[np.int32],
    pairs: NDArray[np.int64],
    nodes: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def simd_levels() -> list[str]: ...

class HashedWords:
    def __init__(
        self, dropped: list[str], endings: list[str], shortest: int, folds: list[str], emphatic: list[bool]
    ) -> None: ...
    def rows(
        self, texts: list[str], dimension: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]: ...

class Graph:
    def __init__(
        self, kind: int, dimension: int, layers: int, breadth: int, paper: bool, level: str
    ) -> None: ...
    def set_layer(
        self,
        level: int,
        codes: NDArray[np.uint8],
        scales: NDArray[np.float32],
        vectors: NDArray[np.float32],
        links: NDArray[np.int32],
        down: NDArray[np.int32],
        child_from: NDArray[np.int64],
        children: NDArray[np.int32],
        alive: NDArray[np.uint8],
        pilots: NDArray[np.int32],
        ids: NDArray[np.int32],
        max_scale: float,
        max_norm: float,
        scanned: bool,
    ) -> None: ...
    def search(
        self,
        queries: NDArray[np.float32],
        k: int,
        ef: NDArray[np.int32],
        lowest: int,
        threads: int,
        rows: NDArray[np.int32],
        scores: NDArray[np.float32],
    ) -> None: ...
    def search_one(
        self,
        vector: NDArray[np.float32],
        k: int,
        ef: NDArray[np.int32],
        rows: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> list[int]: ...
    def insert(self, level: int, rows: NDArray[np.int32], links: int, ef: int, threads: int) -> None: ...
    def remove(self, level: int, rows: NDArray[np.int32], links: int, threads: int) -> None: ...
    def repair(self, level: int) -> int: ...
    def link_down(self, level: int, rows: NDArray[np.int32], ef: int, threads: int) -> None: ...
    def neighbours(
        self, level: int, k: int, ef: int, threads: int, rows: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> None: ...
    def counters(self) -> tuple[int, int, int, int]: ...

class HalfVectors:
    def __init__(self, segments: Sequence[NDArray[np.uint16]], dimension: int) -> None: ...
    def rows(self, slots: NDArray[np.int64], found: NDArray[np.float32]) -> None: ...
    def products(
        self, query: NDArray[np.float32], slots: NDArray[np.int64], scores: NDArray[np.float32]
    ) -> None: ...
    def pair_products(
        self, one: NDArray[np.int64], two: NDArray[np.int64], scores: NDArray[np.float32]
    ) -> None: ...

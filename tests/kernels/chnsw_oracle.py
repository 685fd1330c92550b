"""C-HNSW once more, in numpy and without haste: what the native search must do, and does it."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np


def exact(vectors: np.ndarray, query: np.ndarray, k: int, alive: np.ndarray | None = None) -> Any:
    """The best k living rows with their scores, by float64 arithmetic."""
    v, q = vectors.astype(np.float64), query.astype(np.float64)
    scores = v @ q
    rows = np.arange(len(v)) if alive is None else np.flatnonzero(alive)
    order = rows[np.argsort(-scores[rows], kind="stable")][:k]
    return order, scores[order]


class Oracle:
    """Search over the arrays of an index with float32 codes and inner products."""

    def __init__(self, arrays: dict[str, np.ndarray], breadth: int = 10, children: int = 64) -> None:
        count = max(int(name[5:].split(".")[0]) for name in arrays if name.startswith("layer")) + 1
        self.layers = [
            {name.split(".")[1]: a for name, a in arrays.items() if name.startswith(f"layer{level}.")}
            for level in range(count)
        ]
        self.breadth, self.most_children, self.distances = breadth, children, 0

    def search_all(self, query: np.ndarray, k: int, ef: int) -> list[np.ndarray]:
        found: list[np.ndarray] = [np.zeros(0, int)] * len(self.layers)
        best: list[int] = []
        for level in reversed(range(len(self.layers))):
            layer = self.layers[level]
            scores = layer["vectors"] @ query
            if len(layer["links"]):
                pool = self._beam(
                    layer, scores, self._entries(level, best), k, ef, float(np.linalg.norm(query))
                )
            else:
                pool = [(-s, i) for i, s in enumerate(scores.tolist()) if layer["alive"][i]]
                pool.sort()
                self.distances += len(scores)
            best = [node for _, node in pool[: self.breadth]]
            # Callers know nodes by their ids, which are not the rows of the arrays.
            ids = layer["ids"][[node for _, node in pool[:k]]].tolist()
            ranked = sorted(zip([score for score, _ in pool[:k]], ids, strict=True))
            found[level] = np.array([node for _, node in ranked], dtype=int)
        return found

    def _entries(self, level: int, best: list[int]) -> list[int]:
        layer, entries = self.layers[level], []
        for node in best if level + 1 < len(self.layers) else []:
            above = self.layers[level + 1]
            if above["down"][node] >= 0:
                entries.append(above["down"][node])
            start, end = above["child_from"][node : node + 2]
            entries += above["children"][start : end : (end - start) // self.most_children + 1].tolist()
        entries = list(dict.fromkeys(int(e) for e in entries))
        more = layer["pilots"] if len(entries) < 8 else layer["pilots"][:1]
        return list(dict.fromkeys([*entries, *more.tolist()]))

    def _beam(
        self, layer: Any, scores: np.ndarray, entries: list[int], k: int, ef: int, length: float
    ) -> list[tuple[float, int]]:
        pool: list[tuple[float, int]] = []
        most = min(k + 4 * (ef - k), max(ef, len(scores)))
        share, origin = 0.05 * np.log2(ef / k), length * float(layer["bounds"][1])
        rounding = origin * float(np.finfo(np.float32).eps)
        seen, expanded, fresh = set(entries), set(), entries
        while True:
            self.distances += len(fresh)
            for node in fresh:
                bisect.insort(pool, (-float(scores[node]), node))
                del pool[most:]
            waiting = [node for _, node in pool if node not in expanded]
            if not waiting:
                return pool
            if len(pool) >= k:
                last = pool[k - 1][0]
                farther = next(s for s, n in pool if n == waiting[0]) - last
                if farther > max(share * (origin + last), rounding):
                    return pool
            expanded.add(waiting[0])
            fresh = [int(n) for n in layer["links"][waiting[0]] if n >= 0 and n not in seen]
            seen.update(fresh)


def reachable(layer: dict[str, np.ndarray]) -> set[int]:
    """The nodes that links lead to from the first pilot."""
    stack = [int(layer["pilots"][0])] if len(layer["pilots"]) else []
    seen = set(stack)
    while stack:
        for node in layer["links"][stack.pop()]:
            if node >= 0 and node not in seen:
                seen.add(int(node))
                stack.append(int(node))
    return seen

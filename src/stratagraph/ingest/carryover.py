"""What a build takes over from the index before it: nodes by id, vectors by text, partitions by key.

All methods and the graph take over through this module, so that they agree on what counts as unchanged:

- a **node** is the same if its id is. An id is therefore derived from everything that the node is made of;
- a **vector** is the same if the text that was embedded is;
- a **partition** (communities, clusters) goes on from the previous one where enough of it is still there, as
  long as it has not drifted (`methods.drift`).

Arrays cannot hold ids or texts. There they are represented by keys (`records.content_key`).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.summarize import MODEL
from stratagraph.kernels.ranges import borders, ranges
from stratagraph.models.gate import Gate
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import Node, content_id, content_key

Keys = NDArray[np.uint64]
Labels = NDArray[np.int64]

VECTORS, VECTOR_KEYS = "vectors", "vectors.keys"
"""Arrays of the vectors of nodes, and of the keys of the embedded texts."""
RECLUSTER_SHARE = 0.5
"""A partition is computed anew if more than this share of its members is new, else updated.

Measured by `cookbook/benchmarks/reclustering.py` on musique_train100, 2wiki_dev164 and lihua_world: up to a
half, updated partitions have within 5 % of the modularity of new ones; above it, HiRAG on lihua_world writes
35 % more and loses 12 % of modularity.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """The chunks that a corpus has in common with the previous one.

    `rows_before` is the previous row of each chunk, or -1, and `extracted` are the previous extractions.
    `arrived` are rows of chunks of documents that were given again: text known, metadata maybe changed. The
    texts of the deleted chunks under their prefixes (`removed_texts`) may be iterated over once.
    """

    rows_before: Rows
    removed_texts: Iterable[str]
    extracted: Stored | None
    arrived: Rows


def counts_array(counts: Mapping[str, int]) -> NDArray[np.uint8]:
    """Counts as an array of JSON, without those of 0."""
    positive = {key: count for key, count in sorted(counts.items()) if count}
    return np.frombuffer(json.dumps(positive, ensure_ascii=False).encode("utf-8", "surrogatepass"), np.uint8)


def read_counts(arrays: Mapping[str, NDArray[Any]], name: str) -> Counter[str]:
    """What `counts_array` wrote; `ValueError` if it is something else."""
    counts = json.loads(arrays[name].tobytes().decode("utf-8", "surrogatepass"))
    if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
        raise ValueError(f"array '{name}' holds {str(counts)[:60]}, and no counts")
    return Counter(counts)


def keys_of(kind: str, values: Iterable[str]) -> Keys:
    """The keys of some ids or texts. Equal values of different kinds have different keys."""
    return np.fromiter((content_key(kind, value) for value in values), np.uint64)


def text_keys(texts: Iterable[str]) -> Keys:
    """The keys by which vectors of texts are found again."""
    return keys_of("text", texts)


def lookup(keys: Keys, keys_before: Keys) -> Rows:
    """The first place of each key in `keys_before`, or -1, shape (keys,)."""
    if not len(keys) or not len(keys_before):
        return np.full(len(keys), -1, np.int64)
    # The keys are sorted, of which there are fewer, and each key before is looked for among them.
    distinct, which = np.unique(keys, return_inverse=True)
    first = np.full(len(distinct), -1, np.int64)
    at = np.searchsorted(distinct, keys_before).clip(max=len(distinct) - 1)
    places = np.flatnonzero(distinct[at] == keys_before)[::-1]  # the last one written is the first place
    first[at[places]] = places
    return first[which]


def previous_labels(rows_before: Rows, labels: NDArray[np.integer]) -> Labels:
    """The labels of members in the previous partition, shape (..., n); -1 for new members.

    `rows_before` are the previous rows of members, or -1, shape (n,); `labels` those of the previous members,
    shape (..., m), where leading axes are levels.
    """
    previous = np.full((*labels.shape[:-1], len(rows_before)), -1, np.int64)
    is_carried = rows_before >= 0
    previous[..., is_carried] = labels[..., rows_before[is_carried]]
    return previous


def needs_reclustering(has_label: NDArray[np.bool_]) -> bool:
    """Whether a partition must be recomputed (`RECLUSTER_SHARE`), by which members had a label."""
    return not has_label.any() or bool(np.count_nonzero(~has_label) > RECLUSTER_SHARE * len(has_label))


def derived_id(members: Iterable[tuple[str, str]], *settings: str) -> str:
    """The id of a node derived from members (id, text), in any order, under some settings."""
    return content_id(*settings, *sorted(content_id(*member) for member in members))


def written_by_model(node: Node) -> bool:
    """Whether a model wrote the node's text, or it needed no writing."""
    return bool(node.extra.get("by", MODEL) == MODEL)


class TextsOnly:
    """A previous part of another embedder: its nodes are kept, its arrays are not."""

    arrays: Mapping[str, NDArray[Any]] = {}  # nobody writes to it

    def __init__(self, part: Stored) -> None:
        self.nodes, self.texts, self.ids, self.rows = part.nodes, part.texts, part.ids, part.rows
        self.keys, self.hashes, self.find = part.keys, part.hashes, part.find


class CarryOver:
    """Nodes and vectors of the previous index that need not be made again.

    `previous` is the previous index of the method, or the previous graph; None in a first build.
    """

    def __init__(self, previous: Stored | None, gate: Gate) -> None:
        self._previous = previous
        self._gate = gate

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """The previous nodes with these ids, by id; with a model, only those that a model wrote."""
        if self._previous is None:
            return {}
        nodes = self._previous.nodes(list(self._previous.rows(ids).values()))
        return {node.id: node for node in nodes if not self._gate.has_llm or written_by_model(node)}

    async def embed(
        self,
        stage: str,
        texts: Sequence[str],
        dimension: int,
        *,
        vectors: str = VECTORS,
        keys: str = VECTOR_KEYS,
    ) -> Vectors:
        """Vectors of texts, shape (texts, dimension); only those that the previous index lacks are embedded.

        `stage` is the ledger's name for it; `vectors` and `keys` name the previous arrays.
        """
        embedded = np.zeros((len(texts), dimension), np.float32)
        if self._previous is not None and vectors in self._previous.arrays:
            await asyncio.to_thread(_take_vectors, self._previous, embedded, texts, vectors, keys)
        missing = np.flatnonzero(~np.any(embedded, axis=1))
        if missing.size:
            embedded[missing] = await self._gate.embed(stage, [texts[row] for row in missing.tolist()])
        return embedded


def _take_vectors(previous: Stored, embedded: Vectors, texts: Sequence[str], vectors: str, keys: str) -> None:
    """Fill in the previous vectors; a zero vector means that the text was not embedded."""
    places = lookup(text_keys(texts), previous.arrays[keys])
    rows = np.flatnonzero(places >= 0)
    embedded[rows] = previous.arrays[vectors][places[rows]]


class Before:
    """The previous graph, by the rows of the present one. Reads arrays, and no nodes.

    `stored` is the previous graph, which `__init__` gets before the present one; `chunks` is the previous row
    of each chunk, or -1.
    """

    def __init__(self, previous: Stored, stored: Stored, chunks: Rows) -> None:
        self.stored, self.chunks, self._now = previous, chunks, stored

    @property
    def size(self) -> int:
        """How many rows the previous graph has."""
        return len(self.stored.keys)

    @cached_property
    def rows_before(self) -> Rows:
        """The previous row of the node with the same id, or -1, shape (rows,)."""
        return self.stored.find(self._now.keys)

    @cached_property
    def now(self) -> Rows:
        """The present row of each previous node, or -1, shape (size,)."""
        rows = np.full(self.size, -1, np.int64)
        rows[self.rows_before[self.rows_before >= 0]] = np.flatnonzero(self.rows_before >= 0)
        return rows

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the vector of an entity is that of the previous node with its id, shape (entities,)."""
        return self.alike_from(VECTORS, 0, 0)

    def alike_from(self, array: str, first: int, first_before: int) -> NDArray[np.bool_]:
        """The same for any array of vectors, which belong to the rows from `first`, before `first_before`."""
        now, before = self._now.arrays[array], self.stored.arrays.get(array)
        if before is None:
            return np.zeros(len(now), np.bool_)
        rows_before = self.rows_before[first : first + len(now)] - first_before
        equal = rows_before >= 0
        rows = np.flatnonzero(equal)
        equal[rows] = alike(now, rows, before, rows_before[rows])
        return equal

    def sources(self, stored: Stored, rows: Rows) -> tuple[Rows, Rows]:
        """The chunks of unchanged previous nodes, as borders and present rows."""
        indptr, indices = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
        sizes = indptr[rows + 1] - indptr[rows]
        now = np.full(int(self.chunks.max(initial=-1)) + 1, -1, np.int64)
        now[self.chunks[self.chunks >= 0]] = np.flatnonzero(self.chunks >= 0)
        return borders(sizes), now[indices[ranges(indptr[rows], sizes)]]


def alike(now: Vectors, rows: Rows, before: Vectors, places: Rows) -> NDArray[np.bool_]:
    """Whether vectors at some rows equal those at some places of a previous array.

    Arrays of a folder compare slots; others are compared value by value.
    """
    compare = getattr(now, "alike", None)
    if compare is not None:
        return np.asarray(compare(rows, before, places))
    same: NDArray[np.bool_] = (np.asarray(now)[rows] == np.asarray(before)[places]).all(axis=1)
    return same

"""Hostile arrays: arrays of an index altered in many ways, the index asked, and what came of it.

The index is small and of all four methods, but has the sketches and links that large ones have. In a child,
an array of an opened generation is replaced in memory, so that no checksum is in the way. Methods that
read it are asked, with and without a filter. In a child of its own a document is put into a copy, and another
is deleted, so that updates meet what a question would name. Another answer without an error is what only a
checksum can notice.
"""

from __future__ import annotations

import copy
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import stratagraph as sg
from stratagraph.ingest import nearest
from stratagraph.kernels import chnsw_options, topk
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents
from tests.campaigns.trials import Tally, record, tried

METHODS = ("archrag", "noderag", "hirag", "lshtree")
SHARED = ("graph", "corpus")
QUESTIONS = (
    "Which lantern hangs in the harbour of Note 8?",
    "What do the orchard and the theatre have in common with Note 2 and the timetabel?",
)
FILTER = {"number": {"$lt": 40}}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "archrag": [{}, {"view": "chunks"}, {"where": FILTER}],
    "noderag": [{}, {"view": "chunks"}, {"where": FILTER}, {"mode": "entry"}, {"semantic_edges": False}],
    "hirag": [{}, {"view": "chunks"}, {"where": FILTER}, {"mode": "bridge"}],
    "lshtree": [{}, {"view": "chunks"}, {"where": FILTER}, {"mode": "per_level"}],
}
NAMED = (
    ("graph", "walk.indices", "one greatest"),
    ("graph", "tables.relations.source", "one greatest"),
    ("graph", "tables.terms.starts", "64 bits"),
    ("graph", "tables.strings.starts", "one row fewer"),
    ("graph", "walk.indptr", "one -1 or NaN"),
    ("graph", "names.distinct_lengths", "all least"),
    ("noderag", "walk.indptr", "64 bits"),
    ("noderag", "walk.indices", "one -1 or NaN"),
    ("hirag", "layered.indices", "one greatest"),
    ("hirag", "layered.indptr", "64 bits"),
    ("archrag", "index.layer0.links", "one greatest"),
    ("corpus", "chunk_documents", "one -1 or NaN"),
    ("hirag", "drift", "no rows"),
    ("noderag", "drift", "2-d"),
    ("noderag", "titles.keys", "one row fewer"),
    ("corpus", "chunk_documents", "reversed"),
    ("archrag", "drift", "0-d"),
    ("graph", "units.vectors", "missing"),
    ("hirag", "vectors.keys", "2-d"),
    ("hirag", "clusters.indptr", "one larger"),
)
"""Alterations that must be told as damage of this array; each was once a crash or a wrong answer."""
Array = np.ndarray[Any, Any]
Change = Callable[[Array, np.random.Generator], Array]


@dataclass(frozen=True)
class Alteration:
    part: str
    array: str
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.part}/{self.array}, {self.kind}, seed {self.seed}"


def _flip(array: Array, rng: np.random.Generator) -> Array:
    raw = np.frombuffer(bytearray(array.tobytes()), np.uint8)
    if raw.size:
        raw[rng.integers(raw.size)] ^= np.uint8(1 << int(rng.integers(8)))
    return raw.view(array.dtype).reshape(array.shape)


def _many(array: Array, rng: np.random.Generator) -> Array:
    for _ in range(64):
        array = _flip(array, rng)
    return array


def _put(value: Callable[[np.dtype[Any]], Any]) -> Change:
    def change(array: Array, rng: np.random.Generator) -> Array:
        if array.size:
            array.reshape(-1)[rng.integers(array.size)] = value(array.dtype)
        return array

    return change


def _everywhere(value: Callable[[np.dtype[Any]], Any]) -> Change:
    def change(array: Array, rng: np.random.Generator) -> Array:
        array[...] = value(array.dtype)
        return array

    return change


def _extreme(highest: bool) -> Callable[[np.dtype[Any]], Any]:
    def value(dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "b":
            return highest
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        return limits.max if highest else limits.min

    return value


def _special(real: float, whole: int) -> Callable[[np.dtype[Any]], Any]:
    """A value for floats, and one for the others, wrapped where they cannot hold it."""
    return lambda dtype: real if dtype.kind == "f" else np.array(whole, np.int64).astype(dtype)


CHANGES: dict[str, Change] = {
    "one bit": _flip,
    "64 bits": _many,
    "one least": _put(_extreme(False)),
    "one greatest": _put(_extreme(True)),
    "one -1 or NaN": _put(_special(np.nan, -1)),
    "one infinite": _put(_special(np.inf, 2**31 - 1)),
    "one negative": _put(_special(-1e30, -(2**31))),
    "all least": _everywhere(_extreme(False)),
    "all greatest": _everywhere(_extreme(True)),
    "all -1 or NaN": _everywhere(_special(np.nan, -1)),
    "all 0": _everywhere(_special(0.0, 0)),
    "one larger": lambda array, rng: (array + 1).astype(array.dtype) if array.dtype.kind != "b" else ~array,
    "reversed": lambda array, rng: array[::-1].copy(),
    "shuffled": lambda array, rng: rng.permutation(array),
    "one row fewer": lambda array, rng: array[:-1],
    "no rows": lambda array, rng: array[:0],
    "one row more": lambda array, rng: np.concatenate([array, array[-1:]]) if len(array) else array,
    "twice as long": lambda array, rng: np.concatenate([array, array]),
    "one column fewer": lambda array, rng: array[..., :-1],
    "0-d": lambda array, rng: np.array(0, array.dtype),
    "2-d": lambda array, rng: array[None],
    "flat": lambda array, rng: array.reshape(-1),
    "other dtype": lambda array, rng: array.astype(np.float64 if array.dtype.kind != "f" else np.int32),
    "wider dtype": lambda array, rng: array.astype("i8" if array.dtype.kind in "biu" else "f8"),
    "other byte order": lambda array, rng: array.astype(array.dtype.newbyteorder(">")),
    "text": lambda array, rng: array.astype("U8"),
    "structured": lambda array, rng: np.zeros(len(array), [("a", array.dtype)]),
    "not contiguous": lambda array, rng: np.repeat(array, 2, axis=-1)[..., ::2],
}
KINDS = (*CHANGES, "missing", "swapped")


def like_a_large_index() -> None:
    """Let small sets of vectors have the sketches and links of large ones, for the rest of this process."""
    topk.SCAN_LIMIT = nearest.SCAN_LIMIT = 24  # type: ignore[attr-defined]
    topk.SHORTLIST = 16
    chnsw_options.SCANNED = dict.fromkeys(chnsw_options.SCANNED, 20)


def build(folder: Path) -> dict[str, dict[str, Array]]:
    """An index of 60 documents with every array that there can be; its arrays by part."""
    sg.build_index(
        documents(60),
        method=list(METHODS),
        path=folder,
        llm=CountingModel(),
        embedder=FakeEmbedder(),
        progress=False,
        config={"noderag": {"min_members": 2, "max_community": 20}},
    ).close()
    snapshot = IndexFolder.open(folder).snapshot()
    parts = {
        name: {key: np.asarray(each) for key, each in snapshot.part(name).arrays.items()}
        for name in (*METHODS, "graph")
    }
    parts["corpus"] = {"vectors": snapshot.vectors, "chunk_documents": snapshot.chunk_documents()}
    return parts


def planned(parts: dict[str, dict[str, Array]], seed: int) -> Iterator[Alteration]:
    """Every kind for every array, in turn without end; those that alter nothing are left out."""
    rng = np.random.default_rng(seed)
    for turn in itertools.count():
        each = [
            Alteration(part, name, kind, seed + turn)
            for part, arrays in parts.items()
            for name in arrays
            for kind in KINDS
            if turn == 0 or kind in ("one bit", "64 bits", "shuffled", "swapped", "one -1 or NaN")
        ]
        yield from (
            each[at] for at in rng.permutation(len(each)) if _effective(each[at], parts[each[at].part])
        )


def _effective(item: Alteration, arrays: dict[str, Array]) -> bool:
    after, before = altered(item, arrays), np.array(arrays[item.array])
    return (
        after is None
        or (after.dtype, after.shape) != (before.dtype, before.shape)
        or after.tobytes() != before.tobytes()
    )


def altered(item: Alteration, arrays: dict[str, Array]) -> Array | None:
    if item.kind == "missing":
        return None
    rng = np.random.default_rng([item.seed, list(arrays).index(item.array), KINDS.index(item.kind)])
    if item.kind == "swapped":
        others = [array for name, array in arrays.items() if name != item.array]
        return np.array(others[int(rng.integers(len(others)))])
    return CHANGES[item.kind](np.array(arrays[item.array]), rng)


def install(item: Alteration) -> None:
    """From now on, generations that are opened hold the altered array."""
    opened = IndexFolder.snapshot

    def snapshot(self: IndexFolder) -> Any:
        found = opened(self)
        if getattr(found, "altered", False):  # it is opened once and handed out several times
            return found
        found.altered = True  # type: ignore[attr-defined]
        if item.part == "corpus":
            arrays = {"vectors": found.vectors, "chunk_documents": found.chunk_documents()}
            after = altered(item, arrays)
            if item.array == "vectors":
                found.__class__ = type("Altered", (type(found),), {"vectors": property(lambda _: after)})
            else:
                found.chunk_documents = lambda: after  # type: ignore[method-assign, return-value]
            return found
        part = copy.copy(found.part(item.part))
        arrays = dict(part.arrays)
        after = altered(item, arrays)
        if after is None:
            del arrays[item.array]
        else:
            arrays[item.array] = after
        part.arrays = arrays  # type: ignore[assignment]
        original = found.part
        found.part = lambda name: part if name == item.part else original(name)  # type: ignore[method-assign]
        return found

    IndexFolder.snapshot = snapshot  # type: ignore[method-assign]


def readers(part: str) -> tuple[str, ...]:
    """The methods whose search reads the arrays of a part."""
    return METHODS if part in SHARED else (part,)


def asked(folder: Path, methods: tuple[str, ...]) -> list[Any]:
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        answers: list[Any] = [
            hits(index.retrieve(question, k=6, method=method, **options))
            for method, question in itertools.product(methods, QUESTIONS)
            for options in OPTIONS[method]
        ]
        answers += [hits(index.retrieve(QUESTIONS[0], k=10**9, method=method)) for method in methods]
        return [*answers, json.dumps(index.stats(), default=str)]


def hits(found: sg.Retrieval) -> list[Any]:
    return [[hit.id, round(hit.score, 5), list(hit.sources)] for hit in found.hits]


def used(folder: Path, item: Alteration) -> list[Any]:
    install(item)
    return asked(folder, readers(item.part))


def updated(folder: Path, item: Alteration) -> None:
    """Insert into and delete from a copy of an index with an altered array, without a question before."""
    install(item)
    with tempfile.TemporaryDirectory(prefix="arrays-") as work:
        path = shutil.copytree(folder, Path(work) / "idx")
        with sg.open_index(path, embedder=FakeEmbedder()) as index:
            index.insert([sg.Document("late", "Olaf Strand hung a lantern in the harbour of Note 8.")])
            index.delete([documents(60)[7].id])


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    """Alter one array of an opened index, use the index, and compare what it answers with the original."""
    like_a_large_index()
    base = work / "base"
    parts = build(base)
    right = {part: tried(lambda part=part: asked(base, readers(part))).value for part in parts}
    named = Tally("arrays: damage that must be named")
    for part, array, kind in NAMED:
        item = Alteration(part, array, kind, 0)
        ends = []
        for way in (used, updated):
            outcome = tried(lambda item=item, way=way: way(base, item))
            record(named, outcome, f"{way.__name__}, {item}")
            ends.append(f"{outcome.end} {outcome.message}")
        if not any("Damaged" in end and any(word in end for word in array.split(".")) for end in ends):
            named.note("silent", f"{item}: {'; '.join(ends)}")
    rows = {kind: Tally(f"arrays: {kind}") for kind in KINDS}
    for item in itertools.islice(planned(parts, seed), trials):
        record(rows[item.kind], tried(lambda item=item: updated(base, item)), f"update, {item}")
        outcome = tried(lambda item=item: used(base, item))
        record(rows[item.kind], outcome, str(item))
        if outcome.end == "ok":
            rows[item.kind].outcomes["same" if outcome.value == right[item.part] else "different"] += 1

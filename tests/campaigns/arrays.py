"""Hostile arrays: each array of an index altered in many ways, the index asked, and what came of it.

    python -m tests.campaigns.arrays [--count 2500] [--seed 0] [--seconds 5] [--gigabytes 2]

An index is built with all four methods, small, but with the sketches and links that large ones have. Every
alteration gets a process of its own, with bounds on its CPU time and memory. There an array of an opened
generation is replaced in memory (so that no checksum is in the way), and questions are asked of all methods
that read it and of the walk, with and without a filter; if they are answered, a document is put into a copy
that nobody asked before. The outcomes, from bad to good:

crash      the process ended by a signal
hang       it took more CPU time than allowed
memory     it asked for more memory than allowed
foreign    an error that is not one of stratagraph's
different  another answer, and no error: what only a checksum can notice
named      `Damaged`, or another error of stratagraph's
same       the answers of the unaltered index
"""

from __future__ import annotations

import argparse
import collections
import copy
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would not be there after a fork

import numpy as np

import stratagraph as sg
from stratagraph.errors import StratagraphError
from stratagraph.ingest import nearest
from stratagraph.kernels import chnsw, topk
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import limit_memory

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("archrag", "noderag", "hirag", "lshtree")
SHARED = ("graph", "corpus")
OUTCOMES = ("crash", "hang", "memory", "foreign", "different", "named", "same")
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
Array = np.ndarray[Any, Any]
Change = Callable[[Array, np.random.Generator], Array]


@dataclass(frozen=True)
class Alteration:
    """What is done to which array."""

    part: str
    array: str
    kind: str
    seed: int


def altered(array: Array, kind: str, rng: np.random.Generator, others: list[Array]) -> Array | None:
    """The array after an alteration; None where the alteration is to leave it out."""
    if kind == "missing":
        return None
    if kind == "swapped":
        return others[int(rng.integers(len(others)))]
    return CHANGES[kind](np.array(array), rng)


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
    """Let small sets of vectors have the sketches and links of large ones, for the rest of this process.

    So it is for processes that do nothing else: in one that runs other tests, their indexes would have other
    arrays than those that are built in processes of their own.
    """
    topk.SCAN_LIMIT = nearest.SCAN_LIMIT = 24  # type: ignore[attr-defined]
    topk.SHORTLIST = 16
    chnsw.SCANNED = dict.fromkeys(chnsw.SCANNED, 20)


def elsewhere(call: str) -> str:
    """What a call of this module prints in a process of its own: one that works must not be forked."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.campaigns import arrays; arrays.{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{call} failed: {done.stderr}")
    return done.stdout


def build(folder: str) -> None:
    """An index of 60 documents with every array that there can be."""
    from stratagraph.testing.contract import CountingModel, documents

    like_a_large_index()
    index = sg.build_index(
        documents(60),
        method=list(METHODS),
        path=folder,
        llm=CountingModel(),
        embedder=FakeEmbedder(),
        progress=False,
        config={"noderag": {"min_members": 2, "max_community": 20}},
    )
    index.close()


def arrays_of(folder: str) -> dict[str, dict[str, Array]]:
    """The arrays of each part that a search reads."""
    snapshot = IndexFolder.open(Path(folder)).snapshot()
    parts = {name: dict(snapshot.part(name).arrays) for name in (*METHODS, "graph")}
    parts["corpus"] = {"vectors": snapshot.vectors, "chunk_documents": snapshot.chunk_documents()}
    return parts


def planned(parts: dict[str, dict[str, Array]], count: int, seed: int) -> list[Alteration]:
    """Every kind for every array, in turn until there are `count`; those that alter nothing are left out."""
    rng = np.random.default_rng(seed)
    found: list[Alteration] = []
    for turn in itertools.count():
        each = [
            Alteration(part, name, kind, seed + turn)
            for part, arrays in parts.items()
            for name in arrays
            for kind in KINDS
            if turn == 0 or kind in ("one bit", "64 bits", "shuffled", "swapped", "one -1 or NaN")
        ]
        effective = [item for item in each if _effective(item, parts[item.part])]
        found += [effective[at] for at in rng.permutation(len(effective))]
        if len(found) >= count or not effective:
            return found[:count]
    raise AssertionError


def _effective(item: Alteration, arrays: dict[str, Array]) -> bool:
    after = _replacement(item, arrays)
    before = arrays[item.array]
    return (
        after is None
        or (after.dtype, after.shape) != (before.dtype, before.shape)
        or after.tobytes() != before.tobytes()
    )


def _replacement(item: Alteration, arrays: dict[str, Array]) -> Array | None:
    place = list(arrays).index(item.array)
    rng = np.random.default_rng([item.seed, place, KINDS.index(item.kind)])
    others = [array for name, array in arrays.items() if name != item.array]
    return altered(arrays[item.array], item.kind, rng, others)


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
            after = _replacement(item, arrays)
            if item.array == "vectors":
                found.__class__ = type("Altered", (type(found),), {"vectors": property(lambda _: after)})
            else:
                found.chunk_documents = lambda: after  # type: ignore[method-assign, return-value]
            return found
        part = copy.copy(found.part(item.part))
        arrays = dict(part.arrays)
        after = _replacement(item, arrays)
        if after is None:
            del arrays[item.array]
        else:
            arrays[item.array] = after
        part.arrays = arrays  # type: ignore[assignment]
        original = found.part
        found.part = lambda name: part if name == item.part else original(name)  # type: ignore[method-assign]
        return found

    IndexFolder.snapshot = snapshot  # type: ignore[method-assign]


def asked(folder: str, methods: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    """The answers to all questions, and the errors that came in place of some."""
    answers: list[Any] = []
    errors: list[str] = []

    def attempt(work: Callable[[], Any]) -> None:
        try:
            answers.append(work())
        except StratagraphError as error:
            errors.append(f"named {type(error).__name__}: {error}")
        except MemoryError:
            errors.append("memory")
        except Exception as error:
            errors.append(f"foreign {type(error).__name__}: {error}")

    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        for method, question in itertools.product(methods, QUESTIONS):
            for options in OPTIONS[method]:
                attempt(lambda o=options, m=method, q=question: hits(index.retrieve(q, k=6, method=m, **o)))
        for method in methods:
            attempt(lambda m=method: hits(index.retrieve(QUESTIONS[0], k=10**9, method=m)))
        attempt(lambda: json.dumps(index.stats(), default=str))
    return answers, errors


def inserted(folder: str) -> list[str]:
    """The error that comes of an insert into a copy of the folder, if one does."""
    with tempfile.TemporaryDirectory(prefix="arrays-") as work:
        path = shutil.copytree(folder, Path(work) / "idx")
        try:
            with sg.open_index(path, embedder=FakeEmbedder()) as index:
                index.insert([sg.Document("late", "Olaf Strand hung a lantern in the harbour of Note 8.")])
        except StratagraphError as error:
            return [f"named {type(error).__name__}: {error}"]
        except MemoryError:
            return ["memory"]
        except Exception as error:
            return [f"foreign {type(error).__name__} at insert: {error}"]
    return []


def hits(found: sg.Retrieval) -> list[Any]:
    """What an answer is compared by."""
    return [(hit.id, round(hit.score, 5), hit.sources) for hit in found.hits]


def outcome(folder: str, item: Alteration, expected: dict[str, list[Any]]) -> tuple[str, str]:
    """Of one alteration, in this process, which goes on to do nothing else."""
    like_a_large_index()
    install(item)
    methods = METHODS if item.part in SHARED else (item.part,)
    answers, errors = asked(folder, methods)
    errors = errors or inserted(folder)  # where a question is refused, so is an update, by the same check
    for kind in ("memory", "foreign", "named"):
        for error in errors:
            if error.startswith(kind):
                return kind, error.removeprefix(kind).strip()
    return ("same" if answers == expected[",".join(methods)] else "different"), ""


def bounded(work: Callable[[], tuple[str, str]], seconds: float, memory: int) -> tuple[str, str]:
    """`work` in a process of its own; what it returns, or how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        limit_memory(memory)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(round(20 * seconds))
        try:
            told = work()
        except MemoryError:
            told = ("memory", "")
        except BaseException as error:
            told = ("foreign", f"while opening, {type(error).__name__}: {error}")
        os.write(write, json.dumps(told).encode()[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hung = number in (signal.SIGPROF, signal.SIGALRM)
        return ("hang" if hung else "crash"), signal.Signals(number).name
    if not told:
        return "crash", f"exit status {os.WEXITSTATUS(status)}"
    kind, detail = json.loads(told)
    return kind, detail


@dataclass(frozen=True)
class Tried:
    """An alteration and what came of it."""

    alteration: Alteration
    outcome: str
    detail: str

    def __str__(self) -> str:
        each = self.alteration
        return f"{self.outcome}: {each.part}/{each.array}, {each.kind}, seed {each.seed}: {self.detail[:300]}"


def tried(
    folder: str,
    alterations: int | list[Alteration],
    seed: int = 0,
    *,
    seconds: float = 5.0,
    memory: int = 2 << 30,
) -> Iterator[Tried]:
    """What comes of these alterations, or of so many."""
    parts = arrays_of(folder)
    expected = {",".join(each): _sound(folder, each) for each in (METHODS, *((name,) for name in METHODS))}
    if isinstance(alterations, int):
        alterations = planned(parts, alterations, seed)
    for each in alterations:
        yield Tried(each, *bounded(partial(outcome, folder, each, expected), seconds, memory))


@lru_cache
def _sound(folder: str, methods: tuple[str, ...]) -> list[Any]:
    """The answers of the unaltered index, from a process of its own."""
    answers, errors, modules = json.loads(elsewhere(f"tell({folder!r}, {methods!r})"))
    for module in modules:  # once here, and not in every process
        import_module(module)
    if errors:
        raise RuntimeError(f"the unaltered index does not answer: {errors[0]}")
    return _plain(answers)


def tell(folder: str, methods: tuple[str, ...]) -> None:
    """Print answers, errors, and which modules it took."""
    like_a_large_index()
    answers, errors = asked(folder, methods)
    print(
        json.dumps([answers, errors, sorted(name for name in sys.modules if name.startswith("stratagraph"))])
    )


def _plain(answers: list[Any]) -> list[Any]:
    """As JSON gives it back, with tuples for lists of hits."""
    return [
        answer if isinstance(answer, str) else [(i, score, tuple(sources)) for i, score, sources in answer]
        for answer in answers
    ]


def main() -> int:
    """Run, print the table and what was bad; 1 if anything crashed, hung, or was no error of ours."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--log", help="a file for every alteration and its outcome, as lines of JSON")
    given = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as folder, open(given.log or os.devnull, "w") as log:
        elsewhere(f"build({folder!r})")
        memory = int(given.gigabytes * 2**30)
        for each in tried(folder, given.count, given.seed, seconds=given.seconds, memory=memory):
            counts[each.alteration.kind][each.outcome] += 1
            log.write(json.dumps(asdict(each)) + "\n")
            log.flush()
            if each.outcome not in ("named", "same", "different"):
                bad.append(str(each))
    table(counts)
    print("\n".join(bad))
    return 1 if bad else 0


def table(counts: dict[str, collections.Counter[str]]) -> None:
    """Outcomes by kind of alteration."""
    print(f"{'alteration':18}" + "".join(f"{name:>11}" for name in OUTCOMES))
    for kind in sorted(counts, key=KINDS.index):
        print(f"{kind:18}" + "".join(f"{counts[kind][name]:>11}" for name in OUTCOMES))
    total = sum(counts.values(), collections.Counter())
    print(f"{'all ' + format(total.total(), ','):18}" + "".join(f"{total[name]:>11}" for name in OUTCOMES))


if __name__ == "__main__":
    sys.exit(main())

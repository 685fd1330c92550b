"""Whether the walk's settings hold on a corpus that they were not chosen on.

    python cookbook/benchmarks/folds.py FOLDER[:TOKENS] [FOLDER ...] [--work FOLDER] [--combinations N]

Each FOLDER is a corpus with questions (see `stratagraph.eval.load_dataset`), split into passages of TOKENS
tokens if given. An index of each is built in the work folder, or opened if it is there. Recall@5 of the gold
documents, those that are named again left out, is told for BM25, dense, hybrid and the walk, with the walk's
margin over the best of these (95 %, paired bootstrap over questions) and that on four random halves of the
questions. Then settings are varied, one at a time and in random combinations, and chosen by the mean over all
corpora but one, and measured on that one; the same corpus in other passages is left out with it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import stratagraph as sg
from stratagraph.eval import load_dataset, paired_difference
from stratagraph.eval.datasets import Question as Asked
from stratagraph.search import walk

Settings = Mapping[str, float]
PLAIN = ("bm25", "dense", "hybrid")
K = 5
DEPTH = 60
"""Passages ranked, so that five documents are among them."""
VARIED: dict[str, tuple[float, ...]] = {
    "RESTART": (0.15, 0.25, 0.5),
    "STEPS": (2, 3),
    "SIMILAR_SHARE": (0.04, 0.08, 0.12),
    "SIMILAR_POWER": (1, 4, 12),
    "LEXICAL_POWER": (1, 2, 6),
    "BOOST_POWER": (1, 4),
    "LEXICAL_SHARE": (0, 0.2, 0.3),
    "LEXICAL_BOOST": (0, 3, 10),
    "HALVING_NAMES": (0.05, 0.2, 1e9),
    "USUAL_WORDS": (6, 10),
    "NEAR_SHARE": (0, 1),
}
"""Values of each setting. Some switch off what it sets: a power of 1, a share of 0."""
DEFAULTS: Settings = {name: getattr(walk, name) for name in VARIED}


@dataclass(frozen=True)
class Corpus:
    """A corpus, opened, with all that its questions need."""

    name: str
    family: str
    walk: walk.PassageWalk
    documents: NDArray[np.int32]
    asked: Sequence[tuple[str, NDArray[np.float32], frozenset[int]]]

    def recalls(self, rank: str = "walk") -> NDArray[np.float64]:
        """Recall@5 of each question."""
        return np.array([self._recall(rank, *each) for each in self.asked])

    def _recall(self, rank: str, text: str, vector: NDArray[np.float32], gold: frozenset[int]) -> float:
        rows = self.walk.rank(text, vector, DEPTH, rank=rank).rows
        found = list(dict.fromkeys(self.documents[rows].tolist()))[:K]
        return len(gold.intersection(found)) / len(gold)


def opened(given: str, work: Path) -> Corpus:
    """The corpus of a folder, indexed for the walk."""
    folder, _, tokens = given.partition(":")
    data = load_dataset(folder)
    name = data.name + (f"-{tokens}" if tokens else "")
    path = work / f"idx-{name}"
    if path.exists():
        index = sg.open_index(path)
    else:
        config = {"chunking": {"size": int(tokens), "overlap": int(tokens) // 6}} if tokens else None
        index = sg.build_index(data.documents, path=path, config=config)
    reader = index._reader  # the parts have no public names
    snapshot = reader.snapshot
    places = {name: at for at, name in enumerate(snapshot.document_ids(range(snapshot.document_count)))}
    embedder = index._models.embedder

    def prepared(asked: Asked) -> tuple[str, NDArray[np.float32], frozenset[int]]:
        vector = np.asarray(embedder.embed_query(asked.question), np.float32)
        gold = frozenset(places.get(each, -1 - at) for at, each in enumerate(asked.supporting_ids))
        return asked.question, vector, gold

    questions = [prepared(each) for each in data.questions if each.supporting_ids]
    return Corpus(name, data.name, reader._walk, snapshot.chunk_documents(), questions)


@contextmanager
def changed(settings: Settings) -> Iterator[None]:
    """The walk with other settings."""
    for name, value in settings.items():
        setattr(walk, name, value)
    try:
        yield
    finally:
        for name, value in DEFAULTS.items():
            setattr(walk, name, value)


def candidates(combinations: int) -> list[Settings]:
    """The defaults, each setting varied alone, and random combinations."""
    alone = [{name: value} for name, values in VARIED.items() for value in values]
    rng = random.Random(0)
    mixed = [{name: rng.choice(values) for name, values in VARIED.items()} for _ in range(combinations)]
    found = [dict(DEFAULTS) | each for each in ({}, *alone, *mixed)]
    return list({tuple(sorted(each.items())): each for each in found}.values())


def margins(corpora: Sequence[Corpus]) -> None:
    """The table of what is measured with the defaults."""
    print(f"{'recall@5':22}{'bm25':>7}{'dense':>7}{'hybrid':>7}{'walk':>7}  margin over the best, on halves")
    means = []
    for corpus in corpora:
        plain = {rank: corpus.recalls(rank) for rank in PLAIN}
        own = corpus.recalls()
        best = max(plain.values(), key=lambda scores: float(scores.mean()))
        margin = paired_difference(own.tolist(), best.tolist())
        assert margin is not None
        halves = [
            own[half].mean() - max(scores[half].mean() for scores in plain.values())
            for half in halved(len(own))
        ]
        shown = "".join(f"{scores.mean():7.3f}" for scores in (*plain.values(), own))
        interval = f"{margin.mean:+.3f} [{margin.low:+.3f}, {margin.high:+.3f}]"
        parts = " ".join(f"{half:+.3f}" for half in halves)
        print(f"{corpus.name:22}{shown}  {interval}  {parts}", flush=True)
        means.append([*(scores.mean() for scores in plain.values()), own.mean()])
    firsts = [corpora.index(next(c for c in corpora if c.family == family)) for family in families(corpora)]
    print(f"{'mean of the corpora':22}" + "".join(f"{each:7.3f}" for each in np.array(means)[firsts].mean(0)))


def families(corpora: Sequence[Corpus]) -> list[str]:
    """The distinct corpora, whatever their passages."""
    return list(dict.fromkeys(corpus.family for corpus in corpora))


def halved(count: int) -> Iterator[NDArray[np.int64]]:
    """Four halves: two random splits."""
    for split in range(2):
        order = np.random.default_rng(split).permutation(count)
        yield order[: count // 2]
        yield order[count // 2 :]


def leaving_out(corpora: Sequence[Corpus], combinations: int) -> None:
    """Vary each setting, choose without each corpus, and measure on it."""
    tried = candidates(combinations)
    scores = np.zeros((len(tried), len(corpora)))
    print("\nrecall@5 with another setting, less that with the defaults")
    for row, settings in enumerate(tried):
        with changed(settings):
            scores[row] = [corpus.recalls().mean() for corpus in corpora]
        other = {name: value for name, value in settings.items() if value != DEFAULTS[name]}
        if len(other) == 1:
            ((name, value),) = other.items()
            gains = scores[row] - scores[0]
            told = " ".join(f"{gain:+.3f}" for gain in gains)
            print(f"  {name:14}{value:>6g}  {told}  mean {gains.mean():+.4f}", flush=True)
    by_family = {
        family: scores[:, [corpus.family == family for corpus in corpora]].mean(axis=1)
        for family in families(corpora)
    }
    print(f"\n{len(tried)} settings; chosen without each corpus, and measured on it:")
    held = []
    for family in by_family:
        rest = np.mean([means for other, means in by_family.items() if other != family], axis=0)
        chosen = int(np.argmax(rest))
        own = [at for at, corpus in enumerate(corpora) if corpus.family == family]
        cells = ", ".join(f"{corpora[at].name} {scores[chosen, at]:.3f}" for at in own)
        other = {name: value for name, value in tried[chosen].items() if value != DEFAULTS[name]}
        settings = ", ".join(f"{name} {value:g}" for name, value in other.items()) or "the defaults"
        usual = ", ".join(f"{scores[0, at]:.3f}" for at in own)
        best = scores[:, own[0]].max()
        print(f"  {cells} (defaults {usual}; best {best:.3f}): {settings}", flush=True)
        held.append(scores[chosen, own[0]])
    print(f"  mean {np.mean(held):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:TOKENS]")
    parser.add_argument("--work", type=Path, default=Path("folds"), help="keeps the indexes")
    parser.add_argument("--combinations", type=int, default=60, help="random ones, beside each alone")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    corpora = [opened(folder, given.work) for folder in given.folders]
    margins(corpora)
    leaving_out(corpora, given.combinations)


if __name__ == "__main__":
    main()

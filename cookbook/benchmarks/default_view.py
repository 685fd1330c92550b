"""What passages, a method's nodes and both together are worth in a context of so many tokens.

    python cookbook/benchmarks/default_view.py DATA_FOLDER NAME[:FILE] ... --indexes FOLDER [--questions 120]

Each name is `demo`, or a folder with `corpus.jsonl` and `questions.jsonl`, with a FILE in it of given
entities and triples (`musique_train100:openie.jsonl`) or none. Indexes of all methods are built in FOLDER
once and opened after that; scores are kept there too, so that data sets can be measured one by one (`--again`
measures anew).

Printed for each: answer-in-context and gold coverage of dense, BM25, their fusion, the walk, the method's own
ranking, its default view, and its own nodes among several shares of passages. Gold coverage is the part of
the gold documents that some hit in the context rests on; a hit of more than three passages covers none. Then,
for each method, the share that is best on the other data sets, with what it gives on the one left out; and
the default's margins over the three plain rankings, with 95 % intervals.
"""

import argparse
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval.datasets import load_dataset
from stratagraph.eval.metrics import contains_answer, context_of, is_yes_no, paired_difference
from stratagraph.methods import NAMES
from stratagraph.operations.hits import grouped
from stratagraph.text.tokens import choose

BUDGETS = (500, 1000, 2000)
SHARES = (0.25, 0.35, 0.5, 0.65, 0.75)
"""Of passages, such that four hits hold one of them and one node of the method."""
PLAIN = ("dense", "bm25", "hybrid")
DEEP = 60
FOCUSED = 3
MEASURES = tuple(f"{what} {budget}" for budget in BUDGETS for what in ("answer", "gold"))

count = choose(None)


@dataclass(frozen=True)
class Asked:
    """A question with its rankings by name, each a list of hits, best first."""

    answers: tuple[str, ...]
    gold: frozenset[str]
    rankings: dict[str, list[sg.Hit]]

    def scores(self, hits: list[sg.Hit]) -> list[float]:
        """One number for each of `MEASURES`; yes and no, which any text contains, are none."""
        texts = [hit.text for hit in hits]
        found = []
        for budget in BUDGETS:
            answer = float("nan")
            if self.answers and not is_yes_no(self.answers):
                answer = float(contains_answer(context_of(texts, budget, count), self.answers))
            whole = [hit for hit in hits[: fitting(texts, budget, count)] if len(hit.sources) <= FOCUSED]
            covered = self.gold & {name for hit in whole for name in hit.documents}
            found += [answer, len(covered) / len(self.gold)]
        return found


def fitting(texts: list[str], budget: int, count) -> int:
    """Number of texts, best first, that fit a token budget in full; a repeated text costs nothing."""
    costs = [0 if text in texts[:at] else count(text) for at, text in enumerate(texts)]
    return next((at for at in range(len(texts)) if sum(costs[: at + 1]) > budget), len(texts))


def turns(passages: list[sg.Hit], nodes: list[sg.Hit], share: float) -> list[sg.Hit]:
    """Both by the share of passages, as by default; what only repeats another hit becomes part of it."""
    places = [((1 + at) / share, 0, at) for at in range(len(passages))]
    places += [((1 + at) / (1 - share), 1, at) for at in range(len(nodes))]
    hits = [(passages, nodes)[which][at] for _, which, at in sorted(places)]
    return [hits[group[0]] for group in grouped(hits)]


def asked(index: sg.Index, question) -> Asked:
    ask = partial(index.retrieve, question.question, DEEP)
    rankings = {name: list(ask(method="walk", rank=name)) for name in (*PLAIN, "walk")}
    for name in NAMES:
        rankings[f"{name} nodes"] = list(ask(method=name, fill=False))
        rankings[f"{name} default"] = list(ask(method=name))
        own = [hit for hit in rankings[f"{name} nodes"] if hit.kind != "chunk"]
        for share in SHARES:
            rankings[f"{name} {share:g}"] = turns(rankings["walk"], own, share)
    return Asked(tuple(question.answers), frozenset(question.supporting_ids), rankings)


def kept(folder: Path, name: str, indexes: Path, most: int, again: bool) -> dict[str, np.ndarray]:
    """Scores by ranking, each of shape (questions, measures); those of an earlier run, if there are any."""
    place = indexes / name.partition(":")[0]
    place = place.with_name(f"{place.name}-given") if ":" in name else place
    scores = place.with_name(f"{place.name}.scores.npz")
    if again or not scores.exists():
        np.savez(scores, **measured(folder, name, place, most))
    with np.load(scores) as stored:
        return dict(stored)


def measured(folder: Path, name: str, place: Path, most: int) -> dict[str, np.ndarray]:
    """The same, over the index at a place, which is built if it is not there."""
    corpus, _, extraction = name.partition(":")
    given = {"extraction": folder / corpus / extraction} if extraction else {}
    data = load_dataset(corpus if corpus == "demo" else folder / corpus, **given)
    if place.exists():
        index = sg.open_index(place)
    else:
        triples = {"extraction": data.extractions} if given else {}
        index = sg.build_index(data.documents, list(NAMES), path=place, progress=False, **triples)
    there = set(index.chunks())
    questions = [q for q in data.questions if q.supporting_ids and there.issuperset(q.supporting_ids)]
    questions = sorted(random.Random(0).sample(questions, min(most, len(questions))), key=lambda q: q.id)
    found = [asked(index, question) for question in questions]
    index.close()
    return {each: np.array([one.scores(one.rankings[each]) for one in found]) for each in found[0].rankings}


def best_share(tables: list[dict[str, np.ndarray]], method: str) -> float:
    """The share whose means, over all measures and data sets, are best; of equals the lower."""
    means = []
    for share in SHARES:
        own = [np.nanmean(table[f"{method} {share:g}"], axis=0) for table in tables]
        means.append(np.mean(own))
    return SHARES[int(np.argmax(np.round(means, 4)))]


def margin(ours: np.ndarray, other: np.ndarray) -> str:
    """Means of the differences, with intervals, one for each measure."""
    told = []
    for place in range(len(MEASURES)):
        columns = [[None if np.isnan(x) else float(x) for x in table[:, place]] for table in (ours, other)]
        found = paired_difference(*columns)
        told.append("" if found is None else f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
    return " | ".join(told)


def row(name: str, table: np.ndarray) -> str:
    return f"| {name} | " + " | ".join(f"{value:.3f}" for value in np.nanmean(table, axis=0)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--indexes", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    tables = {
        name: kept(given.folder, name, given.indexes, given.questions, given.again) for name in given.names
    }
    for name, table in tables.items():
        print(f"\n{name}, {len(table['dense'])} questions\n\n| ranking | {' | '.join(MEASURES)} |")
        print("|---" * (1 + len(MEASURES)) + "|")
        for each, scores in table.items():
            print(row(each, scores))
    print("\n| method | left out | chosen on the others |", " | ".join(MEASURES), "|")
    print("|---" * (3 + len(MEASURES)) + "|")
    for method in NAMES:
        for name, table in tables.items():
            corpus = name.partition(":")[0]
            others = [each for other, each in tables.items() if other.partition(":")[0] != corpus]
            share = best_share(others or [table], method)
            print(f"| {method} | {name} " + row(f"{share:g}", table[f"{method} {share:g}"]))
        print(f"| {method} | none | {best_share(list(tables.values()), method):g} |")
    print("\n| default of | on | over |", " | ".join(MEASURES), "|")
    print("|---" * (3 + len(MEASURES)) + "|")
    for method in NAMES:
        for name, table in tables.items():
            for plain in PLAIN:
                print(f"| {method} | {name} | {plain} | {margin(table[f'{method} default'], table[plain])} |")


if __name__ == "__main__":
    main()

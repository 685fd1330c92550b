"""How well "nothing answers this" is told from questions that are answered, by the words that hits have.

    python cookbook/benchmarks/unanswerable.py DATA_FOLDER NAME NAME ... [--hashed]

Each named folder has `corpus.jsonl` and `questions.jsonl`; a question without `supporting_ids` cannot be
answered from its corpus. Questions of the other folders, 40 of each, are foreign to it. Printed for each:
the share of its questions that are refused wrongly, and of those that cannot be answered and of foreign ones
that are not refused; first with the thresholds in force, then with those chosen on the other folders alone.
"""

import argparse
import random
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval.datasets import load_dataset
from stratagraph.models.local import HashingEmbedder
from stratagraph.pipeline import evidence

GRID = [
    (words, names, together)
    for words in (0.0, 0.15, 0.25, 0.34, 0.4, 0.5)
    for names in (0.0, 0.34, 0.5, 0.67)
    for together in (0.0, 0.15, 0.2, 0.25)
]
FALSE_REFUSAL = 2  # how much worse it is than an answer from what does not answer
FOREIGN = 40
K = 8

# Kind of a question (answerable, unanswerable, foreign), the shares of its words and names in the hits, and
# of its words in one sentence.
Row = tuple[str, float, float, float]
Least = tuple[float, float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--hashed", action="store_true", help="by hashed words, which cost less than MiniLM")
    given = parser.parse_args()
    embedder = HashingEmbedder() if given.hashed else None
    data = {name: load_dataset(given.folder / name) for name in given.names}
    rows = {name: measured(data, name, embedder) for name in data}
    for name, own in rows.items():
        show(name, "in force", own, (evidence.LEAST_WORDS, evidence.LEAST_NAMES, evidence.LEAST_TOGETHER))
        others = [each for other, each in rows.items() if other != name]
        if others:
            show(
                name, "left out", own, min(GRID, key=lambda least: sum(loss(each, least) for each in others))
            )


def measured(data, name: str, embedder) -> list[Row]:
    """The shares for the questions of a corpus and for foreign ones."""
    index = sg.build_index(data[name].documents, "lshtree", embedder=embedder, progress=False)
    own = [("answerable" if q.supporting_ids else "unanswerable", q.question) for q in data[name].questions]
    pick = random.Random(0)
    for other in data:
        if other != name:
            questions = [each.question for each in data[other].questions if each.supporting_ids]
            own += [("foreign", q) for q in pick.sample(questions, min(FOREIGN, len(questions)))]
    found = []
    for kind, question in own:
        hits = index.retrieve(question, k=K, view="chunks").hits
        texts = [hit.text for hit in hits if hit.score > 0]
        found.append((kind, *evidence.shares(question, texts), evidence.together(question, texts)))
    index.close()
    return found


def refused(rows: list[Row], kind: str, least: Least) -> float:
    """The share of the questions of a kind that are refused; not a number where there are none."""
    told = [any(x < y for x, y in zip(shares, least, strict=True)) for own, *shares in rows if own == kind]
    return float(np.mean(told)) if told else float("nan")


def loss(rows: list[Row], least: Least) -> float:
    return FALSE_REFUSAL * refused(rows, "answerable", least) + 1 - refused(rows, "foreign", least)


def show(name: str, how: str, rows: list[Row], least: Least) -> None:
    wrongly = refused(rows, "answerable", least)
    passed = [1 - refused(rows, kind, least) for kind in ("unanswerable", "foreign")]
    print(
        f"{name:20} {how} (words {least[0]:.2f}, names {least[1]:.2f}, together {least[2]:.2f}): "
        f"refused wrongly {wrongly:.3f}, "
        f"not refused: unanswerable {passed[0]:.3f}, foreign {passed[1]:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()

"""What contexts hold of the facts that an answer should name, by the share of passages in each method's view.

    python cookbook/benchmarks/nuggets.py INDEX NUGGETS [--hits N]

INDEX is an index of the demo's documents, with groups that a model wrote; NUGGETS is a file of
`{question id: {"question": str, "nuggets": [{"keys": [str, ...]}, ...]}}`. A context holds a fact if all of
its keys stand within 60 words of one of its blocks, which a list of names cannot reach.

Printed for dense passages, the walk, and each method at several shares of passages: facts held, and how many
of the demo's factual questions have their answer in the context, in 1,000, 2,000 and 4,000 tokens. Then, for
each method, the share that is best on the other questions, one question left out at a time.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph import demo
from stratagraph.eval.metrics import contains_answer
from stratagraph.methods import NAMES, get_method

BUDGETS = (1000, 2000, 4000)
SHARES = (0.25, 0.35, 0.5, 0.65, 0.75)
"""Of passages, such that four hits hold one of them and one node of the method."""
WINDOW = 60


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.lower().replace("\u2019", "'")).strip()


def windows(context: str) -> Iterator[str]:
    """Stretches of 60 words. Each overlaps half of the one before; none crosses an empty line."""
    for block in re.split(r"\n\s*\n", context):
        words = block.split()
        for start in range(0, max(len(words) - WINDOW // 2, 1), WINDOW // 2):
            yield plain(" ".join(words[start : start + WINDOW]))


def held(context: str, nuggets: list[dict]) -> float:
    stretches = list(windows(context))
    keys = [[plain(key) for key in each["keys"]] for each in nuggets]
    return float(np.mean([any(all(key in text for key in own) for text in stretches) for own in keys]))


def scores(index: sg.Index, broad: dict, hits: int | None, **ask) -> tuple[np.ndarray, np.ndarray]:
    """Shares of facts, of shape (broad questions, budgets), and answers, of shape (factual ones, budgets)."""

    def contexts(question: str) -> list[str]:
        found = index.retrieve(question, k=hits or index.answer_k(ask["method"]), **ask)
        return [str(found.context(budget)) for budget in BUDGETS]

    facts = [[held(text, each["nuggets"]) for text in contexts(each["question"])] for each in broad.values()]
    factual = [each for each in demo.questions() if each.answers and each.id not in broad]
    answers = [[contains_answer(text, each.answers) for text in contexts(each.question)] for each in factual]
    return np.array(facts), np.array(answers, float)


def row(name: str, facts: np.ndarray, answers: np.ndarray) -> str:
    means = [*facts.mean(axis=0), *answers.mean(axis=0)]
    return f"| {name} | " + " | ".join(f"{value:.3f}" for value in means) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index", type=Path)
    parser.add_argument("nuggets", type=Path)
    parser.add_argument("--hits", type=int, help="default: as many as answers are made from")
    given = parser.parse_args()
    index = sg.open_index(given.index)
    broad = json.loads(given.nuggets.read_text())
    heads = [f"{what} {budget}" for what in ("facts", "answers") for budget in BUDGETS]
    print(f"| view | {' | '.join(heads)} |\n|---" + "|---" * len(heads) + "|")
    for rank in ("dense", "walk"):
        print(row(rank, *scores(index, broad, given.hits, method="walk", rank=rank)))
    chosen = []
    for name in NAMES:
        method, tables = get_method(name), {}
        usual = method.passages
        for share in SHARES:
            object.__setattr__(method, "passages", (share, share))
            tables[share] = scores(index, broad, given.hits, method=name)
            print(row(f"{name} {share:g}", *tables[share]), flush=True)
        object.__setattr__(method, "passages", usual)
        print(row(f"{name} alone", *scores(index, broad, given.hits, method=name, fill=False)), flush=True)
        chosen.append(left_out(name, tables))
    print("\n| method | best share without each question |", " | ".join(heads[:3]), "of the one left out |")
    print("|---" * (2 + len(BUDGETS)) + "|")
    print("\n".join(chosen))


def left_out(name: str, tables: dict[float, tuple[np.ndarray, np.ndarray]]) -> str:
    """The best share for the other broad questions and all factual ones; the facts of the one left out."""
    shares, found = [], []
    for at in range(len(next(iter(tables.values()))[0])):
        means = {
            share: np.delete(facts, at, axis=0).mean() + answers.mean()
            for share, (facts, answers) in tables.items()
        }
        shares.append(max(means, key=means.__getitem__))
        found.append(tables[shares[-1]][0][at])
    return (
        f"| {name} | {' '.join(f'{share:g}' for share in shares)} | "
        + " | ".join(f"{x:.3f}" for x in np.mean(found, axis=0))
        + " |"
    )


if __name__ == "__main__":
    main()

"""What contexts hold of the facts that an answer should name, by what each method's results consist of.

    python cookbook/benchmarks/nuggets.py INDEX NUGGETS [--hits N]

INDEX is an index of the demo's documents, with groups that a model wrote; NUGGETS is a file of
`{question id: {"question": str, "nuggets": [{"keys": [str, ...]}, ...]}}`. A context holds a fact if all of
its keys stand within 60 words of one of its blocks, which a list of names cannot reach.

Printed for dense passages, the walk, and each method as it is, with several shares of passages, and with one
kind of its nodes after one passage for themes: facts held, and how many of the demo's factual questions have
their answer in the context, in 1,000, 2,000 and 4,000 tokens. Then, for each method, what is best on the
other questions, one question left out at a time; and how many of the facts all nodes of a kind hold together.
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
from stratagraph.text.tokens import TokenEstimate

BUDGETS = (1000, 2000, 4000)
SHARES = (0.25, 0.35, 0.5, 0.65, 0.75)
"""Of passages, such that four hits hold one of them and one node of the method."""
FILLING = {"noderag": "HAST", "hirag": ("global", "local", "bridge"), "archrag": (), "lshtree": ()}
"""Kinds of nodes that may fill the results of a theme."""
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
        usual = {each: getattr(method, each) for each in ("passages", "themes")}
        ways = {f"{share:g}": {"passages": share, "themes": {}} for share in SHARES}
        ways |= {f"{kind} fills": {"themes": {kind: 1.0}} for kind in FILLING[name]}
        print(row(name, *scores(index, broad, given.hits, method=name)), flush=True)
        for way, settings in ways.items():
            for each, value in {**usual, **settings}.items():
                object.__setattr__(method, each, value)
            tables[way] = scores(index, broad, given.hits, method=name)
            print(row(f"{name} {way}", *tables[way]), flush=True)
        for each, value in usual.items():
            object.__setattr__(method, each, value)
        print(row(f"{name} alone", *scores(index, broad, given.hits, method=name, fill=False)), flush=True)
        chosen.append(left_out(name, tables))
    print("\n| nodes | facts that they hold together | tokens |\n|---|---|---|")
    for name in NAMES:
        texts: dict[str, list[str]] = {}
        for node in index.nodes(name):
            texts.setdefault(f"{name} {node.kind}", []).append(node.text)
        for kind, own in texts.items():
            text = "\n\n".join(own)
            together = np.mean([held(text, each["nuggets"]) for each in broad.values()])
            print(f"| {kind} | {together:.3f} | {TokenEstimate()(text)} |")
    print("\n| method | best without each question |", " | ".join(heads[:3]), "of the one left out |")
    print("|---" * (2 + len(BUDGETS)) + "|")
    print("\n".join(chosen))


def left_out(name: str, tables: dict[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """The best for the other broad questions and all factual ones; the facts of the one left out."""
    ways, found = [], []
    for at in range(len(next(iter(tables.values()))[0])):
        means = {
            way: np.delete(facts, at, axis=0).mean() + answers.mean()
            for way, (facts, answers) in tables.items()
        }
        ways.append(max(means, key=means.__getitem__))
        found.append(tables[ways[-1]][0][at])
    return f"| {name} | {', '.join(ways)} | " + " | ".join(f"{x:.3f}" for x in np.mean(found, axis=0)) + " |"


if __name__ == "__main__":
    main()

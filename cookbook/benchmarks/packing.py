"""What contexts under a budget hold: whole hits, and hits packed by sentences, with settings left out.

    python cookbook/benchmarks/packing.py DATA_FOLDER NAME NAME ... [--questions 150] [--indexes FOLDER]

NAME is a folder with `corpus.jsonl` and `questions.jsonl`, or `demo`. Each is built as the walk over MiniLM's
vectors, or opened where FOLDER holds it. Printed for each: the share of questions of which a gold answer
stands in 500, 1,000 and 2,000 tokens, those with yes or no left out; of whole hits, the last one cut; of 20
hits packed with the settings in force; and packed with those that are best on the other corpora. Then the
milliseconds of CPU that packing 20 hits takes.
"""

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval.datasets import load_dataset
from stratagraph.eval.metrics import contains_answer, context_of, is_yes_no
from stratagraph.text import packing as _packing

BUDGETS = (500, 1000, 2000)
HITS, DEEP = 20, 60
VARIED = {
    "LINK": (0.2, 0.5),
    "FIRST": (0.0, 0.2),
    "SIMILAR": (0.0, 0.8),
    "RANK": (0.4, 1.0),
    "SHORT": (0, 160),
}
Settings = Mapping[str, float]
DEFAULTS: Settings = {name: getattr(_packing, name) for name in VARIED}
Found = Sequence[tuple[sg.Retrieval, Sequence[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--indexes", type=Path, help="where indexes are kept from one run to the next")
    given = parser.parse_args()
    found = {name: retrieved(name, given.folder, given.indexes, given.questions) for name in given.names}
    tried = [DEFAULTS, *({**DEFAULTS, name: value} for name, values in VARIED.items() for value in values)]
    held = {name: [packed(own, each) for each in tried] for name, own in found.items()}
    for name, own in found.items():
        show(name, "whole hits", whole(own))
        show(name, "packed", held[name][0])
        others = [shares for other, shares in held.items() if other != name]
        if others:
            best = int(
                np.argmax(np.mean([[each[:2].mean() for each in shares] for shares in others], axis=0))
            )
            changed = {key: value for key, value in tried[best].items() if value != DEFAULTS[key]}
            show(name, f"packed, chosen on the others ({changed or 'as in force'})", held[name][best])
        print(f"{name:20} packing: {milliseconds(own):.1f} ms", flush=True)


def retrieved(name: str, folder: Path, indexes: Path | None, most: int) -> Found:
    """Retrievals of the questions with an answer, and their answers."""
    data = load_dataset(name if name == "demo" else folder / name)
    place = indexes and indexes / name
    index = (
        sg.open_index(place)
        if place is not None and place.exists()
        else sg.build_index(data.documents, path=place, progress=False)
    )
    asked = [each for each in data.questions if each.answers and not is_yes_no(each.answers)]
    asked = [each for each in asked if each.type != "theme"]
    asked = random.Random(0).sample(asked, min(most, len(asked)))
    with index:
        return [(index.retrieve(each.question, k=DEEP), each.answers) for each in asked]


def whole(found: Found) -> np.ndarray:
    """By budget, the share of contexts of whole hits that hold an answer."""
    return np.array(
        [
            np.mean(
                [
                    contains_answer(
                        context_of([hit.text for hit in each], budget, each.count_tokens), answers
                    )
                    for each, answers in found
                ]
            )
            for budget in BUDGETS
        ]
    )


def packed(found: Found, settings: Settings) -> np.ndarray:
    """The same of packed hits."""
    with changed_to(settings):
        return np.array(
            [
                np.mean(
                    [
                        contains_answer(each.with_hits(each.hits[:HITS]).context(budget).text, answers)
                        for each, answers in found
                    ]
                )
                for budget in BUDGETS
            ]
        )


@contextmanager
def changed_to(settings: Settings) -> Iterator[None]:
    """Packing with other settings."""
    for name, value in settings.items():
        setattr(_packing, name, value)
    try:
        yield
    finally:
        for name, value in DEFAULTS.items():
            setattr(_packing, name, value)


def milliseconds(found: Found) -> float:
    """The median CPU time of a context of 1,000 tokens."""
    times = []
    for each, _ in found[:50]:
        few = each.with_hits(each.hits[:HITS])
        began = time.process_time()
        few.context(1000)
        times.append(1000 * (time.process_time() - began))
    return float(np.median(times))


def show(name: str, how: str, shares: np.ndarray) -> None:
    print(f"{name:20} {how}: {', '.join(f'{each:.3f}' for each in shares)}", flush=True)


if __name__ == "__main__":
    main()

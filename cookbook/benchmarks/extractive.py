"""How many answers without a model hold the gold answer, and how many questions without one they refuse.

    python cookbook/benchmarks/extractive.py DATA_FOLDER NAME NAME ... [--questions 60] [--indexes FOLDER]

NAME is a folder with `corpus.jsonl` and `questions.jsonl`, or `demo`. Each is indexed for the walk, by the
local embedder, or opened where FOLDER holds it already. Questions whose answer is yes or no, and themes, are
left out. Printed: the share of answers that hold the gold answer, that share of what the hits hold, words of
an answer, and the share of questions without gold documents that are refused.
"""

import argparse
import random
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval.datasets import load_dataset
from stratagraph.eval.metrics import contains_answer, is_yes_no
from stratagraph.types.results import NOTHING_FOUND


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--indexes", type=Path, help="where indexes are kept from one run to the next")
    given = parser.parse_args()
    for name in given.names:
        data = load_dataset(name if name == "demo" else given.folder / name)
        with opened(data, given.indexes and given.indexes / name) as index:
            show(name, index, data.questions, given.questions)


def opened(data, place: Path | None) -> sg.Index:
    if place is not None and place.exists():
        return sg.open_index(place)
    return sg.build_index(data.documents, path=place, progress=False)


def show(name: str, index: sg.Index, questions, most: int) -> None:
    shuffled = random.Random(1).sample(questions, len(questions))
    told = [q for q in shuffled if q.supporting_ids and q.answers and not is_yes_no(q.answers)]
    rows = [answered(index, q) for q in told if q.type != "theme"][:most]
    unknown = [q.question for q in shuffled if not q.supporting_ids][:most]
    refused = [index.answer(each, method="walk").text == NOTHING_FOUND for each in unknown]
    held, there, words = np.mean(rows, axis=0)
    share = np.mean(refused) if refused else float("nan")
    print(
        f"{name:20} {len(rows)} questions: gold answer in {held:.3f} of the answers ({there:.3f} in the "
        f"hits), {words:.0f} words; {share:.2f} of {len(refused)} refused",
        flush=True,
    )


def answered(index: sg.Index, question) -> tuple[bool, bool, int]:
    answer = index.answer(question.question, method="walk")
    hits = " ".join(hit.text for hit in answer.retrieval)
    return (
        contains_answer(answer.text, question.answers),
        contains_answer(hits, question.answers),
        len(answer.text.split()),
    )


if __name__ == "__main__":
    main()

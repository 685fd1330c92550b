"""How well answers without a model refuse what a corpus does not speak of.

    python cookbook/benchmarks/unanswerable.py DATA_FOLDER NAME NAME ... [--questions 120]

NAME is a folder with `corpus.jsonl` and `questions.jsonl`, or `demo`. Questions with gold documents are good;
`OFF_TOPIC` has 33 that none of the corpora answers but by chance. Printed for each corpus: the share of good
questions that are refused and the number of off-topic ones; with the settings in force, then with the largest
threshold at which at most 3.5 % of the good questions of the other corpora are refused on average.
"""

import argparse
import random
from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.eval.datasets import load_dataset
from stratagraph.models.local import MiniLMEmbedder
from stratagraph.search.evidence import ALIKE_NAMED, GENERAL, LEAST_ALIKE

REFUSED = 0.035
OFF_TOPIC = """
    What is the capital of France?
    How do I bake sourdough bread at home?
    Who won the football world cup in 2014?
    What is a monad in Haskell?
    How do I reset my router password?
    Which planet has the most moons?
    What is the boiling point of ethanol?
    How many chromosomes does a human cell have?
    Who painted the ceiling of the Sistine Chapel?
    What does the HTTP status code 404 mean?
    How do I undo the last commit in git?
    What is the recommended daily dose of vitamin D?
    When was the Berlin Wall built?
    How long should I boil an egg?
    What is the difference between a virus and a bacterium?
    Which vaccine protects against measles?
    How do interest rates affect inflation?
    What causes a lunar eclipse?
    Who invented the telephone?
    How do I train a neural network on a GPU?
    What is the speed of light?
    Can I deduct my home office from my taxes?
    How do I change a flat bicycle tyre?
    What are the rules of offside in soccer?
    Who discovered penicillin?
    What is the population of Tokyo?
    How does photosynthesis work?
    What is the best way to learn Spanish?
    How do I remove red wine stains from a carpet?
    Which element has the atomic number 79?
    How tall is Mount Kilimanjaro?
    What is the plot of Hamlet?
    How do I configure a firewall in Linux?
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--questions", type=int, default=120)
    given = parser.parse_args()
    scores = {name: measured(given.folder, name, given.questions) for name in given.names}
    for name, own in scores.items():
        show(name, "in force", own, LEAST_ALIKE)
        others = [good for other, (good, _) in scores.items() if other != name]
        grid = [least for least in np.arange(0, 6, 0.05) if mean_refused(others, least) <= REFUSED]
        if others:
            show(name, "left out", own, max(grid, default=0.0))


def measured(folder: Path, name: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The likeness of the corpus to its own questions and to off-topic questions, as two arrays."""
    data = load_dataset(name if name == "demo" else folder / name)
    good = [each.question for each in data.questions if each.supporting_ids]
    random.Random(0).shuffle(good)
    embedder = MiniLMEmbedder()
    index = sg.build_index(data.documents, embedder=embedder, progress=False)
    reader = index._serve()
    background = reader.measure_background(np.stack([embedder.embed_query(each) for each in GENERAL]))

    def alike(question: str) -> float:
        found = index.retrieve(question, view="chunks")
        sources = [source for hit in found.hits for source in hit.sources]
        similarity, names = reader.likeness(question, found.vector, sources)
        return (similarity - background.best) / background.spread + ALIKE_NAMED * min(1.0, names)

    off = [line.strip() for line in OFF_TOPIC.strip().splitlines()]
    scores = [np.array([alike(each) for each in asked]) for asked in (good[:most], off)]
    index.close()
    return scores[0], scores[1]


def mean_refused(good: list[np.ndarray], least: float) -> float:
    return float(np.mean([np.mean(each < least) for each in good]))


def show(name: str, how: str, scores: tuple[np.ndarray, np.ndarray], least: float) -> None:
    good, off = scores
    print(
        f"{name:20} {how} (least {least:.2f}): refused {np.mean(good < least):.3f} of {len(good)} good "
        f"questions, {np.sum(off < least)} of {len(off)} off-topic ones",
        flush=True,
    )


if __name__ == "__main__":
    main()

"""LLM-free extraction against the entities a model found, and its speed.

    python cookbook/benchmarks/extraction.py DATA_FOLDER

The folder has `corpus.jsonl` (id, title, text) and `openie.jsonl` (passage_id, entities). Names are compared
by their words (`stratarag.pipeline.names.index.words`) without articles; strict: equal; loose: equal, or one
contains the other as whole words. Recall is the share of the model's entities of a passage that one of ours
in the same passage matches, precision the share of ours that one of the model's matches.
"""

import argparse
import json
import time
from pathlib import Path

from stratarag.pipeline.extraction.by_rules import extract
from stratarag.pipeline.names.index import words

ARTICLES = {"the", "a", "an"}
Name = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    corpus = read(folder / "corpus.jsonl")
    passages = {each["id"]: f"{each['title']}\n{each['text']}" for each in corpus}
    ours = {key: names(entity.name for entity in extract(text).entities) for key, text in passages.items()}
    model = {each["passage_id"]: names(each["entities"]) for each in read(folder / "openie.jsonl")}

    print(f"{len(passages)} passages, {total(model)} entities of the model, {total(ours)} of ours")
    for kind, matched in (("strict", equal), ("loose", overlapping)):
        recall = share(model, ours, matched)
        precision = share(ours, model, matched)
        print(f"{kind:6}  recall {recall:.3f}  precision {precision:.3f}")
    speed(list(passages.values()))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def names(found) -> set[Name]:
    return {name for each in found if (name := tuple(word for word in words(each) if word not in ARTICLES))}


def total(found: dict[str, set[Name]]) -> int:
    return sum(map(len, found.values()))


def share(wanted: dict[str, set[Name]], offered: dict[str, set[Name]], matched) -> float:
    """The share of the names wanted that are matched by one offered for the same passage."""
    hits = sum(matched(name, offered.get(key, set())) for key, each in wanted.items() for name in each)
    return hits / total({key: each for key, each in wanted.items() if key in offered})


def equal(name: Name, others: set[Name]) -> bool:
    return name in others


def overlapping(name: Name, others: set[Name]) -> bool:
    return name in others or any(contains(name, other) or contains(other, name) for other in others)


def contains(longer: Name, shorter: Name) -> bool:
    size = len(shorter)
    return any(longer[at : at + size] == shorter for at in range(len(longer) - size + 1))


def speed(texts: list[str], rounds: int = 5) -> None:
    """The best of some rounds, in CPU time of one core."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for text in texts:
            extract(text)
        best = min(best, time.process_time() - start)
    size = sum(len(text.split()) for text in texts) / len(texts)
    print(f"{len(texts) / best:,.0f} passages of {size:.0f} words per CPU-second, all of `extract`")


if __name__ == "__main__":
    main()

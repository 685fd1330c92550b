"""LLM-free extraction against the entities a model found, and its speed.

    python cookbook/benchmarks/extraction.py DATA_FOLDER

The folder has `corpus.jsonl` (id, title, text) and `openie.jsonl` (passage_id, entities). Names are compared
by their words (`stratagraph.ingest.names.index.words`) without articles; strict: equal; loose: equal, or
one
contains the other as whole words. Recall is the share of the model's entities of a passage that one of ours
in the same passage matches, precision the share of ours that one of the model's matches. Ours are the
entities of the graph, that is, after the corpus has decided on candidates, without its lower-case terms.
Dates and quantities are no entities of ours, so recall is told of all that the model found and of its names
alone: of what is not made of numbers and words of date and measure.
"""

import argparse
import json
import time
from pathlib import Path

from stratagraph.ingest.extraction.by_rules import extract
from stratagraph.ingest.extraction.candidates import settle
from stratagraph.ingest.graph.merge import finish, merge
from stratagraph.ingest.names.index import words
from stratagraph.text.stopwords import MONTHS_AND_WEEKDAYS

ARTICLES = {"the", "a", "an"}
MEASURE_WORDS = """
    early late mid circa around about to of and in century centuries bc ad bce ce census population people
    year years day days hour hours minute minutes million billion thousand percent mile miles km kilometers
    kilometres meter meters metre metres m mm cm feet ft foot inches acres square sq cubic mi f c kg lb usd
    dollars
"""
MEASURES = MONTHS_AND_WEEKDAYS | set(MEASURE_WORDS.split())
Name = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    corpus = read(folder / "corpus.jsonl")
    passages = {each["id"]: f"{each['title']}\n{each['text']}" for each in corpus}
    graph, terms = entities(list(passages.values()))
    ours = {key: names(found) for key, found in zip(passages, graph, strict=True)}
    model = {each["passage_id"]: names(each["entities"]) for each in read(folder / "openie.jsonl")}

    named = {key: {name for name in each if not attribute(name)} for key, each in model.items()}

    hundreds = sum(len(text.split()) for text in passages.values()) / 100
    for who, found in (("the model's", model), ("the model's names", named), ("ours", ours)):
        size = len(set().union(*found.values()))
        print(
            f"{who:18} {total(found):6} in passages, {size:6} distinct, {size / hundreds:.1f} per 100 words"
        )
    print(f"{len(passages)} passages; beside these {terms} terms")
    for kind, matched in (("strict", equal), ("loose", overlapping)):
        recall, of_names = share(model, ours, matched), share(named, ours, matched)
        precision = share(ours, model, matched)
        print(f"{kind:6}  recall {recall:.3f}, of names {of_names:.3f}  precision {precision:.3f}")
    speed(list(passages.values()))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def entities(texts: list[str]) -> tuple[list[list[str]], int]:
    """The names of the graph's entities by passage, and how many terms there are beside them."""
    collected = merge(enumerate(map(extract, texts)))
    settle(collected, len(texts))
    found: list[list[str]] = [[] for _ in texts]
    terms = 0
    for entity in finish(collected).entities:
        terms += entity.type == "term"
        for chunk in entity.chunks if entity.type != "term" else ():
            found[chunk].append(entity.name)
    return found, terms


def attribute(name: Name) -> bool:
    """Whether a name is a date or a quantity: numbers, with no words but those of date and measure."""
    return any(word[0].isdigit() for word in name) and all(
        word[0].isdigit() or word in MEASURES for word in name
    )


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

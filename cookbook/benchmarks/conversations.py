"""Whether a follow-up question finds its passage, when only the turns before say whom or what it means.

    python cookbook/benchmarks/conversations.py DATA_FOLDER [--indexes FOLDER] [--embedder hashing]

The conversations are made of the steps of questions: in `musique_train100` each step asks about the answer of
the one before; facts of `2wiki_dev164` are about the answer before, or again about what the question before
was about. A follow-up says "it" in the place of the name. Printed for each kind: the share of follow-ups of
which a gold passage is among the first five documents, asked as they are, with the conversation as `history`
(no model), and with the name. The answer in the history is the gold one, or the sentences of the index.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stratagraph as sg
from stratagraph.eval import load_dataset

K, DEPTH, MOST = 5, 10, 150


class FollowUp(NamedTuple):
    """A question, its answer, one that refers to them, the same with the name, and its gold passages."""

    before: str
    answer: str
    asked: str
    named: str
    gold: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--indexes", type=Path, help="where indexes are kept from one run to the next")
    parser.add_argument("--embedder")
    given = parser.parse_args()
    kinds = {
        ("musique_train100", "about the answer"): of_steps(given.folder / "musique_train100"),
        ("2wiki_dev164", "about the answer"): of_triples(given.folder / "2wiki_dev164", same=False),
        ("2wiki_dev164", "about the same"): of_triples(given.folder / "2wiki_dev164", same=True),
    }
    for (name, kind), found in kinds.items():
        follow_ups = random.Random(0).sample(every := list(found), min(MOST, len(every)))
        with opened(given.folder / name, given.indexes, given.embedder) as index:
            print(f"{name}, {kind}, {len(follow_ups)}: {told(index, follow_ups)}", flush=True)


def told(index: sg.Index, follow_ups: list[FollowUp]) -> str:
    """The shares that are found."""
    found: dict[str, list[bool]] = {}
    for each in follow_ups:
        own = index.answer(each.before).text
        for name, question, answer in (
            ("as asked", each.asked, ""),
            ("with the gold answer", each.asked, each.answer),
            ("with the index's answer", each.asked, own),
            ("with the name", each.named, ""),
        ):
            history = [("user", each.before), ("assistant", answer)] if answer else []
            hits = index.retrieve(question, DEPTH, history=history)
            documents = list(dict.fromkeys(name for hit in hits for name in hit.documents))[:K]
            found.setdefault(name, []).append(not each.gold.isdisjoint(documents))
    return ", ".join(f"{name} {np.mean(values):.3f}" for name, values in found.items())


def of_steps(folder: Path) -> Iterator[FollowUp]:
    """Steps of which each asks about the answer of the one before."""
    texts = {each["id"]: f"{each['title']} {each['text']}".lower() for each in lines(folder / "corpus.jsonl")}
    for question in lines(folder / "questions.jsonl"):
        steps = question["decomposition"]
        answers = [each["answer"] for each in steps]
        asked = [re.sub(r"(.*?) >> (.*)", r"What is the \2 of \1?", each["question"]) for each in steps]
        named = list(asked)
        for place, answer in enumerate(answers, 1):
            named = [text.replace(f"#{place}", answer) for text in named]
        for place, text in enumerate(asked[1:], 1):
            gold = [name for name in question["supporting_ids"] if answers[place].lower() in texts[name]]
            if re.findall(r"#(\d)", text) == [str(place)] and gold:
                follow_up = text.replace(f"#{place}", "it")
                yield FollowUp(named[place - 1], answers[place - 1], follow_up, named[place], frozenset(gold))


def of_triples(folder: Path, *, same: bool) -> Iterator[FollowUp]:
    """Facts about the object of the fact before, or about its subject."""
    titled: dict[str, list[str]] = {}
    for each in lines(folder / "corpus.jsonl"):
        titled.setdefault(each["title"], []).append(each["id"])
    for question in lines(folder / "questions.jsonl"):
        for subject, relation, thing in question["gold_triples"]:
            for other, asked, _ in question["gold_triples"]:
                about = subject if same else thing
                gold = frozenset(titled.get(about, ())) & {*question["supporting_ids"]}
                if gold and (same or other == thing):
                    asked = "history" if same else asked  # what no other name tells
                    before = f"What is the {relation} of {subject}?"
                    yield FollowUp(
                        before, thing, f"What is the {asked} of it?", f"What is the {asked} of {about}?", gold
                    )
                if same:
                    break


def opened(folder: Path, indexes: Path | None, embedder: str | None) -> sg.Index:
    place = indexes and indexes / folder.name
    if place is not None and place.exists():
        return sg.open_index(place, embedder=embedder)
    return sg.build_index(load_dataset(folder).documents, path=place, embedder=embedder, progress=False)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    main()

"""Which mentions of names become one entity, on 64 short passages of which that is known.

usage: python cookbook/benchmarks/namesakes.py [--llm NAME] [--form FORM]

The passages speak of namesakes (Mercury, Springfield, Michael Jordan) and of things with several names
(Bombay and Mumbai, Samuel Clemens and Mark Twain). A pair of mentions is of two documents, or of two names in
one. Precision is the share of pairs of one entity that are one thing, recall the share of pairs of one thing
that are one entity. Mentions that the extraction missed are left out, and counted.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.ingest.graph.grouping import resolved
from stratagraph.ingest.names.spelling import canonical_name

PASSAGES = Path(__file__).parents[2] / "tests" / "pipeline" / "namesakes.jsonl"
_MERGED = re.compile(r"resolved: (['\"])(.+?)\1 is (['\"])(.+?)\3 \(")


def main() -> None:
    """A line without resolution, and one with it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llm")
    parser.add_argument("--form", default="sentences")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that are wrong")
    given = parser.parse_args()
    print(f"{'':12} precision  recall  pairs  mentions missed")
    for resolve in (False, True):
        show("resolved" if resolve else "as spelt", given.llm, given.form, resolve, wrong=given.wrong)


def show(label: str, llm: Any, form: str, resolve: bool, *, wrong: bool) -> sg.Index:
    """Print precision and recall for an index of the passages."""
    passages = [json.loads(line) for line in PASSAGES.read_text("utf-8").splitlines()]
    documents = [sg.Document(each["id"], each["text"], {"title": each["title"]}) for each in passages]
    extraction = {"form": form, "resolve": resolve, "mode": "llm" if llm else "nlp"}
    index = sg.build_index(documents, method="walk", llm=llm, config={"extraction": extraction})
    notes = index.last_report.notes if index.last_report else {}
    aliases = {found[2]: found[4] for note in notes if (found := _MERGED.match(note))}
    of_document: dict[str, list[tuple[str, str]]] = {}
    for entity in index.entities():
        for document in entity.documents:
            of_document.setdefault(document, []).append((entity.id, entity.name))
    truth, found, missed = {}, {}, 0
    for each in passages:
        for name, thing in each["things"].items():
            mention = (each["id"], name)
            entity = _entity_of(name, of_document.get(each["id"], []), aliases)
            missed += not entity
            if entity:
                truth[mention], found[mention] = thing, entity
    right = same = one = 0
    for first, second in combinations(truth, 2):
        is_same, is_one = truth[first] == truth[second], found[first] == found[second]
        right, same, one = right + (is_same and is_one), same + is_same, one + is_one
        if wrong and is_same != is_one:
            print("  ", "missed" if is_same else "wrong ", first, second)
    print(f"{label:12} {right / one:9.2f}  {right / same:6.2f}  {same:5}  {missed:15}")
    return index


def _entity_of(name: str, entities: list[tuple[str, str]], aliases: dict[str, str]) -> str:
    keys = {key for key, _ in entities}
    told = [key for key, shown in entities if shown.casefold().startswith(f"{name.casefold()} (")]
    for key in (canonical_name(name), *told):
        if (end := resolved(key, aliases)) in keys:
            return end
    return ""


if __name__ == "__main__":
    main()

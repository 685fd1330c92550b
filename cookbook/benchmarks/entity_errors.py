"""How often no name, or a poor one, is found in a question (ArchRAG, Table 9).

usage: python cookbook/benchmarks/entity_errors.py DATA ... [--llm NAME]

DATA are corpora with questions (see `papers/layouts.py`). A name is poor if it has fewer than
three characters, is a number, or has more than five words. Without --llm names are found by rules.
"""

from __future__ import annotations

import argparse

from corpora import read

from stratagraph import _sync
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.models.gate import ModelGate
from stratagraph.models.named import as_chat_model
from stratagraph.search.questions import decompose


def is_poor(name: str) -> bool:
    """Whether a name is one that hardly any entity has."""
    return len(name) < 3 or name.replace(".", "").replace(",", "").isdigit() or len(name.split()) > 5


def main() -> None:
    """A line for each corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+")
    parser.add_argument("--llm")
    given = parser.parse_args()
    gate = ModelGate(as_chat_model(given.llm), None)
    print(f"{'':20} questions  without a name  with a poor one")
    for data in given.data:
        dataset = read(data)
        questions = [each.question for each in dataset.questions]
        if given.llm:
            found = [_sync.run(decompose(question, gate)) for question in questions]
        else:
            found = [question_entities(question) for question in questions]
        none = sum(not names for names in found) / len(found)
        poor = sum(any(map(is_poor, names)) for names in found) / len(found)
        print(f"{dataset.name:20} {len(found):9}  {none:14.1%}  {poor:15.1%}")


if __name__ == "__main__":
    main()

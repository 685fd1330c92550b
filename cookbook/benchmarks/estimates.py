"""How near an estimate is to what a build then takes, as a model server counts it.

usage: PYTHONPATH=. python cookbook/benchmarks/estimates.py [FOLDER...] [--passages N] [--methods ...]

Without a FOLDER the demo corpus is built; each FOLDER is a corpus (see `stratagraph.eval.load_dataset`), of
which the first N passages are. The server is that of the tests, on loopback: it counts requests and tokens,
and its model is a stand-in that writes about what each prompt asks for. Where a FOLDER has `openie.jsonl`,
the entities and triples that a real model found are what it answers for extractions.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.clients.server import ModelServer
from tests.clients.writer import written

import stratagraph as sg
from stratagraph import demo
from stratagraph.eval import load_dataset

METHODS = ("lshtree", "archrag", "noderag", "hirag")
_PASSAGE = re.compile(r"<passage((?:-\w+)?)>\n(.*)\n</passage\1>", re.DOTALL)


class FromOpenIE:
    """Answers extractions with entities and triples that exist already, and all else as the tests do."""

    def __init__(self, folder: Path, texts: dict[str, str]) -> None:
        lines = map(json.loads, (folder / "openie.jsonl").read_text("utf-8").splitlines())
        self._known = {
            texts[line["passage_id"]].strip(): line for line in lines if line["passage_id"] in texts
        }

    def __call__(self, prompt: str) -> str:
        found = _PASSAGE.search(prompt)
        asked = found is not None and '"relations"' in prompt
        line = self._line(found[2].strip()) if asked else None
        return written(prompt) if line is None else json.dumps(_extraction(found[2], line))

    def _line(self, passage: str) -> dict | None:
        return self._known.get(passage) or next(
            (line for text, line in self._known.items() if text in passage), None
        )


def _extraction(passage: str, line: dict) -> dict:
    """The answer: a unit for each sentence, a sentence on each entity, the triples as sentences."""
    sentences = [each for each in re.split(r"(?<=[.!?])\s+", passage) if each.strip()]
    triples = [triple for triple in line["triples"] if len(triple) == 3 and triple[0] != triple[2]]
    names = list(dict.fromkeys([*line["entities"], *(end for one, _, two in triples for end in (one, two))]))

    def told(name: str) -> str:
        first = next((each for each in sentences if name.lower() in each.lower()), sentences[0])
        return " ".join(first.split()[:22])

    return {
        "units": [
            {"text": each, "entities": [n for n in names if n.lower() in each.lower()]} for each in sentences
        ],
        "entities": [{"name": name, "type": "thing", "description": told(name)} for name in names],
        "relations": [
            {"source": one, "target": two, "description": f"{one} {verb} {two}.", "strength": 7}
            for one, verb, two in triples
        ],
    }


def corpora(
    folders: list[str], passages: int
) -> Iterator[tuple[str, list[sg.Document], Callable[[str], str]]]:
    """Name, documents and model of each corpus."""
    if not folders:
        yield "demo", list(demo.documents()), written
    for folder in map(Path, folders):
        documents = list(load_dataset(folder).documents[:passages])
        yield folder.name, documents, written
        if (folder / "openie.jsonl").exists():
            texts = {each.id: each.text for each in documents}
            yield f"{folder.name}, its openie", documents, FromOpenIE(folder, texts)


def compare(name: str, documents: list[sg.Document], write: Callable[[str], str], method: str) -> None:
    """A line: what was estimated, what the server counted, and the ratios."""
    with ModelServer(write=write) as server, tempfile.TemporaryDirectory() as folder:
        llm = f"openai:m@{server.openai}"
        found = sg.estimate(documents, method, llm=llm)
        sg.build_index(documents, method, path=f"{folder}/idx", llm=llm, progress=False).close()
        pairs = (
            (found.calls, server.requests),
            (found.input_tokens, server.input_tokens),
            (found.output_tokens, server.output_tokens),
        )
        cells = "  ".join(f"{said:9,} {made:9,} {said / made - 1:+6.1%}" for said, made in pairs)
        print(f"{name:34} {method:8} {cells}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--passages", type=int, default=200)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    arguments = parser.parse_args()
    print(f"{'corpus':34} {'method':8} {'calls estimated, made':27}  {'tokens in':27}  tokens out")
    for name, documents, write in corpora(arguments.folders, arguments.passages):
        for method in arguments.methods:
            compare(name, documents, write, method)


if __name__ == "__main__":
    main()

"""A corpus, a vector table of the tests' own, and comparisons of what two indexes find."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import stratagraph as sg
from stratagraph.models.local import HashingEmbedder
from stratagraph.types.built import VECTOR_FIELD, VectorRow

METHODS = ("lshtree", "archrag", "noderag", "hirag")
DIMENSION = 128
QUESTIONS = ("Who wrote notes on the Analytical Engine?", "Who opened bridge 7 on the Rhine?")
_PEOPLE = (
    "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage in London.",
    "Charles Babbage designed the Difference Engine. He was born in London in 1791.",
    "The Analytical Engine was never built. Ada Lovelace died in 1852.",
    "Alan Turing worked at Bletchley Park. He read the notes of Ada Lovelace.",
)


def embedder() -> HashingEmbedder:
    return HashingEmbedder(DIMENSION)


def documents(towns: int = 40) -> list[sg.Document]:
    made = [sg.Document(f"person {number}", text) for number, text in enumerate(_PEOPLE)]
    for number in range(towns):
        text = f"Town {number} lies on the Rhine. Its mayor, Hans Meyer{number}, opened bridge {number}."
        made.append(sg.Document(f"o'town {number}", text, {"year": 1900 + number}))
    return made


def built(path: Path, vectors: Any = None, method: Any = METHODS, towns: int = 40) -> sg.Index:
    return sg.build_index(
        documents(towns), method, path, embedder=embedder(), progress=False, vectors=vectors
    )


def found(index: sg.Index, where: Any = None, k: int = 10) -> list[tuple[str, ...]]:
    """The ids that each question and way of searching finds, in order."""
    own = [{"method": method, "fill": fill} for method in index.methods for fill in (True, False)]
    return [
        tuple(hit.id for hit in index.retrieve(question, k, where=where, **way).hits)
        for question in QUESTIONS
        for way in [{"method": "walk"}, *own]
    ]


class Table:
    """Rows in a file, or in memory: exact, and with faults to be set.

    Attributes
    ----------
    kill
        The name of a method, and the how manieth call of it kills the process, once it has done its work.
    most
        Rows that a search gives at most.
    """

    def __init__(
        self, file: Path | None = None, *, filters: bool = True, kill: tuple[str, int] | None = None
    ) -> None:
        self.name = "a table of the tests"
        self.filters = filters
        self.kill = kill
        self.most: int | None = None
        self.calls: list[str] = []
        self.asked: list[Mapping[str, Sequence[str]]] = []
        self._file = file
        self.rows: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file and file.exists() else {}

    def put(self, rows: Sequence[VectorRow]) -> None:
        for row in rows:
            self.rows[row.id] = {"vector": list(row.vector), "fields": dict(row.fields)}
        self._did("put")

    def get(self, ids: Sequence[str]) -> dict[str, Any]:
        self._did("get")
        return {each: self.rows[each]["fields"][VECTOR_FIELD] for each in ids if each in self.rows}

    def search(
        self, vector: Sequence[float], k: int, where: Mapping[str, Sequence[str]]
    ) -> list[tuple[str, Any]]:
        self._did("search")
        self.asked.append(where)
        rows = [
            (each, row)
            for each, row in self.rows.items()
            if not self.filters or all(row["fields"].get(name) in values for name, values in where.items())
        ]
        if not rows:
            return []
        scores = np.array([row["vector"] for _, row in rows]) @ np.array(vector)
        best = np.argsort(-scores, kind="stable")[: min(k, self.most or k)]
        return [(rows[place][0], rows[place][1]["fields"].get(VECTOR_FIELD)) for place in best]

    def delete(self, ids: Sequence[str]) -> None:
        for each in ids:
            del self.rows[each]
        self._did("delete")

    def _did(self, what: str) -> None:
        self.calls.append(what)
        if self._file is not None and what in ("put", "delete"):
            self._file.write_text(json.dumps(self.rows))
        if self.kill is not None and self.kill == (what, self.calls.count(what)):
            os.kill(os.getpid(), signal.SIGKILL)

    def vectors(self) -> list[str]:
        """All vectors, sorted."""
        return sorted(row["fields"][VECTOR_FIELD] for row in self.rows.values())

    def foreign(self, count: int = 50) -> dict[str, dict[str, Any]]:
        """Put rows that are not ours, one of them as near to every question as can be."""
        random = np.random.default_rng(0)
        rows = {
            f"theirs {number}": {
                "vector": random.normal(size=DIMENSION).tolist(),
                "fields": {VECTOR_FIELD: "?"},
            }
            for number in range(count)
        }
        self.rows.update(json.loads(json.dumps(rows)))
        return rows


if (
    __name__ == "__main__"
):  # a process to be killed: python -m tests.vectors.support FOLDER METHOD CALL OPERATION
    import sys

    folder, name, call, operation = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    table = Table(folder / "table.json", kill=(name, call))
    if operation == "build":
        built(folder / "idx", table, "lshtree")
    else:
        index = sg.open_index(folder / "idx", embedder=embedder(), vectors=table)
        index.delete(["person 0", "o'town 3"])

"""A small corpus to try things on: 51 documents of the fictional Hathe Islands, and 29 questions.

Letters, minutes, newspaper articles and ledgers tell of the same people and events, so many answers need two
documents. Two men share a name, and so do two places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from stratagraph.ingest.files.contents import document_of
from stratagraph.types.records import Document

_SHOWN = ("multi-hop-10", "multi-hop-06", "one-hop-11")


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question with its gold answers and documents.

    Parameters
    ----------
    id, question
        Such as `multi-hop-03`, and the question.
    answers
        Accepted wordings; for a theme, the points an answer should make.
    supporting_ids
        Documents with the answer, in the order of the hops.
    type
        `one-hop`: one document answers. `multi-hop`: the last document answers, shares no words with the
        question, and is reached by a name in the first. `theme`: at least four documents contribute.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    supporting_ids: tuple[str, ...]
    type: str


def documents() -> list[Document]:
    """The 51 documents. A text starts with its title, which is also in the metadata."""
    return [document_of(record, record["id"]) for record in _records("corpus.jsonl")]


def questions() -> list[DemoQuestion]:
    """The questions: 11 one-hop, 13 multi-hop, 5 about themes."""
    return [
        DemoQuestion(
            record["id"],
            record["question"],
            tuple(record["answers"]),
            tuple(record["supporting_ids"]),
            record["type"],
        )
        for record in _records("questions.jsonl")
    ]


def showcase() -> list[DemoQuestion]:
    """Three questions whose documents plain vectors miss; see `stratagraph.demo.comparison`."""
    by_id = {question.id: question for question in questions()}
    return [by_id[name] for name in _SHOWN]


def _records(name: str) -> Iterator[dict[str, Any]]:
    text = (files(__name__) / name).read_text("utf-8")
    return (json.loads(line) for line in text.splitlines())

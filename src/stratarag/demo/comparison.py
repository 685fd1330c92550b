"""What plain vectors miss and the methods find, on the corpus that comes along.

The questions are chosen; what is found for them, and the way that leads there, is what this index gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stratarag import demo
from stratarag.index import Index
from stratarag.pipeline.headings import statements
from stratarag.pipeline.names.spelling import words
from stratarag.records import GraphEntity
from stratarag.results import Retrieval

HITS = 5
"""Hits that are looked at, for the methods as for plain vectors."""


@dataclass(frozen=True, slots=True)
class Step:
    """A passage on the way: its document's title, and the sentence that has the name which leads there."""

    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Way:
    """How a document is reached: by a name in the question, or by one in a passage found before."""

    name: str
    first: Step | None
    last: Step


@dataclass(frozen=True, slots=True)
class Shown:
    """A question, the titles of the documents that hold its answer, and how many of them were found by whom.

    `way` leads to the first of these that plain vectors miss and the index finds; None if there is no such.
    """

    question: demo.Question
    needed: tuple[str, ...]
    plain: int
    found: Mapping[str, int]
    way: Way | None

    @property
    def won(self) -> bool:
        """Whether every method found all documents, and plain vectors did not."""
        return self.plain < len(self.needed) <= min(self.found.values())


def shown(index: Index) -> Iterator[Shown]:
    """The chosen questions, asked of an index of the demo's documents."""
    titles = {name: str(metadata["title"]) for name, metadata in index.documents().items()}
    entities = list(index.entities())
    for question in demo.showcase():
        gold = question.supporting_ids
        plain = _documents(index.retrieve(question.question, HITS, rank="dense"))
        found = {
            method: _documents(index.retrieve(question.question, HITS, method=method))
            for method in index.methods
        }
        missed = [name for name in gold if name not in plain and any(name in each for each in found.values())]
        way = _way(index, entities, question.question, gold, missed[0], titles) if missed else None
        yield Shown(
            question,
            tuple(titles[name] for name in gold),
            len({*gold} & {*plain}),
            {method: len({*gold} & {*each}) for method, each in found.items()},
            way,
        )


def _documents(retrieval: Retrieval) -> list[str]:
    """The documents of the passages among the hits; a summary of many is none of them."""
    return [hit.documents[0] for hit in retrieval if hit.kind == "chunk"]


def _way(
    index: Index,
    entities: Iterable[GraphEntity],
    question: str,
    gold: Iterable[str],
    document: str,
    titles: Mapping[str, str],
) -> Way | None:
    """By the rarest name that a document shares with another that holds the answer, or with the question."""
    asked = words(question)
    inside = sorted((each for each in entities if document in each.documents), key=_rarity)
    for entity in inside:
        for other in gold:
            if other != document and other in entity.documents:
                first = Step(titles[other], _sentence(index, other, entity.name))
                return Way(
                    entity.name, first, Step(titles[document], _sentence(index, document, entity.name))
                )
    for entity in inside:
        if set(words(entity.name)) <= set(asked):
            return Way(entity.name, None, Step(titles[document], _sentence(index, document, entity.name)))
    return None


def _rarity(entity: GraphEntity) -> tuple[int, str]:
    return len(entity.documents), entity.name


def _sentence(index: Index, document: str, name: str) -> str:
    """The first sentence of a document that has a name, or all of the name's words."""
    wanted = words(name)
    texts = [chunk.text for chunk in index.chunks([document])[document]]
    told = [" ".join(text[start:end].split()) for text in texts for start, end in statements(text)]
    exact = (each for each in told if name in each)
    return next(exact, None) or max(told, key=lambda each: len(set(wanted) & set(words(each))))

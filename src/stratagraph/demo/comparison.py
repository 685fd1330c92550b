"""Questions of the demo corpus whose documents plain vectors miss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from stratagraph import demo
from stratagraph.index import Index
from stratagraph.ingest.headings import statements
from stratagraph.ingest.names.spelling import words
from stratagraph.types.records import GraphEntity

HITS = 5
"""Hits that are looked at, of the walk as of plain vectors."""


@dataclass(frozen=True, slots=True)
class Step:
    """A passage on the way to the answer: its document's title and the sentences that matter.

    The first sentence has the name that leads here; in the last step, a second may have the answer. `missed`:
    plain vectors do not find the document.
    """

    title: str
    sentences: tuple[str, ...]
    missed: bool


@dataclass(frozen=True, slots=True)
class LinkedDocuments:
    """The documents that lead to the answer, over a name they share.

    `answer` is the corpus's own, as worded in the last step.
    """

    name: str
    steps: tuple[Step, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """A question, the titles of its documents, and how many of them plain vectors and the walk found.

    `way` is None unless the walk finds a document that plain vectors miss.
    """

    question: demo.DemoQuestion
    needed: tuple[str, ...]
    plain: int
    walked: int
    way: LinkedDocuments | None

    @property
    def won(self) -> bool:
        """Whether the walk found all documents, and plain vectors did not."""
        return self.plain < len(self.needed) <= self.walked


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The best of a method's own nodes for a question: its kind, its number of documents, and its text."""

    method: str
    kind: str
    documents: int
    text: str


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The output of the demo: seconds and hits of the walk and of the methods.

    `own` are the methods' first own nodes for the question `asked`. `left_out` are the methods that a package
    is missing for, with what installs it.
    """

    documents: int
    walk: float
    methods: float
    questions: tuple[ComparedQuestion, ...]
    asked: str
    own: tuple[OwnNode, ...]
    left_out: Mapping[str, str]


def shown(index: Index) -> Iterator[ComparedQuestion]:
    """Ask the chosen questions of an index of the demo corpus."""
    titles = {name: str(metadata["title"]) for name, metadata in index.documents().items()}
    entities = list(index.entities())
    for question in demo.showcase():
        gold, found = question.supporting_ids, {}
        for rank in ("dense", "walk"):  # a summary of many documents is none of them
            hits = index.retrieve(question.question, HITS, method="walk", rank=rank).hits
            found[rank] = {hit.documents[0] for hit in hits if hit.kind == "chunk"}
        plain, walked = found["dense"], found["walk"]
        missed = {*gold} & walked - plain
        yield ComparedQuestion(
            question,
            tuple(titles[name] for name in gold),
            len({*gold} & plain),
            len({*gold} & walked),
            _way(index, entities, question, titles, missed) if missed else None,
        )


def own_nodes(index: Index, question: str) -> Iterator[OwnNode]:
    """What each method of an index adds to the passages of the walk."""
    for method in index.methods:
        hits = index.retrieve(question, 2 * HITS, method=method).hits
        best = next((hit for hit in hits if hit.kind != "chunk"), None)
        if best is not None:
            yield OwnNode(method, best.kind.replace("_", " "), len(best.documents), best.text)


def _way(
    index: Index,
    entities: Iterable[GraphEntity],
    question: demo.DemoQuestion,
    titles: Mapping[str, str],
    missed: Set[str],
) -> LinkedDocuments | None:
    """By the rarest name that all documents of the answer share, or one document and the question."""
    gold = question.supporting_ids
    asked_words = set(words(question.question))
    shared = (each for each in entities if {*gold} <= {*each.documents})
    leading = (each for each in shared if len(gold) > 1 or set(words(each.name)) <= asked_words)
    entity = min(leading, key=lambda each: (len(each.documents), each.name), default=None)
    if entity is None:
        return None
    name, of_name = entity.name, set(words(entity.name))
    steps, answer, chunks = [], "", index.chunks(gold)
    for document in gold:
        texts = [chunk.text for chunk in chunks[document]]
        sentences = [each.line(text) for text in texts for each in statements(text)]
        # The first that has the name, or most of its words.
        exact = (each for each in sentences if name in each)
        naming = next(exact, None) or max(sentences, key=lambda each: len(of_name & set(words(each))))
        quoted = [naming]
        if document == gold[-1]:
            answer, telling = next(
                (answer, each)
                for each in (naming, *sentences)
                for answer in question.answers
                if answer in each
            )
            quoted.append(telling)
        steps.append(Step(titles[document], tuple(dict.fromkeys(quoted)), document in missed))
    return LinkedDocuments(name, tuple(steps), answer)

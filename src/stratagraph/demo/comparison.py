"""Questions of the demo corpus whose documents plain vectors miss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from stratagraph import demo
from stratagraph.index import Index
from stratagraph.ingest.headings import statements
from stratagraph.ingest.names.spelling import words
from stratagraph.types.records import GraphEntity
from stratagraph.types.results import Retrieval

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
        gold = question.supporting_ids
        plain = _documents(index.retrieve(question.question, HITS, method="walk", rank="dense"))
        walked = _documents(index.retrieve(question.question, HITS, method="walk"))
        missed = {*gold} & {*walked} - {*plain}
        way = _way(index, entities, question, titles, missed) if missed else None
        yield ComparedQuestion(
            question,
            tuple(titles[name] for name in gold),
            len({*gold} & {*plain}),
            len({*gold} & {*walked}),
            way,
        )


def own_nodes(index: Index, question: str) -> Iterator[OwnNode]:
    """What each method of an index adds to the passages of the walk."""
    for method in index.methods:
        hits = index.retrieve(question, 2 * HITS, method=method).hits
        best = next((hit for hit in hits if hit.kind != "chunk"), None)
        if best is not None:
            yield OwnNode(method, best.kind.replace("_", " "), len(best.documents), best.text)


def _documents(retrieval: Retrieval) -> list[str]:
    """The documents of the passages among the hits; a summary of many is none of them."""
    return [hit.documents[0] for hit in retrieval if hit.kind == "chunk"]


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
    texts = [_sentences(index, name) for name in gold]
    quoted: list[tuple[str, ...]] = [(_naming(sentences, entity.name),) for sentences in texts]
    answer, telling = _answer(question, (*quoted[-1], *texts[-1]))
    quoted[-1] = tuple(dict.fromkeys((*quoted[-1], telling)))
    steps = (Step(titles[name], part, name in missed) for name, part in zip(gold, quoted, strict=True))
    return LinkedDocuments(entity.name, tuple(steps), answer)


def _sentences(index: Index, document: str) -> list[str]:
    texts = [chunk.text for chunk in index.chunks([document])[document]]
    return [each.line(text) for text in texts for each in statements(text)]


def _naming(sentences: Sequence[str], name: str) -> str:
    """The first sentence that has a name, or most of the name's words."""
    wanted = set(words(name))
    exact = (each for each in sentences if name in each)
    return next(exact, None) or max(sentences, key=lambda each: len(wanted & set(words(each))))


def _answer(question: demo.DemoQuestion, sentences: Iterable[str]) -> tuple[str, str]:
    """A right wording and the first sentence that has it."""
    return next(
        (answer, sentence) for sentence in sentences for answer in question.answers if answer in sentence
    )

"""Corpora with questions and the documents that answer them, and checks of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

from stratagraph.importing import read_extraction, read_openie
from stratagraph.importing.lines import is_export, json_lines, json_objects
from stratagraph.types.records import Chunk, Document, Extraction, Metadata

StrPath = str | os.PathLike[str]
DEMO = "demo"
LONG = 20
"""Maximum words of a gold answer that is a name, a number or a clause."""

NO_GOLD = "questions without gold documents: left out of retrieval metrics"
NO_ANSWER = "questions without an answer: left out of answer metrics"
MISSING_GOLD = "gold documents that are not in the corpus: they count as not found"
REPEATED_DOCUMENT = "documents with an id and a text that came before: left out"
REPEATED_QUESTION = "questions with an id that came before: left out"
BLANK_DOCUMENT = "documents without text: left out"
BLANK_QUESTION = "questions without text: left out"
FROM_EXTRACTION = "extraction: "
_FIELDS = ("id", "title", "text")


@dataclass(frozen=True)
class Question:
    """A question, the wordings of its answer that count as right, and the ids of documents with the evidence.

    Both may be empty. Reports split recall by `type`, such as `2hop`.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    supporting_ids: tuple[str, ...] = ()
    type: str = ""


class Record(NamedTuple):
    """An object of a file, and its place as `file:line`. A field of another type raises `ValueError`."""

    place: str
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """The objects of JSON lines (`.jsonl`), or of a JSON list."""
        objects = json_lines(path) if path.suffix == ".jsonl" else json_objects(path)
        return [cls(place, fields) for place, fields in objects]

    def wrong(self, key: str, wanted: str) -> ValueError:
        """The error for a field that is not what is wanted."""
        return ValueError(f"{self.place}: {key!r} must be {wanted}, not {self.fields.get(key)!r:.60}")

    def texts(self, *keys: str) -> tuple[str, ...]:
        """Answers or ids under some keys, one or a list each, as strings without blank ones."""
        return tuple(text for key in keys for text in texts(self.fields.get(key), f"{self.place}: {key!r}"))

    def word(self, *keys: str) -> str:
        """The string or number under the first key that has one, else empty."""
        for key in keys:
            value = self.fields.get(key)
            if value is not None and not _is_plain(value):
                raise self.wrong(key, "a string")
            if value is not None and str(value).strip():
                return str(value)
        return ""

    @property
    def title(self) -> str:
        """The title, with single spaces; may be empty."""
        return " ".join(self.word("title").split())

    def text(self, key: str) -> str:
        """The string or whole number under a key, which must exist, as a string."""
        value = self.fields.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.wrong(key, "a string")
        return str(value)


def texts(values: Any, what: str) -> tuple[str, ...]:
    """A string or number, or a list of them, without blank ones; `what` names the place and the key."""
    listed = [each for each in (values if isinstance(values, list) else [values]) if each is not None]
    for value in listed:
        if not _is_plain(value):
            raise ValueError(f"{what} must be a string, a number or a list of them, not {value!r:.60}")
    return tuple(text for text in map(str, listed) if text.strip())


def _is_plain(value: Any) -> bool:
    """Whether a value can be shown as text; true and false have no agreed wording."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


class ReadDocument(NamedTuple):
    """A document as it was read, and its place as `file:line` for messages."""

    id: str
    title: str
    text: str
    metadata: Metadata
    place: str


@dataclass(frozen=True)
class Dataset:
    """A corpus with questions: what `load_dataset` returns, or made by hand.

    A `Document` is split as an index splits it; a `Chunk` is one passage. `extractions` are those of
    passages that exist already, by chunk `ref` or document id. `notes` are faults of the data and what was
    done about them, with the ids concerned.
    """

    name: str
    documents: tuple[Document | Chunk, ...]
    questions: tuple[Question, ...]
    extractions: Mapping[str, Extraction] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def wants_texts(self) -> bool:
        """Whether half of the gold answers have more than `LONG` words."""
        words = [len(each.answers[0].split()) for each in self.questions if each.answers]
        return bool(words) and median(words) > LONG

    def head(self, questions: int) -> Dataset:
        """The same corpus with the first questions."""
        return replace(self, questions=self.questions[:questions])


def load_dataset(path: StrPath, *, extraction: StrPath | None = None) -> Dataset:
    """Read a corpus with questions.

    Parameters
    ----------
    path
        `"demo"` for the corpus of the package, or a folder with `corpus.jsonl` (id, title, text) and
        `questions.jsonl` (id, question, answers, supporting_ids, type).
    extraction
        What is known of the passages: entities and triples (`stratagraph.importing.read_openie`), or the
        export of an index (`read_extraction`), which has descriptions and units too. A path that does not
        exist is looked for in the folder.

    Returns
    -------
    The dataset. A document's text is its title, a line break and its text; the title is in its metadata too,
    with what other fields the document has. Faults of the data are in `Dataset.notes`.

    Raises
    ------
    FileNotFoundError
        If there is no such path.
    ValueError
        If a file is not there, a line cannot be read, an id has two texts, or no gold document is in the
        corpus.
    """
    folder = Path(str(files("stratagraph") / DEMO)) if path == DEMO else Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"no such folder: {str(folder)!r}")
    corpus, asked = folder / "corpus.jsonl", folder / "questions.jsonl"
    if not (corpus.is_file() and asked.is_file()):
        held = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
        raise ValueError(
            f"{str(folder)!r} needs corpus.jsonl (id, title, text) and questions.jsonl (id, question, "
            f"answers, supporting_ids); it holds {', '.join(held[:8]) or 'nothing'}"
        )
    questions = [
        Question(
            record.text("id"),
            record.text("question"),
            record.texts("answers"),
            record.texts("supporting_ids"),
            record.word("type"),
        )
        for record in Record.read(asked)
    ]
    return assembled(folder.resolve().name, read_documents(corpus), questions, folder, extraction)


def read_documents(path: Path, key: str = "id") -> list[ReadDocument]:
    """Documents of JSON lines, with their id under `key` and all further fields as metadata."""
    return [
        ReadDocument(
            record.text(key),
            record.title,
            record.text("text"),
            {name: value for name, value in record.fields.items() if name not in (*_FIELDS, key)},
            record.place,
        )
        for record in Record.read(path)
    ]


def assembled(
    name: str,
    documents: Sequence[ReadDocument],
    questions: Iterable[Question],
    folder: Path,
    extraction: StrPath | None = None,
) -> Dataset:
    """A dataset from what was read in a folder; see `load_dataset` for what it raises."""
    dataset = Dataset(name, tuple(map(_document, documents)), tuple(questions))
    dataset = checked(dataset, [each.place for each in documents])
    if extraction is None:
        return dataset
    path, inside = Path(extraction), folder / extraction
    return _with_extraction(dataset, inside if inside.exists() and not path.exists() else path)


def _document(record: ReadDocument) -> Document:
    title, text, metadata = record.title, record.text, record.metadata
    try:
        json.dumps(metadata, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"document {record.id!r}: what stands beside its text is no JSON: {error}") from None
    if title and text.strip() and not text.startswith(f"{title}\n"):
        text = f"{title}\n{text}"
    return Document(record.id, text, {"title": title, **metadata} if title else metadata)


def checked(dataset: Dataset, places: Sequence[str] | None = None) -> Dataset:
    """The dataset without unusable documents and questions, with notes on these and on missing gold.

    Messages name a document's place, by default as `documents[0]`. Raises `ValueError` if there are no
    documents or no questions, an id is blank, a document id has two texts, or no gold document is in the
    corpus.
    """
    places = places or [f"documents[{number}]" for number in range(len(dataset.documents))]
    notes: dict[str, tuple[str, ...]] = dict(dataset.notes)
    documents = _distinct_documents(dataset.documents, places, notes)
    questions = _distinct_questions(dataset.questions, notes)
    known_ids = {_document_id(item) for item in documents}
    for what, ids in (("document", known_ids), ("question", {question.id for question in questions})):
        if any(not identity.strip() for identity in ids):
            raise ValueError(f"a {what} of {dataset.name!r} has a blank id")
    gold = {identity for question in questions for identity in question.supporting_ids}
    missing = sorted(gold - known_ids)
    if not documents or not questions:
        left_out = "".join(f"; {what}: {len(ids)}" for what, ids in notes.items())
        raise ValueError(
            f"{dataset.name!r} has {len(documents)} documents and {len(questions)} questions{left_out}"
        )
    if gold and len(missing) == len(gold):
        raise ValueError(
            f"none of the {len(gold)} gold documents of {dataset.name!r} is in the corpus: questions ask "
            f"for {', '.join(map(repr, missing[:3]))}, and documents are called "
            f"{', '.join(map(repr, sorted(known_ids)[:3]))}"
        )
    _note(notes, MISSING_GOLD, missing)
    _note(notes, NO_GOLD, [question.id for question in questions if not question.supporting_ids])
    _note(notes, NO_ANSWER, [question.id for question in questions if not question.answers])
    return replace(dataset, documents=documents, questions=questions, notes=notes)


def _note(notes: dict[str, tuple[str, ...]], what: str, ids: Iterable[str]) -> None:
    if distinct := tuple(dict.fromkeys([*notes.get(what, ()), *ids])):
        notes[what] = distinct


def _document_id(item: Document | Chunk) -> str:
    return item.document_id if isinstance(item, Chunk) else item.id


def _distinct_documents(
    items: Sequence[Document | Chunk], places: Sequence[str], notes: dict[str, tuple[str, ...]]
) -> tuple[Document | Chunk, ...]:
    """Documents without blank and repeated ones. A document may be several chunks."""
    distinct: dict[tuple[str, ...], tuple[Document | Chunk, str]] = {}
    blank, repeated = [], []
    for item, place in zip(items, places, strict=True):
        identity = _document_id(item)
        key = (identity, str(item.ordinal), item.ref, item.text) if isinstance(item, Chunk) else (identity,)
        if not item.text.strip():
            blank.append(identity)
            continue
        first, its_place = distinct.setdefault(key, (item, place))
        if first.text != item.text:
            raise ValueError(
                f"two documents have the id {identity!r} and different texts: {its_place} and {place}; give "
                "each an id of its own, since answers and gold documents name them by it"
            )
        if its_place != place:
            repeated.append(identity)
    _note(notes, BLANK_DOCUMENT, blank)
    _note(notes, REPEATED_DOCUMENT, repeated)
    return tuple(item for item, _ in distinct.values())


def _distinct_questions(
    questions: Sequence[Question], notes: dict[str, tuple[str, ...]]
) -> tuple[Question, ...]:
    distinct: dict[str, Question] = {}
    blank, repeated = [], []
    for question in questions:
        if not question.question.strip():
            blank.append(question.id)
        elif question.id in distinct:
            repeated.append(question.id)
        else:
            answers = tuple(dict.fromkeys(answer for answer in question.answers if answer.strip()))
            gold = tuple(dict.fromkeys(question.supporting_ids))
            distinct[question.id] = replace(question, answers=answers, supporting_ids=gold)
    _note(notes, BLANK_QUESTION, blank)
    _note(notes, REPEATED_QUESTION, repeated)
    return tuple(distinct.values())


def _with_extraction(dataset: Dataset, path: Path) -> Dataset:
    """The dataset with what a file tells of its passages.

    Of an export, the passages of the corpus; documents that it does not have stay as they are.
    """
    if not is_export(path):
        imported = read_openie(path, documents=dataset.documents)
        documents = [item for item in imported.documents if isinstance(item, Document | Chunk)]
        counts = imported.notes
    else:
        imported = read_extraction(path)
        by_id = {document.id: document for document in dataset.documents}
        chunks = [chunk for chunk in imported.documents if isinstance(chunk, Chunk)]
        known = [chunk for chunk in chunks if chunk.document_id in by_id]
        lacking = sorted(by_id.keys() - {chunk.document_id for chunk in known})
        documents = [*known, *(by_id[identity] for identity in lacking)]
        counts = {
            "passages of documents that are not in the corpus: left out": len(chunks) - len(known),
            "documents that are not in the export: read as they are": len(lacking),
        }
    notes = {FROM_EXTRACTION + what: (f"{count} times",) for what, count in counts.items() if count}
    return replace(
        dataset,
        documents=tuple(documents),
        extractions=imported.extractions,
        notes={**dataset.notes, **notes},
    )

"""Corpora with questions as their authors publish them. Nothing is downloaded.

    one file            HotpotQA, 2WikiMultiHopQA, MuSiQue, UltraDomain, ALCE: the corpus is the paragraphs
                        (or books) of the questions
    MultiHop-RAG        a folder with `corpus.json` and `MultiHopRAG.json`
    GraphRAG-Bench      `Corpus/NAME.json` and `Questions/NAME_questions.json`: the folder of both, if it has
                        one set, or the file of questions; `.../NAME_questions.json/SOURCE` is one corpus
    NarrativeQA         a folder with `documents.csv`, `qaps.csv`, and stories in `tmp/`
    RAG-QA Arena        a folder with `annotations_DOMAIN_with_citation.jsonl`, and RobustQA's documents as
                        `corpus.jsonl`

All else is read by `stratagraph.eval.load_dataset`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from stratagraph.eval import Dataset, Question, load_dataset
from stratagraph.eval.datasets import DEMO, ReadDocument, assembled, read_documents, texts
from stratagraph.eval.datasets import Record as Fields
from stratagraph.importing.lines import json_value

QUESTIONS = "_questions.json"  # of GraphRAG-Bench
ARENA = "annotations_*_with_citation.jsonl"
SPLIT = "test"  # of NarrativeQA


@dataclass(frozen=True)
class Asked(Question):
    """A question of a paper's data.

    `parts` are parts of a full answer, each in all wordings that count (ALCE). `source` and `evidence` are
    what the answers of GraphRAG-Bench repeat: the name of its corpus, and the evidence in its words.
    """

    parts: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    evidence: str | tuple[str, ...] = ""


Read = tuple[Sequence[ReadDocument], Sequence[Asked]]


class Record(Fields):
    """An object of a file with lists of objects and pairs."""

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false, or 1 or 0, under a key."""
        value = self.fields.get(key)
        if value is not None and (not isinstance(value, int) or value not in (0, 1)):
            raise self.wrong(key, "true or false")
        return default if value is None else bool(value)

    def objects(self, key: str, *, optional: bool = False) -> list[Record]:
        """The list of objects under a key, which may be missing if `optional`."""
        value = self.fields.get(key)
        if optional and not value:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise ValueError(f"{self.place}: {key!r} must be a list of objects")
        return [Record(self.place, each) for each in value]

    def pairs(self, key: str) -> list[tuple[str, Any]]:
        """The list of pairs of a title and a value under a key, which must exist."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(
            isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in value
        ):
            raise ValueError(f"{self.place}: {key!r} must be a list of pairs, of which the first is a title")
        return [(title, other) for title, other in value]

    def asked(self, **given: Any) -> Asked:
        """The question; what is given stands in place of what the usual keys say."""
        return Asked(
            **{
                "id": self.word("_id", "id", "sample_id") or self.place.rpartition("/")[2],
                "question": given.pop("question", None) or self.text("question"),
                "answers": self.texts("answer"),
                **given,
            }
        )


def read(path: str, *, extraction: str | None = None) -> Dataset:
    """A corpus in any known layout; errors as for `stratagraph.eval.load_dataset`."""
    place = Path(path)
    reader = None if path == DEMO else reader_of(place)
    if reader is None:
        return load_dataset(path, extraction=extraction)
    folder = place if place.is_dir() else place.parent
    return assembled(place.stem if place.is_file() else place.name, *reader(place), folder, extraction)


def reader_of(path: Path) -> Callable[[Path], Read] | None:
    """How a path is read; None where it is a folder in the package's own layout, or nothing that is known."""
    if bench_corpus(path).is_file() or (path.parent.is_file() and bench_corpus(path.parent).is_file()):
        return graphrag_bench
    if path.is_file():
        records = Record.read(path)
        if not records:
            raise ValueError(f"{path}: holds no record")
        for needed, from_records in FILES:
            if needed <= records[0].fields.keys():
                return lambda _: from_records(records)
        known = "HotpotQA, 2WikiMultiHopQA, MuSiQue, UltraDomain or ALCE"
        raise ValueError(f"{str(path)!r} is in no layout that is known: its records are not those of {known}")
    names = {each.name for each in path.iterdir()} if path.is_dir() else set()
    if {"corpus.json", "MultiHopRAG.json"} <= names:
        return multihop
    if {"Corpus", "Questions"} <= names:
        return graphrag_bench
    if {"documents.csv", "qaps.csv"} <= names:
        return narrativeqa
    return arena if any(path.glob(ARENA)) else None


def sentences_of(value: Any, place: str) -> str:
    """A text given as a string or as a list of sentences."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{place}: a paragraph must be a string or a list of them, not {value!r:.60}")
    return "".join(parts)


class Paragraphs:
    """The paragraphs of all questions as one corpus; equal title and text are one document."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], ReadDocument] = {}
        self._taken: set[str] = set()
        self._titles: Counter[str] = Counter()

    def add(self, title: str, text: str, place: str) -> str:
        """The id of a paragraph: its title, with a number where another text has that name."""
        key = title, text = title or "untitled", " ".join(text.split())
        if key not in self._found:
            identity = title
            while identity in self._taken or not self._titles[title]:
                self._titles[title] += 1
                identity = title if self._titles[title] == 1 else f"{title} ({self._titles[title]})"
            self._taken.add(identity)
            self._found[key] = ReadDocument(identity, title, text, {}, place)
        return self._found[key].id

    def documents(self) -> list[ReadDocument]:
        """All of them."""
        return list(self._found.values())


def hotpotqa(records: Sequence[Record]) -> Read:
    """HotpotQA and 2WikiMultiHopQA, with distractors; evidence that is in no paragraph keeps its title."""
    corpus, questions = Paragraphs(), []
    for record in records:
        of_title: dict[str, str] = {}
        for title, sentences in record.pairs("context"):
            of_title[title] = corpus.add(title, sentences_of(sentences, record.place), record.place)
        gold = dict.fromkeys(title for title, _ in record.pairs("supporting_facts"))
        ids = tuple(of_title.get(title, title) for title in gold)
        questions.append(record.asked(supporting_ids=ids, type=record.word("type")))
    return corpus.documents(), questions


def musique(records: Sequence[Record]) -> Read:
    """MuSiQue, which tells the number of hops in its ids alone."""
    corpus, questions = Paragraphs(), []
    for record in records:
        gold = []
        for paragraph in record.objects("paragraphs"):
            identity = corpus.add(paragraph.title, paragraph.word("paragraph_text"), record.place)
            if paragraph.flag("is_supporting", default=False):
                gold.append(identity)
        question = record.asked(supporting_ids=tuple(gold), answers=record.texts("answer", "answer_aliases"))
        questions.append(replace(question, type=question.id.partition("__")[0]))
    return corpus.documents(), questions


def ultradomain(records: Sequence[Record]) -> Read:
    """UltraDomain: the book of each question is a document; books repeat."""
    ids: dict[str, str] = {}  # of books, by their texts
    documents: list[ReadDocument] = []
    questions = []
    for number, record in enumerate(records):
        meta, text = record.fields.get("meta"), record.text("context")
        title = Record(record.place, meta).title if isinstance(meta, dict) else ""
        if text not in ids:
            ids[text] = record.word("context_id") or f"book {len(documents):04}"
            documents.append(ReadDocument(ids[text], title, text, {}, record.place))
        given = {"id": record.word("_id") or f"q{number:05}", "type": record.word("label", "dataset")}
        given |= {"answers": record.texts("answers"), "supporting_ids": (ids[text],)}
        questions.append(record.asked(question=record.text("input"), **given))
    return documents, questions


def alce(records: Sequence[Record]) -> Read:
    """ALCE (ASQA, QAMPARI, ELI5): the passages that come with the questions are the corpus, without gold."""
    corpus, questions = Paragraphs(), []
    for record in records:
        for passage in record.objects("docs"):
            corpus.add(passage.title, passage.word("text"), record.place)
        parts = [pair.texts("short_answers") for pair in record.objects("qa_pairs", optional=True)]
        if not all(parts):  # a part without any wording scores nothing
            raise ValueError(
                f"{record.place}: 'short_answers' of each of 'qa_pairs' must hold an answer, and one does not"
            )
        listed = record.fields.get("answers") or []
        if not isinstance(listed, list):
            raise record.wrong("answers", "a list")
        parts = parts or [texts(each, f"{record.place}: 'answers'") for each in listed]
        question = record.asked(parts=tuple(part for part in parts if part))
        answers = question.answers or tuple(dict.fromkeys(text for part in parts for text in part))
        questions.append(replace(question, answers=answers))
    return corpus.documents(), questions


FILES: Sequence[tuple[set[str], Callable[[Sequence[Record]], Read]]] = (
    ({"question", "context", "supporting_facts"}, hotpotqa),
    ({"question", "paragraphs"}, musique),
    ({"input", "context", "answers"}, ultradomain),
    ({"question", "docs"}, alce),
)


def multihop(folder: Path) -> Read:
    """MultiHop-RAG: evidence names articles by address and title."""
    documents: list[ReadDocument] = []
    ids: dict[str, str] = {}
    for number, article in enumerate(Record.read(folder / "corpus.json")):
        identity, title = article.word("url", "title") or str(number), article.title
        if title:
            ids.setdefault(title, identity)
        ids[identity] = identity
        extra = {
            key: article.fields[key]
            for key in ("source", "category", "published_at")
            if key in article.fields
        }
        documents.append(ReadDocument(identity, title, article.word("body"), extra, article.place))
    questions = []
    for number, record in enumerate(Record.read(folder / "MultiHopRAG.json")):
        gold = []
        for evidence in record.objects("evidence_list", optional=True):
            address, title = evidence.word("url"), evidence.title
            gold.append(ids.get(address) or ids.get(title) or address or title)
        given = {"supporting_ids": tuple(gold), "type": record.word("question_type")}
        questions.append(record.asked(id=f"q{number:05}", question=record.text("query"), **given))
    return documents, questions


def bench_corpus(path: Path) -> Path:
    """Where the corpus of a file of GraphRAG-Bench's questions is."""
    return path.parent.parent / "Corpus" / f"{path.name.removesuffix(QUESTIONS)}.json"


def graphrag_bench(path: Path) -> Read:
    """GraphRAG-Bench: all corpora of a file, or one. A single one is no gold document."""
    only = ""
    if path.is_dir():
        sets = sorted((path / "Questions").glob(f"*{QUESTIONS}"))
        if len(sets) != 1:
            names = ", ".join(f"Questions/{each.name}" for each in sets)
            raise ValueError(
                f"{str(path)!r} holds {len(sets)} sets of questions; give the path of one: {names}"
            )
        path = sets[0]
    elif not path.is_file():
        path, only = path.parent, path.name
    corpus = bench_corpus(path)
    if not corpus.is_file():
        raise ValueError(f"{str(corpus)!r}, the corpus of {str(path)!r}, is not there")
    value = json_value(corpus)
    corpora = Record(str(corpus), {"corpora": value if isinstance(value, list) else [value]})
    documents = [
        ReadDocument(each.text("corpus_name"), "", each.text("context"), {}, each.place)
        for each in corpora.objects("corpora")
        if only in ("", each.fields.get("corpus_name"))
    ]
    if not documents:
        raise ValueError(f"{str(corpus)!r} has no corpus {only!r}")
    questions = []
    for record in Record.read(path):
        source, evidence = record.text("source"), record.texts("evidence")
        if only in ("", source):
            given = {"type": record.word("question_type"), "source": source}
            given |= {"supporting_ids": (source,) if len(documents) > 1 else ()}
            listed = isinstance(record.fields.get("evidence"), list)
            questions.append(record.asked(evidence=evidence if listed else "".join(evidence), **given))
    return documents, questions


def narrativeqa(folder: Path) -> Read:
    """NarrativeQA: stories in `tmp/<id>.content` (or beside), as its script downloads them."""
    documents: list[ReadDocument] = []
    for row in rows_of(folder / "documents.csv", ("document_id", "set")):
        name = f"{row['document_id']}.content"
        if Path(name).name != name:
            raise ValueError(f"{folder / 'documents.csv'}: {row['document_id']!r} is no name of a story")
        story = next((path for at in ("tmp", ".") if (path := folder / at / name).is_file()), None)
        if row["set"] == SPLIT and story is not None:
            text = story.read_text("utf-8", errors="replace")
            documents.append(
                ReadDocument(row["document_id"], row.get("wiki_title") or "", text, {}, str(story))
            )
    if not documents:
        raise ValueError(
            f"{str(folder)!r} has no story of the split {SPLIT!r}: NarrativeQA's script downloads them as "
            f"{folder / 'tmp'}/<document_id>.content"
        )
    path, columns = folder / "qaps.csv", ("document_id", "set", "question", "answer1", "answer2")
    questions = []
    for number, row in enumerate(rows_of(path, columns)):
        if row["set"] == SPLIT:
            answers = texts([row["answer1"], row["answer2"]], f"{path}: 'answer1'")
            questions.append(Asked(f"q{number:05}", row["question"], answers, (row["document_id"],)))
    return documents, questions


def arena(folder: Path) -> Read:
    """RAG-QA Arena: annotations by domain; their documents, RobustQA's, are published separately."""
    path = folder / "corpus.jsonl"
    if not path.is_file():
        raise ValueError(
            f"{str(folder)!r} has the annotations of RAG-QA Arena but no corpus.jsonl: its documents are "
            'those of RobustQA, to be put there as lines of {"id": ..., "text": ...}'
        )
    questions = []
    for each in sorted(folder.glob(ARENA)):
        domain = each.name.removeprefix("annotations_").removesuffix("_with_citation.jsonl")
        for number, record in enumerate(Record.read(each)):
            answer = record.word("faithful_answer", "faithful_answer_w_citation", "answer")
            text = record.text("query" if "query" in record.fields else "question")
            given = {"supporting_ids": record.texts("gold_doc_ids"), "type": domain}
            identity = f"{domain}-{record.word('qid') or number}"
            questions.append(
                record.asked(id=identity, question=text, answers=(answer,) if answer else (), **given)
            )
    return read_documents(path), questions


@contextmanager
def table(path: Path) -> Iterator[TextIO]:
    """A file of separated values, open for `csv`; what cannot be read raises `ValueError` with its name."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error.reason}") from None
    except csv.Error as error:
        raise ValueError(f"{path}: not readable as separated values: {error}") from None


def rows_of(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a table that has some columns."""
    with table(path) as lines:
        reader = csv.DictReader(lines)
        if missing := sorted(set(needed) - set(reader.fieldnames or ())):
            raise ValueError(f"{path}: has no column {', '.join(missing)}")
        rows = []
        for row in reader:
            if any(row[column] is None for column in needed):
                raise ValueError(f"{path}:{reader.line_num}: a row of fewer columns than {len(row)}")
            rows.append(row)
        return rows

"""Data sets as their authors publish them.

HotpotQA, 2WikiMultiHopQA, MuSiQue, NarrativeQA, UltraDomain, RAG-QA Arena and ALCE. Nothing is downloaded: a
path is where the user put the files.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stratagraph.eval.layouts_base import (
    DocumentRecord,
    QuestionRecord,
    Raw,
    flag_of,
    list_of,
    objects_of,
    pairs_of,
    sentences_of,
    table,
    text_of,
    texts,
    texts_of,
    title_of,
    word_of,
)
from stratagraph.importing.lines import json_lines, json_objects

_ARENA = "annotations_*_with_citation.jsonl"
_STORIES = ("documents.csv", "qaps.csv")


def read_file(path: Path) -> Raw | None:
    """A file of questions with their paragraphs, told apart by the keys of its first record; else None."""
    records = list(json_lines(path) if path.suffix == ".jsonl" else json_objects(path))
    if not records:
        raise ValueError(f"{path}: holds no record")
    keys = set(records[0][1])
    for needed, read in _FILES:
        if needed <= keys:
            return read(records)
    return None


def read_folder(path: Path, split: str) -> Raw | None:
    """A folder of NarrativeQA or RAG-QA Arena; None if it is neither."""
    names = {each.name for each in path.iterdir()}
    if set(_STORIES) <= names:
        return _narrativeqa(path, split)
    annotations = sorted(path.glob(_ARENA))
    return _arena(path, annotations) if annotations else None


Records = Sequence[tuple[str, dict[str, Any]]]


class _Paragraphs:
    """The paragraphs of all questions as one corpus; those with one title and text are one document."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], DocumentRecord] = {}
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
            self._found[key] = DocumentRecord(identity, title, text, {}, place)
        return self._found[key].id

    def documents(self) -> list[DocumentRecord]:
        return list(self._found.values())


def _hotpotqa(records: Records) -> Raw:
    """HotpotQA and 2WikiMultiHopQA, with distractors; evidence that is in no paragraph keeps its title."""
    corpus, questions = _Paragraphs(), []
    for place, record in records:
        of_title: dict[str, str] = {}
        for title, sentences in pairs_of(record, "context", place):
            of_title[title] = corpus.add(title, sentences_of(sentences, place), place)
        gold = dict.fromkeys(title for title, _ in pairs_of(record, "supporting_facts", place))
        questions.append(
            _question(record, place, gold=[of_title.get(title, title) for title in gold], kind="type")
        )
    return Raw(corpus.documents(), questions)


def _musique(records: Records) -> Raw:
    corpus, questions = _Paragraphs(), []
    for place, record in records:
        gold = []
        for paragraph in objects_of(record, "paragraphs", place):
            text = word_of(paragraph, place, "paragraph_text")
            identity = corpus.add(title_of(paragraph, place), text, place)
            if flag_of(paragraph, "is_supporting", place, default=False):
                gold.append(identity)
        identity, question, answers, _, _ = _question(record, place, gold=gold)[:5]
        answers = (*answers, *texts_of(record, place, "answer_aliases"))
        questions.append((identity, question, answers, tuple(gold), identity.partition("__")[0]))
    return Raw(corpus.documents(), questions)


def _ultradomain(records: Records) -> Raw:
    """UltraDomain: the book behind each question is a document; books come up again and again."""
    ids: dict[str, str] = {}  # of books, by their texts
    documents: list[DocumentRecord] = []
    questions: list[QuestionRecord] = []
    for number, (place, record) in enumerate(records):
        meta, text = record.get("meta"), text_of(record, "context", place)
        title = title_of(meta, place) if isinstance(meta, dict) else ""
        if text not in ids:
            ids[text] = word_of(record, place, "context_id") or f"book {len(documents):04}"
            documents.append(DocumentRecord(ids[text], title, text, {}, place))
        identity = ids[text]
        question = text_of(record, "input", place)
        kind = word_of(record, place, "label", "dataset")
        asked = word_of(record, place, "_id") or f"q{number:05}"
        questions.append((asked, question, texts_of(record, place, "answers"), (identity,), kind))
    return Raw(documents, questions)


def _alce(records: Records) -> Raw:
    """ALCE (ASQA, QAMPARI, ELI5): the passages that come with the questions are the corpus, without gold."""
    corpus, questions = _Paragraphs(), []
    for place, record in records:
        for passage in objects_of(record, "docs", place):
            corpus.add(title_of(passage, place), word_of(passage, place, "text"), place)
        pairs = objects_of(record, "qa_pairs", place) if record.get("qa_pairs") else []
        parts: tuple[tuple[str, ...], ...] = tuple(_short_answers(pair, place) for pair in pairs)
        parts = parts or tuple(
            texts(each, f"{place}: 'answers'") for each in list_of(record, "answers", place)
        )
        identity, question, answers, _, _ = _question(record, place, gold=[])[:5]
        answers = answers or tuple(dict.fromkeys(text for part in parts for text in part))
        questions.append((identity, question, answers, (), "", tuple(part for part in parts if part)))
    return Raw(corpus.documents(), questions)


def _short_answers(pair: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """The wordings of one part of an answer; a part without any would score nothing and say so nowhere."""
    found = texts_of(pair, place, "short_answers")
    if not found:
        raise ValueError(
            f"{place}: 'short_answers' of each of 'qa_pairs' must hold an answer, and one does not"
        )
    return found


def _narrativeqa(folder: Path, split: str) -> Raw:
    """NarrativeQA: stories in `tmp/<id>.content` (or beside), as its script downloads them."""
    documents: list[DocumentRecord] = []
    for _, row in _rows(folder / "documents.csv", ("document_id", "set")):
        name = f"{row['document_id']}.content"
        if Path(name).name != name:
            raise ValueError(f"{folder / 'documents.csv'}: {row['document_id']!r} is no name of a story")
        found = next((path for at in ("tmp", ".") if (path := folder / at / name).is_file()), None)
        if row["set"] == split and found is not None:
            title = row.get("wiki_title") or ""
            text = found.read_text("utf-8", errors="replace")
            documents.append(DocumentRecord(row["document_id"], title, text, {}, str(found)))
    if not documents:
        raise ValueError(
            f"{str(folder)!r} has no story of the split {split!r}: NarrativeQA's script downloads them as "
            f"{folder / 'tmp'}/<document_id>.content"
        )
    path, columns = folder / "qaps.csv", ("document_id", "set", "question", "answer1", "answer2")
    questions: list[QuestionRecord] = []
    for number, row in _rows(path, columns):
        if row["set"] == split:
            answers = texts_of(row, str(path), "answer1", "answer2")
            questions.append((f"q{number:05}", row["question"], answers, (row["document_id"],), ""))
    return Raw(documents, questions)


def _arena(folder: Path, annotations: Sequence[Path]) -> Raw:
    """RAG-QA Arena: annotations by domain, over RobustQA's documents, which come apart from them."""
    path = folder / "corpus.jsonl"
    if not path.is_file():
        raise ValueError(
            f"{str(folder)!r} has the annotations of RAG-QA Arena but no corpus.jsonl: its documents are "
            'those of RobustQA, to be put there as lines of {"id": ..., "text": ...}'
        )
    documents = [
        DocumentRecord(
            text_of(record, "id", place), title_of(record, place), text_of(record, "text", place), {}, place
        )
        for place, record in json_lines(path)
    ]
    questions: list[QuestionRecord] = []
    for each in annotations:
        domain = each.name.removeprefix("annotations_").removesuffix("_with_citation.jsonl")
        for number, (place, record) in enumerate(json_lines(each)):
            answer = word_of(record, place, "faithful_answer", "faithful_answer_w_citation", "answer")
            asked = text_of(record, "query" if "query" in record else "question", place)
            identity = f"{domain}-{word_of(record, place, 'qid') or number}"
            gold = texts_of(record, place, "gold_doc_ids")
            questions.append((identity, asked, (answer,) if answer else (), gold, domain))
    return Raw(documents, questions)


def _rows(path: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    with table(path) as lines:
        reader = csv.DictReader(lines)
        if missing := sorted(set(needed) - set(reader.fieldnames or ())):
            raise ValueError(f"{path}: has no column {', '.join(missing)}")
        found = []
        for number, row in enumerate(reader):
            if any(row[column] is None for column in needed):
                raise ValueError(f"{path}:{reader.line_num}: a row of fewer columns than {len(row)}")
            found.append((number, row))
        return found


def _question(
    record: Mapping[str, Any], place: str, *, gold: Sequence[str], kind: str = ""
) -> tuple[str, str, tuple[str, ...], tuple[str, ...], str]:
    return (
        word_of(record, place, "_id", "id", "sample_id") or place.rpartition("/")[2],
        text_of(record, "question", place),
        texts_of(record, place, "answer"),
        tuple(gold),
        word_of(record, place, kind) if kind else "",
    )


_FILES: tuple[tuple[set[str], Callable[[Records], Raw]], ...] = (
    ({"question", "context", "supporting_facts"}, _hotpotqa),
    ({"question", "paragraphs"}, _musique),
    ({"input", "context", "answers"}, _ultradomain),
    ({"question", "docs"}, _alce),
)

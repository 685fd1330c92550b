"""The layouts in which others publish a corpus with questions."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stratagraph.eval.layouts_base import (
    DocumentRecord,
    QuestionRecord,
    Raw,
    flag_of,
    objects_of,
    pairs_of,
    sentences_of,
    table,
    text_of,
    texts_of,
    title_of,
    word_of,
)
from stratagraph.eval.public_layouts import read_file, read_folder
from stratagraph.importing.lines import json_lines, json_objects, json_value
from stratagraph.records import Metadata

_CORPUS = "_corpus.json"
_ARTICLE_KEYS: tuple[str, ...] = ("source", "category", "published_at")
_SPLITS = ("test", "dev", "validation", "train")


def read_layout(path: Path, split: str) -> Raw:
    """Read a folder, or one JSON file of questions beside its corpus, in whichever layout it has.

    Raises
    ------
    FileNotFoundError
        If there is no such path.
    ValueError
        If the layout is not known, or a record cannot be read.
    """
    if not path.exists():
        raise FileNotFoundError(f"no such folder or file: {str(path)!r}")
    if path.is_file():
        return _of_file(path)
    names = {each.name for each in path.iterdir()}
    if {"corpus.jsonl", "questions.jsonl"} <= names:
        return _plain(path)
    if {"corpus.jsonl", "queries.jsonl"} <= names:
        return _beir(path, split)
    if {"corpus.json", "MultiHopRAG.json"} <= names:
        return _multihop(path)
    if (published := read_folder(path, split)) is not None:
        return published
    pairs = sorted(name for name in names if f"{name.removesuffix('.json')}{_CORPUS}" in names)
    if len(pairs) == 1:
        return _hipporag(path / pairs[0])
    if pairs:
        raise ValueError(f"{str(path)!r} holds several datasets; give the path of one: {', '.join(pairs)}")
    raise ValueError(
        f"{str(path)!r} is in no layout that is known: it needs corpus.jsonl with questions.jsonl, or with "
        "queries.jsonl and qrels (BEIR), or NAME_corpus.json with NAME.json (HippoRAG), or corpus.json with "
        "MultiHopRAG.json, or documents.csv with qaps.csv (NarrativeQA), or the annotations of RAG-QA Arena, "
        "or to be one file of HotpotQA, 2WikiMultiHopQA, MuSiQue, UltraDomain or ALCE; it holds "
        f"{', '.join(sorted(names)[:8]) or 'nothing'}"
    )


def _of_file(path: Path) -> Raw:
    """Questions beside their corpus (HippoRAG), or with their paragraphs, as data sets are published."""
    if path.with_name(f"{path.stem}{_CORPUS}").is_file():
        return _hipporag(path)
    published = read_file(path)
    if published is not None:
        return published
    raise ValueError(
        f"{str(path)!r} is in no layout that is known: its records are not those of HotpotQA, MuSiQue, "
        f"2WikiMultiHopQA, UltraDomain or ALCE, and {path.stem}{_CORPUS}, where HippoRAG's questions have "
        "their corpus, is not there"
    )


def _plain(folder: Path) -> Raw:
    documents = [
        DocumentRecord(
            text_of(record, "id", place),
            title_of(record, place),
            text_of(record, "text", place),
            _rest(record),
            place,
        )
        for place, record in json_lines(folder / "corpus.jsonl")
    ]
    questions = [
        (
            text_of(record, "id", place),
            text_of(record, "question", place),
            texts_of(record, place, "answers"),
            texts_of(record, place, "supporting_ids"),
            word_of(record, place, "type"),
        )
        for place, record in json_lines(folder / "questions.jsonl")
    ]
    return Raw(documents, questions)


def _rest(record: Mapping[str, Any]) -> Metadata:
    return {key: value for key, value in record.items() if key not in ("id", "_id", "title", "text")}


def _beir(folder: Path, split: str) -> Raw:
    """BEIR: judgements above 0 are gold. There are no answers."""
    gold = _judgements(folder / "qrels", split)
    documents = [
        DocumentRecord(
            text_of(record, "_id", place), title_of(record, place), text_of(record, "text", place), {}, place
        )
        for place, record in json_lines(folder / "corpus.jsonl")
    ]
    queries = [
        (text_of(record, "_id", place), text_of(record, "text", place))
        for place, record in json_lines(folder / "queries.jsonl")
    ]
    # A BEIR folder has the queries of all splits: those of another one were not judged.
    return Raw(documents, [(key, text, (), gold[key], "") for key, text in queries if key in gold])


def _judgements(folder: Path, split: str) -> dict[str, tuple[str, ...]]:
    present = [name for name in (split, *_SPLITS) if (folder / f"{name}.tsv").is_file()]
    if not present:
        raise ValueError(f"no judgements in {str(folder)!r}: a file such as {split}.tsv is expected")
    path = folder / f"{present[0]}.tsv"
    gold: dict[str, list[str]] = defaultdict(list)
    with table(path) as lines:
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            if not row or (number == 1 and not _is_number(row[-1])):
                continue
            if len(row) < 3 or not _is_number(row[-1]):
                raise ValueError(f"{path}:{number}: expected query id, document id and score, got {row!r}")
            judged = gold[row[0]]
            if float(row[-1]) > 0:
                judged.append(row[-2])
    return {key: tuple(ids) for key, ids in gold.items()}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _multihop(folder: Path) -> Raw:
    """MultiHop-RAG: evidence names articles by address and title."""
    documents: list[DocumentRecord] = []
    ids: dict[str, str] = {}
    for number, (place, article) in enumerate(json_objects(folder / "corpus.json")):
        identity = word_of(article, place, "url", "title") or str(number)
        title = title_of(article, place)
        if title:
            ids.setdefault(title, identity)
        ids[identity] = identity
        extra = {key: article[key] for key in _ARTICLE_KEYS if key in article}
        documents.append(DocumentRecord(identity, title, word_of(article, place, "body"), extra, place))
    questions: list[QuestionRecord] = []
    for number, (place, record) in enumerate(json_objects(folder / "MultiHopRAG.json")):
        gold = []
        for evidence in objects_of(record, "evidence_list", place) if record.get("evidence_list") else ():
            address, title = word_of(evidence, place, "url"), title_of(evidence, place)
            gold.append(ids.get(address) or ids.get(title) or address or title)
        answers, kind = texts_of(record, place, "answer"), word_of(record, place, "question_type")
        questions.append((f"q{number:05}", text_of(record, "query", place), answers, tuple(gold), kind))
    return Raw(documents, questions)


def _hipporag(path: Path) -> Raw:
    """HippoRAG: a corpus without ids, and gold paragraphs in full, matched by title and text."""
    passages = _passages(path.with_name(f"{path.stem}{_CORPUS}"))
    by_text = {(each["title"], _plain_text(each["text"])): each["id"] for each in passages}
    by_title: dict[str, list[str]] = defaultdict(list)
    for each in passages:
        by_title[each["title"]].append(each["id"])

    def found(title: str, text: str) -> str:
        title = " ".join(title.split())
        exact = by_text.get((title, _plain_text(text)))
        alone = by_title.get(title, [])
        return exact or (alone[0] if len(alone) == 1 else f"{title}: {text[:60]}".strip())

    questions: list[QuestionRecord] = []
    for number, (place, record) in enumerate(json_objects(path)):
        gold = tuple(found(*each) for each in _gold(record, place))
        identity = word_of(record, place, "id", "_id") or f"q{number:05}"
        answers = texts_of(record, place, "answer", "answer_aliases")
        answers = answers or texts_of(record, place, "reference", "gold_ans")
        # MuSiQue tells the number of hops in its ids alone.
        kind = word_of(record, place, "type") or (identity.partition("__")[0] if "__" in identity else "")
        questions.append((identity, text_of(record, "question", place), answers, gold, kind))
    documents = [
        DocumentRecord(each["id"], each["title"], each["text"], {}, each["place"]) for each in passages
    ]
    return Raw(documents, questions)


def _passages(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise ValueError(f"{str(path)!r}, the corpus of the questions, is not there")
    value = json_value(path)
    if isinstance(value, dict):  # the older form: title to sentences
        value = [{"title": title, "text": sentences_of(text, str(path))} for title, text in value.items()]
    found = []
    for number, each in enumerate(objects_of({path.name: value}, path.name, str(path))):
        place = f"{path}[{number}]"
        found.append(
            {
                "id": word_of(each, place, "idx", "id") or f"p{number:05}",
                "title": title_of(each, place),
                "text": word_of(each, place, "text", "paragraph_text"),
                "place": place,
            }
        )
    return found


def _gold(record: Mapping[str, Any], place: str) -> list[tuple[str, str]]:
    """Title and text of the gold paragraphs, in any of the three forms that the files have."""
    if "supporting_facts" in record:
        titles = {title for title, _ in pairs_of(record, "supporting_facts", place)}
        given = pairs_of(record, "context", place) if record.get("context") else ()
        context = {title: sentences_of(lines, place) for title, lines in given}
        return [
            (title, context.get(title, "")) for title in dict.fromkeys([*context, *titles]) if title in titles
        ]
    key = "paragraphs" if record.get("paragraphs") else "contexts"
    paragraphs = objects_of(record, key, place) if record.get(key) else []
    return [
        (title_of(each, place), word_of(each, place, "text", "paragraph_text"))
        for each in paragraphs
        if flag_of(each, "is_supporting", place, default=True)
    ]


def _plain_text(text: str) -> str:
    """Text with white space ignored: files differ in how they join sentences."""
    return "".join(text.split())

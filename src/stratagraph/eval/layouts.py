"""The layouts in which corpora with questions are published. Nothing is downloaded."""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stratagraph.eval.layout_fields import (
    DocumentRecord,
    Question,
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
from stratagraph.importing.lines import json_lines, json_objects, json_value

_CORPUS = "_corpus.json"
_QUESTIONS = "_questions.json"  # of GraphRAG-Bench
_FIELDS = ("id", "_id", "title", "text")
_ARTICLE_KEYS: tuple[str, ...] = ("source", "category", "published_at")
_SPLITS = ("test", "dev", "validation", "train")


def read_layout(path: Path, split: str) -> Raw:
    """Read a folder, or a file of questions, in any known layout; errors as for `load_dataset`."""
    if path.parent.is_file() and _bench_corpus(path.parent).is_file():
        return _graphrag_bench(path.parent, path.name)
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
    if {"Corpus", "Questions"} <= names:
        asked = sorted((path / "Questions").glob(f"*{_QUESTIONS}"))
        if len(asked) == 1:
            return _graphrag_bench(asked[0])
        found = ", ".join(f"Questions/{each.name}" for each in asked)
        raise ValueError(f"{str(path)!r} holds {len(asked)} sets of questions; give the path of one: {found}")
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
        "MultiHopRAG.json, or Corpus/NAME.json with Questions/NAME_questions.json (GraphRAG-Bench), or "
        "documents.csv with qaps.csv (NarrativeQA), or the annotations of RAG-QA Arena, "
        "or to be one file of HotpotQA, 2WikiMultiHopQA, MuSiQue, UltraDomain or ALCE; it holds "
        f"{', '.join(sorted(names)[:8]) or 'nothing'}"
    )


def _of_file(path: Path) -> Raw:
    if path.with_name(f"{path.stem}{_CORPUS}").is_file():
        return _hipporag(path)
    if _bench_corpus(path).is_file():
        return _graphrag_bench(path)
    published = read_file(path)
    if published is not None:
        return published
    raise ValueError(
        f"{str(path)!r} is in no layout that is known: its records are not those of HotpotQA, MuSiQue, "
        f"2WikiMultiHopQA, UltraDomain or ALCE, and {path.stem}{_CORPUS}, where HippoRAG's questions have "
        "their corpus, is not there"
    )


def _plain(folder: Path) -> Raw:
    questions = [
        Question(
            text_of(record, "id", place),
            text_of(record, "question", place),
            texts_of(record, place, "answers"),
            texts_of(record, place, "supporting_ids"),
            word_of(record, place, "type"),
        )
        for place, record in json_lines(folder / "questions.jsonl")
    ]
    return Raw(_documents(folder / "corpus.jsonl", "id", rest=True), questions)


def _documents(path: Path, key: str, *, rest: bool = False) -> list[DocumentRecord]:
    """Documents of JSON lines with their id under `key`, and with `rest` other fields as metadata."""
    return [
        DocumentRecord(
            text_of(record, key, place),
            title_of(record, place),
            text_of(record, "text", place),
            {name: value for name, value in record.items() if rest and name not in _FIELDS},
            place,
        )
        for place, record in json_lines(path)
    ]


def _beir(folder: Path, split: str) -> Raw:
    """BEIR: judgements above 0 are gold. There are no answers."""
    gold = _judgements(folder / "qrels", split)
    documents = _documents(folder / "corpus.jsonl", "_id")
    queries = [
        (text_of(record, "_id", place), text_of(record, "text", place))
        for place, record in json_lines(folder / "queries.jsonl")
    ]
    # A BEIR folder has the queries of all splits: those of another one were not judged.
    return Raw(documents, [Question(key, text, (), gold[key]) for key, text in queries if key in gold])


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
    questions = []
    for number, (place, record) in enumerate(json_objects(folder / "MultiHopRAG.json")):
        gold = []
        for evidence in objects_of(record, "evidence_list", place) if record.get("evidence_list") else ():
            address, title = word_of(evidence, place, "url"), title_of(evidence, place)
            gold.append(ids.get(address) or ids.get(title) or address or title)
        answers, kind = texts_of(record, place, "answer"), word_of(record, place, "question_type")
        asked = text_of(record, "query", place)
        questions.append(Question(f"q{number:05}", asked, answers, tuple(gold), kind))
    return Raw(documents, questions)


def _hipporag(path: Path) -> Raw:
    """HippoRAG: a corpus without ids, and gold paragraphs in full, matched by title and text."""
    passages = _passages(path.with_name(f"{path.stem}{_CORPUS}"))
    by_text = {(each.title, _plain_text(each.text)): each.id for each in passages}
    by_title: dict[str, list[str]] = defaultdict(list)
    for each in passages:
        by_title[each.title].append(each.id)

    def found(title: str, text: str) -> str:
        title = " ".join(title.split())
        exact = by_text.get((title, _plain_text(text)))
        alone = by_title.get(title, [])
        return exact or (alone[0] if len(alone) == 1 else f"{title}: {text[:60]}".strip())

    questions = []
    for number, (place, record) in enumerate(json_objects(path)):
        gold = tuple(found(*each) for each in _gold(record, place))
        identity = word_of(record, place, "id", "_id") or f"q{number:05}"
        answers = texts_of(record, place, "answer", "answer_aliases")
        answers = answers or texts_of(record, place, "reference", "gold_ans")
        # MuSiQue tells the number of hops in its ids alone.
        kind = word_of(record, place, "type") or (identity.partition("__")[0] if "__" in identity else "")
        questions.append(Question(identity, text_of(record, "question", place), answers, gold, kind))
    return Raw(passages, questions)


def _passages(path: Path) -> list[DocumentRecord]:
    if not path.is_file():
        raise ValueError(f"{str(path)!r}, the corpus of the questions, is not there")
    value = json_value(path)
    if isinstance(value, dict):  # the older form: title to sentences
        value = [{"title": title, "text": sentences_of(text, str(path))} for title, text in value.items()]
    found = []
    for number, each in enumerate(objects_of({path.name: value}, path.name, str(path))):
        place = f"{path}[{number}]"
        identity = word_of(each, place, "idx", "id") or f"p{number:05}"
        text = word_of(each, place, "text", "paragraph_text")
        found.append(DocumentRecord(identity, title_of(each, place), text, {}, place))
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


def _bench_corpus(path: Path) -> Path:
    """Where the corpus of a file of GraphRAG-Bench's questions is."""
    return path.parent.parent / "Corpus" / f"{path.name.removesuffix(_QUESTIONS)}.json"


def _graphrag_bench(path: Path, only: str = "") -> Raw:
    """GraphRAG-Bench: all corpora of a file, or `only` one. A single one is no gold document."""
    corpus = _bench_corpus(path)
    if not corpus.is_file():
        raise ValueError(f"{str(corpus)!r}, the corpus of {str(path)!r}, is not there")
    value = json_value(corpus)
    given = objects_of({"corpora": value if isinstance(value, list) else [value]}, "corpora", str(corpus))
    documents = [
        DocumentRecord(text_of(each, "corpus_name", place), "", text_of(each, "context", place), {}, place)
        for number, each in enumerate(given)
        for place in (f"{corpus}[{number}]",)
        if only in ("", each.get("corpus_name"))
    ]
    if not documents:
        raise ValueError(f"{str(corpus)!r} has no corpus {only!r}")
    questions = []
    for place, record in json_objects(path):
        if only not in ("", record.get("source")):
            continue
        source, answers = text_of(record, "source", place), texts_of(record, place, "answer")
        evidence = texts_of(record, place, "evidence")
        gold = (source,) if len(documents) > 1 else ()
        questions.append(
            Question(
                text_of(record, "id", place),
                text_of(record, "question", place),
                answers,
                gold,
                word_of(record, place, "question_type"),
                source=source,
                evidence=evidence if isinstance(record.get("evidence"), list) else "".join(evidence),
            )
        )
    return Raw(documents, questions)


_ARENA = "annotations_*_with_citation.jsonl"
_STORIES = ("documents.csv", "qaps.csv")


def read_file(path: Path) -> Raw | None:
    """A file of questions with paragraphs, recognised by the keys of its first record; else None."""
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
    """The paragraphs of all questions as one corpus; equal title and text are one document."""

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
        asked = _question(record, place, gold=gold)
        answers = (*asked.answers, *texts_of(record, place, "answer_aliases"))
        questions.append(replace(asked, answers=answers, type=asked.id.partition("__")[0]))
    return Raw(corpus.documents(), questions)


def _ultradomain(records: Records) -> Raw:
    """UltraDomain: the book of each question is a document; books repeat."""
    ids: dict[str, str] = {}  # of books, by their texts
    documents: list[DocumentRecord] = []
    questions = []
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
        questions.append(Question(asked, question, texts_of(record, place, "answers"), (identity,), kind))
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
        asked = _question(record, place, gold=[])
        answers = asked.answers or tuple(dict.fromkeys(text for part in parts for text in part))
        questions.append(replace(asked, answers=answers, parts=tuple(part for part in parts if part)))
    return Raw(corpus.documents(), questions)


def _short_answers(pair: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Wordings of one part of an answer; at least one, since a part without any scores nothing."""
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
    questions = []
    for number, row in _rows(path, columns):
        if row["set"] == split:
            answers = texts_of(row, str(path), "answer1", "answer2")
            questions.append(Question(f"q{number:05}", row["question"], answers, (row["document_id"],)))
    return Raw(documents, questions)


def _arena(folder: Path, annotations: Sequence[Path]) -> Raw:
    """RAG-QA Arena: annotations by domain, over RobustQA's documents, which come apart from them."""
    path = folder / "corpus.jsonl"
    if not path.is_file():
        raise ValueError(
            f"{str(folder)!r} has the annotations of RAG-QA Arena but no corpus.jsonl: its documents are "
            'those of RobustQA, to be put there as lines of {"id": ..., "text": ...}'
        )
    questions = []
    for each in annotations:
        domain = each.name.removeprefix("annotations_").removesuffix("_with_citation.jsonl")
        for number, (place, record) in enumerate(json_lines(each)):
            answer = word_of(record, place, "faithful_answer", "faithful_answer_w_citation", "answer")
            asked = text_of(record, "query" if "query" in record else "question", place)
            identity = f"{domain}-{word_of(record, place, 'qid') or number}"
            gold = texts_of(record, place, "gold_doc_ids")
            questions.append(Question(identity, asked, (answer,) if answer else (), gold, domain))
    return Raw(_documents(path, "id"), questions)


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


def _question(record: Mapping[str, Any], place: str, *, gold: Sequence[str], kind: str = "") -> Question:
    return Question(
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

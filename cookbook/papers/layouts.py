"""The layouts in which corpora with questions are published. Nothing is downloaded."""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from stratagraph.eval.layout_fields import (
    DocumentRecord,
    Question,
    Raw,
    Record,
    read_records,
    sentences_of,
    table,
    texts,
)
from stratagraph.importing.lines import json_value

_CORPUS = "_corpus.json"
_QUESTIONS = "_questions.json"  # of GraphRAG-Bench
_ARENA = "annotations_*_with_citation.jsonl"
_STORIES = ("documents.csv", "qaps.csv")
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
        sets = sorted((path / "Questions").glob(f"*{_QUESTIONS}"))
        if len(sets) == 1:
            return _graphrag_bench(sets[0])
        names_of_sets = ", ".join(f"Questions/{each.name}" for each in sets)
        raise ValueError(
            f"{str(path)!r} holds {len(sets)} sets of questions; give the path of one: {names_of_sets}"
        )
    if set(_STORIES) <= names:
        return _narrativeqa(path, split)
    if annotations := sorted(path.glob(_ARENA)):
        return _arena(path, annotations)
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
    records = read_records(path)
    if not records:
        raise ValueError(f"{path}: holds no record")
    for needed, read in _FILES:
        if needed <= records[0].fields.keys():
            return read(records)
    raise ValueError(
        f"{str(path)!r} is in no layout that is known: its records are not those of HotpotQA, MuSiQue, "
        f"2WikiMultiHopQA, UltraDomain or ALCE, and {path.stem}{_CORPUS}, where HippoRAG's questions have "
        "their corpus, is not there"
    )


def _plain(folder: Path) -> Raw:
    questions = [
        Question(
            record.text("id"),
            record.text("question"),
            record.texts("answers"),
            record.texts("supporting_ids"),
            record.word("type"),
        )
        for record in read_records(folder / "questions.jsonl")
    ]
    return Raw(_documents(folder / "corpus.jsonl", "id", rest=True), questions)


def _documents(path: Path, key: str, *, rest: bool = False) -> list[DocumentRecord]:
    """Documents of JSON lines with their id under `key`, and with `rest` other fields as metadata."""
    return [
        DocumentRecord(
            record.text(key),
            record.title,
            record.text("text"),
            {name: value for name, value in record.fields.items() if rest and name not in _FIELDS},
            record.place,
        )
        for record in read_records(path)
    ]


def _beir(folder: Path, split: str) -> Raw:
    """BEIR: judgements above 0 are gold. There are no answers."""
    gold = _judgements(folder / "qrels", split)
    documents = _documents(folder / "corpus.jsonl", "_id")
    queries = [(record.text("_id"), record.text("text")) for record in read_records(folder / "queries.jsonl")]
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
    for number, article in enumerate(read_records(folder / "corpus.json")):
        identity = article.word("url", "title") or str(number)
        title = article.title
        if title:
            ids.setdefault(title, identity)
        ids[identity] = identity
        extra = {key: article.fields[key] for key in _ARTICLE_KEYS if key in article.fields}
        documents.append(DocumentRecord(identity, title, article.word("body"), extra, article.place))
    questions = []
    for number, record in enumerate(read_records(folder / "MultiHopRAG.json")):
        gold = []
        for evidence in record.objects("evidence_list", optional=True):
            address, title = evidence.word("url"), evidence.title
            gold.append(ids.get(address) or ids.get(title) or address or title)
        answers, kind = record.texts("answer"), record.word("question_type")
        text = record.text("query")
        questions.append(Question(f"q{number:05}", text, answers, tuple(gold), kind))
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
    for number, record in enumerate(read_records(path)):
        gold = tuple(found(*each) for each in _gold(record))
        identity = record.word("id", "_id") or f"q{number:05}"
        answers = record.texts("answer", "answer_aliases")
        answers = answers or record.texts("reference", "gold_ans")
        # MuSiQue tells the number of hops in its ids alone.
        kind = record.word("type") or (identity.partition("__")[0] if "__" in identity else "")
        questions.append(Question(identity, record.text("question"), answers, gold, kind))
    return Raw(passages, questions)


def _passages(path: Path) -> list[DocumentRecord]:
    if not path.is_file():
        raise ValueError(f"{str(path)!r}, the corpus of the questions, is not there")
    value = json_value(path)
    if isinstance(value, dict):  # the older form: title to sentences
        value = [{"title": title, "text": sentences_of(text, str(path))} for title, text in value.items()]
    passages = []
    for number, each in enumerate(Record(str(path), {path.name: value}).objects(path.name, numbered=True)):
        identity = each.word("idx", "id") or f"p{number:05}"
        text = each.word("text", "paragraph_text")
        passages.append(DocumentRecord(identity, each.title, text, {}, each.place))
    return passages


def _gold(record: Record) -> list[tuple[str, str]]:
    """Title and text of the gold paragraphs, in any of the three forms that the files have."""
    if "supporting_facts" in record.fields:
        titles = {title for title, _ in record.pairs("supporting_facts")}
        pairs = record.pairs("context") if record.fields.get("context") else ()
        context = {title: sentences_of(lines, record.place) for title, lines in pairs}
        return [
            (title, context.get(title, "")) for title in dict.fromkeys([*context, *titles]) if title in titles
        ]
    key = "paragraphs" if record.fields.get("paragraphs") else "contexts"
    return [
        (each.title, each.word("text", "paragraph_text"))
        for each in record.objects(key, optional=True)
        if each.flag("is_supporting", default=True)
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
    corpora = Record(str(corpus), {"corpora": value if isinstance(value, list) else [value]})
    documents = [
        DocumentRecord(each.text("corpus_name"), "", each.text("context"), {}, each.place)
        for each in corpora.objects("corpora", numbered=True)
        if only in ("", each.fields.get("corpus_name"))
    ]
    if not documents:
        raise ValueError(f"{str(corpus)!r} has no corpus {only!r}")
    questions = []
    for record in read_records(path):
        if only not in ("", record.fields.get("source")):
            continue
        source, answers = record.text("source"), record.texts("answer")
        evidence = record.texts("evidence")
        gold = (source,) if len(documents) > 1 else ()
        questions.append(
            Question(
                record.text("id"),
                record.text("question"),
                answers,
                gold,
                record.word("question_type"),
                source=source,
                evidence=evidence if isinstance(record.fields.get("evidence"), list) else "".join(evidence),
            )
        )
    return Raw(documents, questions)


Records = Sequence[Record]


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
    for record in records:
        of_title: dict[str, str] = {}
        for title, sentences in record.pairs("context"):
            of_title[title] = corpus.add(title, sentences_of(sentences, record.place), record.place)
        gold = dict.fromkeys(title for title, _ in record.pairs("supporting_facts"))
        questions.append(_question(record, gold=[of_title.get(title, title) for title in gold], kind="type"))
    return Raw(corpus.documents(), questions)


def _musique(records: Records) -> Raw:
    corpus, questions = _Paragraphs(), []
    for record in records:
        gold = []
        for paragraph in record.objects("paragraphs"):
            text = paragraph.word("paragraph_text")
            identity = corpus.add(paragraph.title, text, record.place)
            if paragraph.flag("is_supporting", default=False):
                gold.append(identity)
        question = _question(record, gold=gold)
        answers = (*question.answers, *record.texts("answer_aliases"))
        questions.append(replace(question, answers=answers, type=question.id.partition("__")[0]))
    return Raw(corpus.documents(), questions)


def _ultradomain(records: Records) -> Raw:
    """UltraDomain: the book of each question is a document; books repeat."""
    ids: dict[str, str] = {}  # of books, by their texts
    documents: list[DocumentRecord] = []
    questions = []
    for number, record in enumerate(records):
        meta, text = record.fields.get("meta"), record.text("context")
        title = Record(record.place, meta).title if isinstance(meta, dict) else ""
        if text not in ids:
            ids[text] = record.word("context_id") or f"book {len(documents):04}"
            documents.append(DocumentRecord(ids[text], title, text, {}, record.place))
        kind, identity = record.word("label", "dataset"), record.word("_id") or f"q{number:05}"
        answers = record.texts("answers")
        questions.append(Question(identity, record.text("input"), answers, (ids[text],), kind))
    return Raw(documents, questions)


def _alce(records: Records) -> Raw:
    """ALCE (ASQA, QAMPARI, ELI5): the passages that come with the questions are the corpus, without gold."""
    corpus, questions = _Paragraphs(), []
    for record in records:
        for passage in record.objects("docs"):
            corpus.add(passage.title, passage.word("text"), record.place)
        parts = [pair.texts("short_answers") for pair in record.objects("qa_pairs", optional=True)]
        if not all(parts):  # a part without any wording scores nothing
            raise ValueError(
                f"{record.place}: 'short_answers' of each of 'qa_pairs' must hold an answer, and one does not"
            )
        parts = parts or [texts(each, f"{record.place}: 'answers'") for each in record.several("answers")]
        question = _question(record, gold=[])
        answers = question.answers or tuple(dict.fromkeys(text for part in parts for text in part))
        questions.append(replace(question, answers=answers, parts=tuple(part for part in parts if part)))
    return Raw(corpus.documents(), questions)


def _narrativeqa(folder: Path, split: str) -> Raw:
    """NarrativeQA: stories in `tmp/<id>.content` (or beside), as its script downloads them."""
    documents: list[DocumentRecord] = []
    for row in _rows(folder / "documents.csv", ("document_id", "set")):
        name = f"{row['document_id']}.content"
        if Path(name).name != name:
            raise ValueError(f"{folder / 'documents.csv'}: {row['document_id']!r} is no name of a story")
        story = next((path for at in ("tmp", ".") if (path := folder / at / name).is_file()), None)
        if row["set"] == split and story is not None:
            title = row.get("wiki_title") or ""
            text = story.read_text("utf-8", errors="replace")
            documents.append(DocumentRecord(row["document_id"], title, text, {}, str(story)))
    if not documents:
        raise ValueError(
            f"{str(folder)!r} has no story of the split {split!r}: NarrativeQA's script downloads them as "
            f"{folder / 'tmp'}/<document_id>.content"
        )
    path, columns = folder / "qaps.csv", ("document_id", "set", "question", "answer1", "answer2")
    questions = []
    for number, row in enumerate(_rows(path, columns)):
        if row["set"] == split:
            answers = texts([row["answer1"], row["answer2"]], f"{path}: 'answer1'")
            questions.append(Question(f"q{number:05}", row["question"], answers, (row["document_id"],)))
    return Raw(documents, questions)


def _arena(folder: Path, annotations: Sequence[Path]) -> Raw:
    """RAG-QA Arena: annotations by domain; their documents, RobustQA's, are published separately."""
    path = folder / "corpus.jsonl"
    if not path.is_file():
        raise ValueError(
            f"{str(folder)!r} has the annotations of RAG-QA Arena but no corpus.jsonl: its documents are "
            'those of RobustQA, to be put there as lines of {"id": ..., "text": ...}'
        )
    questions = []
    for each in annotations:
        domain = each.name.removeprefix("annotations_").removesuffix("_with_citation.jsonl")
        for number, record in enumerate(read_records(each)):
            answer = record.word("faithful_answer", "faithful_answer_w_citation", "answer")
            text = record.text("query" if "query" in record.fields else "question")
            identity = f"{domain}-{record.word('qid') or number}"
            gold = record.texts("gold_doc_ids")
            questions.append(Question(identity, text, (answer,) if answer else (), gold, domain))
    return Raw(_documents(path, "id"), questions)


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
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


def _question(record: Record, *, gold: Sequence[str], kind: str = "") -> Question:
    return Question(
        record.word("_id", "id", "sample_id") or record.place.rpartition("/")[2],
        record.text("question"),
        record.texts("answer"),
        tuple(gold),
        record.word(kind) if kind else "",
    )


_FILES: tuple[tuple[set[str], Callable[[Records], Raw]], ...] = (
    ({"question", "context", "supporting_facts"}, _hotpotqa),
    ({"question", "paragraphs"}, _musique),
    ({"input", "context", "answers"}, _ultradomain),
    ({"question", "docs"}, _alce),
)

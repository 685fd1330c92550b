"""The papers' data in the layouts in which they are published: what is read, and what is named."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.cases import Files, cases, put
from tests.papers import bench_questions

from stratagraph.eval import Dataset

layouts = pytest.importorskip("papers.layouts")
Asked = layouts.Asked


def load(folder: Path, files: Files) -> Dataset:
    """The data set in some files, named by the only one, by `x.json`, or by the folder."""
    put(folder, files)
    name = next(iter(files)) if len(files) == 1 else "x.json" if "x.json" in files else ""
    return layouts.read(str(folder / name))


@pytest.mark.parametrize("case", cases(__file__, "layouts"), ids=lambda case: case[0])
def test_documents_and_questions_of_each_layout(tmp_path: Path, case: Any) -> None:
    _, files, documents, questions = case
    dataset = load(tmp_path, files)
    assert [item.id for item in dataset.documents] == documents
    assert json.loads(json.dumps([asdict(each) for each in dataset.questions])) == [
        json.loads(json.dumps(asdict(Asked(**{"answers": (), **each})))) for each in questions
    ]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *cases(__file__, "unreadable"),
        ({"x.json": "[" * 100_000}, r"x\.json: not readable: nested too deeply"),
        ({"x.json": b"\xff\xfe"}, r"x\.json: not UTF-8 at byte 1"),
        ({"documents.csv": b"document_id,set\n\xff,test\n", "qaps.csv": ""}, r"documents\.csv: not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, files: Files, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, files)


def test_graphrag_bench_has_types_sources_and_evidence(tmp_path: Path) -> None:
    path = bench_questions.written(tmp_path)
    dataset = layouts.read(str(path))
    assert dataset.questions == layouts.read(str(tmp_path)).questions, "the folder, where it has one set"
    (document,) = dataset.documents
    assert (document.id, document.text) == ("Islands", bench_questions.CORPUS["context"])
    first, second, *_ = dataset.questions
    assert (first.id, first.type, first.source) == ("Islands-1", "Fact Retrieval", "Islands")
    assert (first.answers, first.supporting_ids) == (("Orrin sells honey to Sarn.",), ()), "one text: no gold"
    assert (first.evidence, second.evidence) == (
        ("Orrin sells honey to Sarn.",),
        "Ada Loom keeps the bees of Orrin",
    )
    with pytest.raises(ValueError, match=r"islands.json' has no corpus 'Lakes'"):
        layouts.read(str(path / "Lakes"))
    bench_questions.written(tmp_path, name="hills")
    with pytest.raises(ValueError, match=r"holds 2 sets .*hills_questions.json, Questions/islands_questions"):
        layouts.read(str(tmp_path))
    (tmp_path / "Questions" / "hills_questions.json").unlink()
    (tmp_path / "Corpus" / "islands.json").unlink()
    with pytest.raises(ValueError, match=r"islands.json', the corpus of .* is not there"):
        layouts.read(str(tmp_path))

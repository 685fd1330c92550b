"""cookbook/papers.py: every table has a line in papers.md, and runs end to end, once."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("openai")
pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

import stratagraph as sg
from stratagraph.config import as_config
from stratagraph.demo import documents
from stratagraph.eval.names import RowName, check_rows
from tests.clients.server import ModelServer
from tests.eval.bench_questions import written
from tests.eval.replies import replies

COOKBOOK = Path(__file__).parents[1] / "cookbook"
PAPERS = {"ArchRAG": 15, "NodeRAG": 7, "HiRAG": 10, "LSH tree": 5, "GraphRAG-Bench": 1}


@pytest.fixture(autouse=True)
def cookbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(COOKBOOK))


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def papers(*arguments: str) -> Done:
    """The command in this process; what it runs are processes of their own."""
    module, out, err = importlib.import_module("papers"), io.StringIO(), io.StringIO()
    module.wants_texts.cache_clear()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["papers.py", *arguments])
        try:
            code = module.main()
        except SystemExit as stopped:
            code = stopped.code
    return Done(code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "islands"
    folder.mkdir()
    texts = {
        "orrin": "Orrin sells honey to Sarn.",
        "sarn": "Sarn lies south of Orrin. Ada Loom lives in Sarn.",
    }
    lines = [json.dumps({"id": key, "text": text}) for key, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    asked = {
        "id": "q",
        "question": "What does Orrin sell?",
        "answers": ["honey"],
        "supporting_ids": ["orrin"],
    }
    (folder / "questions.jsonl").write_text(json.dumps(asked), "utf-8")
    return folder


def test_every_table_has_its_line() -> None:
    listed = papers("--list").stdout.splitlines()
    names = [line.split()[0] for line in listed]
    assert {paper: sum(f" {paper}, " in line for line in listed) for paper in PAPERS} == PAPERS
    page = (COOKBOOK / "papers.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z]+-(?:(?:table|figure)-\d+|bench))` \|", page, re.MULTILINE) == names


def test_every_row_and_setting_of_a_table_is_one_that_can_be_measured() -> None:
    tables = importlib.import_module("papers_tables").TABLES.values()
    checked = 0
    for table in tables:
        for step in (*table.steps, *table.with_model):
            check_rows(step.methods, "chunks", as_config(step.config))
            assert not step.script or (COOKBOOK / "benchmarks" / step.script).is_file()
            checked += len(step.methods)
    assert checked > 150


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("archrag-table-3", "needs DATA: MultiHop-RAG"),
        ("archrag-table-3 demo", "needs a chat model: give --llm"),
        ("archrag-table-99", "invalid choice: 'archrag-table-99'"),
        ("lsh-figure-5 demo --questions 2", "which takes no --questions"),
        ("hirag-figure-4 demo --llm m", "takes no --llm"),
    ],
)
def test_what_is_lacking_is_said(arguments: str, said: str) -> None:
    assert said in papers(*arguments.split()).stderr


def test_a_table_is_run_until_every_row_stands(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with ModelServer("wrong_key", write=replies) as server:
        models = ("--llm", f"openai:m@{server.openai}", "--embedder", "hashing")
        given = ("archrag-table-8", str(corpus), *models, "--work", str(tmp_path / "work"))
        failed = papers(*given)
        assert failed.returncode == 3, failed.stderr
        assert "left out: graphrag_global on islands: " in capfd.readouterr().err
        assert "rows failed and were left out" in failed.stdout
        server.mode = "ok"
        done = papers(*given)
        assert done.returncode == 0, done.stderr
        told = capfd.readouterr().out
        assert "graphrag_global?communities=attributed" in told
        assert "failed:" not in told
        assert re.search(r"^graphrag_global .*1\.000", told, re.MULTILINE)
        asked = server.requests
        assert papers(*given).returncode == 0
        assert server.requests == asked, "every call comes from the cache"


def test_graphrag_bench_writes_the_answers_of_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    data, work = written(tmp_path / "data"), tmp_path / "work"
    with ModelServer("ok", write=replies) as server:
        models = ("--llm", f"openai:m@{server.openai}", "--embedder", "hashing")
        done = papers("graphrag-bench", str(data), *models, "--work", str(work))
    assert done.returncode == 0, done.stderr
    told = capfd.readouterr().out
    assert "failed:" not in told
    assert "Creative Generation (1) faithfulness" in told
    assert len(list((work / "answers").iterdir())) == 8


@pytest.fixture
def dry(corpus: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """The commands of a table with the corpus and further options."""

    def lines(arguments: str) -> list[str]:
        table, *more = arguments.split()
        done = papers(table, str(corpus), *more, "--work", str(tmp_path / "work"), "--dry-run")
        assert done.returncode == 0, done.stderr
        return [line.removeprefix("$ ") for line in done.stdout.splitlines()]

    return lines


def test_answers_are_compared_on_the_questions_that_the_data_have_for_it(corpus: Path, dry: Any) -> None:
    (short,) = dry("hirag-table-1 --llm m")
    assert "--abstract" in short
    assert len(dry("noderag-table-1 --llm m")) == 1

    questions = corpus / "questions.jsonl"
    questions.write_text(questions.read_text("utf-8").replace("honey", "honey and wax " * 12), "utf-8")
    (long,) = dry("hirag-table-1 --llm m")
    assert "--head-to-head" in long
    assert "--abstract" not in long
    gold, *pairs = dry("noderag-table-1 --llm m")
    assert "--against-gold" in gold
    assert len(pairs) == 5
    assert all("--head-to-head" in line for line in pairs)


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ("archrag-table-8 --llm m", "--llm m --questions 2"),
        ("archrag-table-8 --llm m --questions 1", "--questions 1"),
        ("archrag-figure-7", "--small"),
        ("hirag-figure-5", "--embedder hashing --questions 10"),
    ],
)
def test_a_small_form_asks_two_questions_and_reduces_scripts(dry: Any, arguments: str, end: str) -> None:
    (line,) = dry(f"{arguments} --small")
    assert line.endswith(end)


@pytest.mark.parametrize(
    ("table", "lines"), [("noderag-table-2", [1, 2]), ("archrag-table-9", [1, 1]), ("lsh-figure-5", [1, 7])]
)
def test_a_model_adds_what_needs_one(dry: Any, table: str, lines: list[int]) -> None:
    assert [len(dry(f"{table}{model}")) for model in ("", " --llm m")] == lines
    assert "--llm" not in dry(table)[0]
    assert dry(f"{table} --llm m")[-1].endswith("--llm m")


def test_the_search_is_compared_on_real_vectors_with_the_libraries_that_are_here(
    corpus: Path, dry: Any
) -> None:
    pytest.importorskip("hnswlib")
    (line,) = {dry(f"archrag-figure-{number}")[0] for number in (6, 9)}
    assert f"--leaves 90000 --data real --texts {corpus.parent} " in line
    assert "--libraries hnswlib" in line


def test_a_table_that_lacks_a_package_is_refused_and_left_out_of_a_group(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    named = papers("archrag-figure-6", str(corpus), "--dry-run")
    assert named.returncode == 2
    assert "pip install hnswlib" in named.stderr
    group = papers("no-model", str(corpus), "--dry-run")
    assert group.returncode == 3
    lines = [line for line in group.stderr.splitlines() if line.startswith("left out: ")]
    assert [line.split()[2] for line in lines] == ["archrag-figure-6:", "archrag-figure-9:"]
    assert all(line.endswith("pip install hnswlib") for line in lines)
    assert "communities.py" in group.stdout
    assert "chnsw.py" not in group.stdout


def test_the_rows_of_a_sweep_differ_and_none_is_filled_up_with_passages() -> None:
    (step,) = importlib.import_module("papers_tables").TABLES["archrag-figure-10"].steps
    found = []
    with sg.build_index(documents(), "archrag", embedder=sg.HashingEmbedder(), progress=False) as index:
        for name in step.methods:
            hits = index.retrieve("Who kept the lamp?", **RowName.of(name, "default").search).hits
            assert {hit.kind for hit in hits} <= {"community", "entity", "relation"}
            found.append(tuple(hit.id for hit in hits))
    assert [name.partition("&")[0] for name in step.methods] == [
        f"archrag?k_per_level={k}" for k in (2, 3, 5, 7, 9)
    ]
    assert len(set(found)) == 5
    assert sorted(map(len, found)) == list(map(len, found))


def test_the_papers_own_figures_belong_to_tables() -> None:
    tables = importlib.import_module("papers_tables").TABLES
    assert importlib.import_module("papers_figures").PRINTED.keys() <= tables.keys()

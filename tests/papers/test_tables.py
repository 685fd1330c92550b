"""Every table of the papers has a line in README.md, and its rows run, small, with a scripted model."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("openai")
pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

from papers.harness import SYSTEMS, Models, measure
from papers.layouts import Asked, read
from papers.tables import TABLES, Rows, Script
from tests.clients.server import ModelServer, every
from tests.papers.bench_questions import QUESTIONS, written
from tests.papers.replies import replies

import stratagraph as sg
from papers import clusterings, comparing, run, wording
from stratagraph.config import as_config
from stratagraph.eval.metrics import Difference
from stratagraph.eval.names import check_rows
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls, ScriptedChatModel

PAPERS = {"ArchRAG": 15, "NodeRAG": 7, "HiRAG": 10, "LSH tree": 5, "GraphRAG-Bench": 1, "HippoRAG": 1}
COOKBOOK = Path(run.__file__).parents[1]
STEPS = [step for table in TABLES.values() for step in (*table.steps, *table.with_model)]
PLACES = ("Crake", "Perrow", "Tarrant", "Hathe", "Ansley", "Marl")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def papers(*arguments: str) -> Done:
    """The command in this process; scripts that it runs are processes of their own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["papers", *arguments])
        try:
            code: Any = run.main()
        except SystemExit as stopped:
            code = stopped.code
    return Done(code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "islands"
    folder.mkdir()
    lines = [
        {
            "id": place,
            "text": f"{place} lies north of {after}. Ada {place} kept the bees of {after} for honey.",
        }
        for place, after in zip(PLACES, (*PLACES[1:], PLACES[0]), strict=True)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    asked = {"id": "q", "question": "Who kept the bees of Perrow?", "answers": ["honey"]}
    (folder / "questions.jsonl").write_text(json.dumps(asked | {"supporting_ids": ["Crake"]}), "utf-8")
    return folder


def test_every_table_has_its_line_and_rows_that_can_be_measured() -> None:
    listed = papers("--list").stdout.splitlines()
    names = [line.split()[0] for line in listed]
    assert {paper: sum(f" {paper}, " in line for line in listed) for paper in PAPERS} == PAPERS
    page = (COOKBOOK / "papers" / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z]+-(?:(?:table|figure)-\d+|bench|recall))` \|", page, re.MULTILINE) == names
    printed = (COOKBOOK / "papers" / "printed.md").read_text("utf-8")
    assert set(re.findall(r"^## (.+)$", printed, re.MULTILINE)) <= TABLES.keys()
    for step in STEPS:
        if isinstance(step, Script):
            assert (COOKBOOK / "benchmarks" / step.script).is_file()
        else:
            own = [row for row in step.rows if row.partition("/")[0] not in SYSTEMS]
            check_rows(own, "default", as_config(step.config))


def test_every_row_of_every_table_is_answered_and_judged_by_a_server_that_fails_now_and_then(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    rows = tuple(dict.fromkeys(row for step in STEPS if isinstance(step, Rows) for row in step.rows))
    config = {"hirag": {"cluster_size": 2, "max_cluster": 4}}
    with ModelServer(every(7, "500"), write=replies) as server:
        named = [f"openai:{name}@{server.openai}" for name in ("m", "a")]
        models = Models(tmp_path / "cache", named[0], (named[1],), FakeEmbedder())
        found, told = measure(Rows(rows, config=config), read(str(corpus)), models)
        assert len(found.rows) == len(rows) > 50
        for row in found.rows:
            assert not row.error, row.name
            assert row.answers[0], row.name
            assert found.mean(row.name, "judged") is not None, row.name
            assert {"bleu1", "meteor", "rouge_l", "answer_recall"} <= row.scores.keys()
        asked = {row.name: row.asking.calls + row.asking.cached_calls for row in found.rows}
        assert asked["hyde"] == asked["hipporag2"] == asked["lightrag"] == 1
        assert "search: tokens in" in told


def test_a_table_is_run_until_every_row_stands(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with ModelServer("wrong_key", write=replies) as server:
        models = ("--llm", f"openai:m@{server.openai}", "--embedder", "hashing")
        given = ("archrag-table-8", str(corpus), *models, "--work", str(tmp_path / "work"))
        failed = papers(*given)
        assert failed.returncode == 3, failed.stderr
        assert "left out: graphrag_global on islands: " in failed.stderr
        assert "rows failed and were left out" in failed.stdout
        server.mode = "ok"
        done = papers(*given)
        assert done.returncode == 0, done.stderr
        assert "graphrag_global-attributed" in done.stdout
        assert "failed:" not in done.stdout
        assert "as printed there" in done.stdout
        requests = server.requests
        assert papers(*given).returncode == 0
        assert server.requests == requests, "every call comes from the cache"


def test_answers_are_compared_in_both_orders(corpus: Path, tmp_path: Path) -> None:
    step = Rows(("dense", "bm25"), "dense", "reference")
    models = Models(tmp_path, ScriptedChatModel(replies), (), FakeEmbedder())
    found, told = measure(step, read(str(corpus)), models)
    assert {each.type for each in found.questions} == {"abstract"}, "short answers: questions about the whole"
    assert re.search(r"^bm25 +0/2/0 0\.50 \[0\.50, 0\.50\]", told, re.MULTILINE)
    assert found.row("bm25").judging.calls == 2, "two answers are the same in both orders"


def test_graphrag_bench_is_judged_by_type_and_its_answers_are_written(tmp_path: Path) -> None:
    said = "Orrin trades."
    statements = {said: ["a", "b", "c"], QUESTIONS[0]["answer"]: ["a"], QUESTIONS[3]["answer"]: ["a", "d"]}
    statements[QUESTIONS[4]["answer"]] = ["a", "b", "e", "f"]

    def judging(prompt: str) -> str:
        """Of the answer's three statements the first two are right."""
        if '"statements"' in prompt:
            text = prompt.rpartition("<answer>\n")[2].partition("\n</answer>")[0]
            return json.dumps({"statements": statements.get(text, [])})
        if '"supported"' in prompt:
            missing = prompt.rpartition("<reference>\n")[2].partition("\n</reference>")[0].count(". ") - 1
            return json.dumps({"supported": ["[1]", 1, 2, 9], "missing": list(range(1, missing + 1))})
        if '"held"' in prompt:
            return json.dumps({"held": [1] if "1. a\n2. b\n3. c" in prompt else [1, 2, 7]})
        if "<passages>" in prompt or "from what you know" in prompt:
            return "" if QUESTIONS[1]["question"] in prompt else said
        return replies(prompt)

    models = Models(tmp_path / "work" / "cache", ScriptedChatModel(judging), (), FakeEmbedder())
    found, told = measure(Rows(("dense", "zero_shot")), read(str(written(tmp_path / "data"))), models)
    row = found.row("dense")
    assert not row.error
    right = FakeEmbedder().embed_documents([said, *(each["answer"] for each in QUESTIONS)])
    alike = [(sum(a * b for a, b in zip(right[0], each, strict=True)) + 1) / 2 for each in right[1:]]
    # Two of three statements are right; of the gold answers' one, two and four, none, one and three lack.
    for at, f1 in ((0, 4 / 5), (3, 4 / 6), (4, 4 / 8)):
        assert row.scores["correctness"][at] == pytest.approx(0.75 * f1 + 0.25 * alike[at], abs=1e-4)
    assert row.scores["correctness"][1] == 0.0, "no answer"
    assert row.scores["correctness"][2] == pytest.approx(0.25 * alike[2], abs=1e-4), (
        "no statement in the gold"
    )
    assert row.scores["coverage"] == (None, None, None, 1.0, 0.5)
    assert row.scores["faithfulness"] == (None, None, None, None, pytest.approx(1 / 3))
    assert found.row("zero_shot").scores["faithfulness"][4] == 0.0, "without a context nothing is faithful"
    assert "Creative Generation (1) faithfulness" in told
    run.statements.save_answers(found, tmp_path / "answers")
    (dense, _) = sorted((tmp_path / "answers").iterdir())
    first = json.loads(dense.read_text("utf-8"))[0]
    assert {key: first[key] for key in ("id", "source", "generated_answer", "ground_truth")} == {
        "id": "Islands-1",
        "source": "Islands",
        "generated_answer": said,
        "ground_truth": QUESTIONS[0]["answer"],
    }


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


@pytest.fixture
def dry(corpus: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """The steps of a table with the corpus and further options."""

    def lines(arguments: str) -> list[str]:
        table, *more = arguments.split()
        done = papers(table, str(corpus), *more, "--work", str(tmp_path / "work"), "--dry-run")
        assert done.returncode == 0, done.stderr
        return [line.removeprefix("$ ") for line in done.stdout.splitlines()]

    return lines


def test_the_steps_of_a_table_fit_the_data_and_the_options(corpus: Path, dry: Any) -> None:
    assert len(dry("noderag-table-1 --llm m")) == 1, "short answers"
    questions = corpus / "questions.jsonl"
    questions.write_text(
        questions.read_text("utf-8").replace('"honey"', '"' + "honey and wax " * 12 + '"'), "utf-8"
    )
    gold, *pairs = dry("noderag-table-1 --llm m")
    assert gold.endswith("against gold")
    assert len(pairs) == 5
    for table, lines in (("noderag-table-2", [1, 2]), ("archrag-table-9", [1, 1]), ("lsh-figure-5", [1, 7])):
        assert [len(dry(f"{table}{model}")) for model in ("", " --llm m")] == lines
    assert dry("archrag-figure-7 --small")[0].endswith("--small")
    pytest.importorskip("hnswlib")
    (line,) = {dry(f"archrag-figure-{number}")[0] for number in (6, 9)}
    assert f"--leaves 90000 --data real --texts {corpus.parent} " in line


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
    assert "communities.py" in group.stdout
    assert "chnsw.py" not in group.stdout


def judge(prefers: Callable[[str, str], str]) -> ModelGate:
    """A judge by what it makes of the first and the second answer."""

    def write(prompt: str) -> str:
        first, second = (
            prompt.split(f"<{tag}>\n")[-1].split(f"\n</{tag}>")[0]
            for tag in ("first-answer", "second-answer")
        )
        return json.dumps(dict.fromkeys(comparing.CRITERIA, prefers(first, second)))

    return ModelGate(ScriptedChatModel(write), None, cache=MemoryCalls())


def for_good(first: str, second: str) -> str:
    return "first" if first == "good" else "second" if second == "good" else "tie"


def test_an_honest_judge_is_consistent_and_most_judges_decide() -> None:
    asked, good, bad = [f"q{n}" for n in range(6)], ["good"] * 6, ["bad"] * 6
    honest = comparing.head_to_head([judge(for_good)], asked, good, bad)["overall"]
    assert (honest.wins, honest.win_rate, honest.consistency, honest.agreement) == (6, 1, 1, None)
    assert honest.interval == Difference(1, 1, 1, 6)
    partial = comparing.head_to_head([judge(lambda first, second: "first")], asked, good, bad)["overall"]
    assert (partial.ties, partial.win_rate, partial.consistency) == (6, 0.5, 0), (
        "who favours a place says tie"
    )
    half = judge(lambda first, second: "first" if first == "good" else "tie")
    assert comparing.head_to_head([half], asked, good, bad)["overall"].wins == 6, "won once and never lost"
    against = judge(
        lambda first, second: {"first": "second", "second": "first"}.get(for_good(first, second), "tie")
    )
    ours, theirs = [*good[:3], *bad[:2], "even"], [*bad[:3], *good[:2], "even"]
    most = comparing.head_to_head([judge(for_good), judge(for_good), against], asked, ours, theirs)["overall"]
    assert (most.wins, most.ties, most.losses) == (3, 1, 2)
    broken = ModelGate(ScriptedChatModel("no verdict"), None, cache=MemoryCalls())
    found = comparing.head_to_head([judge(for_good), broken], asked, [None, *good[1:]], bad)["overall"]
    assert (found.wins, found.agreement) == (5, None), "a missing answer and unreadable verdicts are left out"


def test_metrics_of_wording_are_those_of_the_papers() -> None:
    # All four words match in one chunk: F-mean 1, penalty 0.5 * (1/4)**3.
    assert wording.meteor("salt bridge comet bell", ["salt bridge comet bell"]) == pytest.approx(1 - 0.5 / 64)
    assert wording.meteor("letters", ["letter"]) > 0, "stems match"
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    assert (
        wording.rouge_l("a bell and salt", ["salt bell"])
        == scorer.score("salt bell", "a bell and salt")["rougeL"].fmeasure
    )
    assert wording.token_recall("Yes, it did", ["yes"]) == wording.token_recall("ferry", ["no ferry"]) == 0
    assert wording.token_recall("a ferry at noon", ["noon ferry"]) == 1
    assert wording.bleu1("salt", ["oil"]) == 0
    asked = Asked("a", "Which?", ("Orrin and Sarn",), parts=(("Orrin", "Orin"), ("Sarn",)))
    found = wording.scores([asked, asked, asked], ["It is Orin.", "Sarn, Orrin.", None])
    assert [found[name] for name in ("strrec", "strem", "strhit")] == [(0.5, 1, 0), (0, 1, 0), (1, 1, 0)]


@pytest.mark.parametrize("name", ["spectral", "scan", "node2vec"])
def test_clusterings_find_planted_communities_and_any_graph_is_divided(name: str) -> None:
    rng, groups = np.random.default_rng(1), np.repeat(np.arange(20), 10)
    linked = rng.random((200, 200)) < np.where(groups[:, None] == groups, 0.8, 0.01)
    ends = np.argwhere(np.triu(linked, 1))
    labels = getattr(clusterings, name)(np.zeros((200, 1)), ends, np.ones(len(ends)), 15)
    adjusted_rand_score = pytest.importorskip("sklearn.metrics").adjusted_rand_score
    assert adjusted_rand_score(groups, labels) > 0.85
    star = np.column_stack([np.zeros(40, np.int64), np.arange(1, 41)])
    for ends, nodes in ((star, 41), (star[:0], 20), (star[:2], 3)):
        labels = getattr(clusterings, name)(np.zeros((nodes, 1)), ends, np.ones(len(ends)), 15)
        assert labels.shape == (nodes,)
        assert labels.min() >= 0


def test_the_grid_is_a_choice_of_the_method() -> None:
    clusterings.register()
    texts = [f"{name} {n} knows {name} {n + 1} and {name} {n + 2}." for name in PLACES[:4] for n in range(6)]
    config = {"clustering": "custom:scan", "augmentation": "custom:codicil", "max_community": 8}
    settings: Any = {"embedder": FakeEmbedder(32), "config": {"archrag": config}, "progress": False}
    with sg.build_index(texts, "archrag", **settings) as index:
        sizes = [len(node.members) for node in index.nodes("archrag") if node.level == 1]
    assert sizes
    assert max(sizes) <= 8

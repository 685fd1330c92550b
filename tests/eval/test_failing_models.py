"""Rows whose model fails: what fails is named, counts as its own, and ends nothing else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

pytest.importorskip("openai")
pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

from tests.clients.server import ModelServer, every
from tests.eval.replies import replies

from stratagraph.cli.options import models_options
from stratagraph.cli.output import command
from stratagraph.eval import AnswerConfig, evaluate, load_dataset
from stratagraph.eval.command import eval_command
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

BASELINES = (
    "bm25",
    "hyde",
    "zero_shot",
    "cot",
    "raptor/nodes",
    "hipporag",
    "hipporag2",
    "fastgraphrag/nodes",
    "kag",
    "graphrag_local/nodes",
    "graphrag_global?own_prompt=true",
    "lightrag/nodes?mode=mix",
)
METHODS = (
    "archrag?own_prompt=true",
    "archrag?mode=direct&own_prompt=true",
    "archrag/nodes?levels=[0]",
    "noderag?own_prompt=true",
    "noderag/nodes?mode=entry",
    'noderag/nodes?types=["T","S"]',
    "noderag/nodes?steps=null",
    "hirag?own_prompt=true",
    "hirag/nodes?mode=no_bridge",
    "hirag/nodes?mode=local",
    "lshtree?own_prompt=true",
    "lshtree/nodes?mode=per_level",
    "lshtree/nodes?levels=[0]",
)
"""The ablations of the papers' tables."""
PLACES = ("Crake", "Perrow", "Tarrant", "Hathe", "Ansley", "Marl")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [
        f"{place} lies north of {after}. Ada {place} kept the bees of {after} and wrote to Ben {after}."
        for place, after in zip(PLACES, (*PLACES[1:], PLACES[0]), strict=True)
    ]
    lines = [json.dumps({"id": place, "text": text}) for place, text in zip(PLACES, texts, strict=True)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines), "utf-8")
    question = {"id": "q", "question": "Who kept the bees of Perrow?", "answers": ["Ada Crake"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question | {"supporting_ids": ["Crake"]}), "utf-8")
    return tmp_path


def run(data: str | Path, server: ModelServer, rows: tuple[str, ...], *more: str) -> Result:
    """`stratagraph eval` with a model and a judge behind a server."""
    group = click.Group(commands=[eval_command(command, models_options)])
    models = ("--llm", f"openai:m@{server.openai}", "--judge", f"openai:a@{server.openai}")
    given = ("--methods", ",".join(rows), "--questions", "2", "--embedder", "hashing")
    result = CliRunner().invoke(group, ["eval", str(data), *given, *models, *more])
    assert result.exit_code == 0, result.output
    return result


def rows_of(result: Result) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(result.stdout)["rows"]}


def misbehaving(at: int) -> str:
    return ("wrong_key", "context", "truncated", "refusal")[at // 8 % 4] if at % 8 == 7 else "ok"


def test_every_baseline_stands_a_misbehaving_server(corpus: Path, tmp_path: Path) -> None:
    def asked(body: dict[str, Any]) -> str:
        return json.dumps([body["model"], body["messages"]])

    again = ("--json", "--cache", str(tmp_path / "cache"))
    with ModelServer(misbehaving, write=replies) as server:
        for name, row in rows_of(run(corpus, server, BASELINES, *again)).items():
            assert not row["error"], name
            assert None not in row["answers"] or row["failures"], name
        requests = server.requests
        answered = {asked(body) for at, body in enumerate(server.bodies) if server.mode_of(at) == "ok"}
        server.mode = "ok"
        rows = rows_of(run(corpus, server, BASELINES, *again))
    assert not any(asked(body) in answered for body in server.bodies[requests:]), "what was paid is kept"
    assert not any(row["failures"] for row in rows.values())


def test_every_ablation_is_answered_and_judged_by_a_server_that_fails_now_and_then(corpus: Path) -> None:
    config = corpus / "config.json"
    config.write_text(json.dumps({"hirag": {"cluster_size": 2, "max_cluster": 4}}), "utf-8")
    more = ("--reference", METHODS[0], "--config", str(config), "--json")
    with ModelServer(every(5, "500"), write=replies) as server:
        rows = rows_of(run(corpus, server, METHODS, *more))
    assert set(rows) == set(METHODS)
    for name, row in rows.items():
        assert not row["error"], name
        assert row["answers"][0], name
        assert row["means"]["judged"] is not None, name
        for kind in ("usage", "judging"):
            assert row[kind]["calls"] + row[kind]["cached_calls"] >= 1, name


def test_a_repeated_comparison_has_the_same_questions_and_repeats_no_call(
    corpus: Path, tmp_path: Path
) -> None:
    more = ("--abstract", "--cache", str(tmp_path / "cache"))
    with ModelServer("ok", write=replies) as server:
        assert "answers against dense" in run(corpus, server, ("bm25",), *more).output
        requests = server.requests
        run(corpus, server, ("bm25",), *more)
        assert server.requests == requests


def scripted(fails: Callable[[str], bool]) -> ScriptedChatModel:
    return ScriptedChatModel(lambda prompt: "" if fails(prompt) else replies(prompt))


def summarises(prompt: str) -> bool:
    return "passages that are about related things" in prompt


def extracts_from(text: str) -> Callable[[str], bool]:
    return lambda prompt: text[:40] in prompt and "<passages>" not in prompt and "<reports>" not in prompt


def test_failures_of_one_baseline_are_not_counted_against_the_others() -> None:
    dataset = load_dataset("demo").head(1)
    of_one = extracts_from(dataset.documents[7].text)
    model = scripted(lambda prompt: summarises(prompt) or of_one(prompt))
    found = evaluate(dataset, ["raptor", "hipporag"], llm=model, embedder=FakeEmbedder(), resamples=10)
    assert found.row("raptor").error.startswith("TooManyFailures")
    graph = found.row("hipporag")
    assert not graph.error
    assert Counter(each.stage for each in graph.failures) == {"extract": 1}
    assert graph.failures[0].documents == (dataset.documents[7].id,)
    assert "failed: hipporag: extract: 1 unit," in str(found)


def test_a_graph_that_could_not_be_made_is_not_asked_for_again() -> None:
    dataset = load_dataset("demo").head(1)
    rows = ["hipporag", "kag", "graphrag_local"]
    model = scripted(lambda prompt: not any(tag in prompt for tag in ("<passages>", "<reference-")))
    found = evaluate(dataset, rows, llm=model, embedder=FakeEmbedder(), resamples=10)
    assert all(found.row(name).error.startswith("TooManyFailures") for name in rows)
    assert not found.row("dense").error
    assert Counter(model.prompts).most_common(1)[0][1] == 1


def test_a_question_that_the_model_fails_for_is_searched_all_the_same() -> None:
    dataset = load_dataset("demo").head(3)
    bad = dataset.questions[1].question
    model = scripted(lambda prompt: bad in prompt and "Write a short passage" in prompt)
    found = evaluate(dataset, ["hyde"], llm=model, embedder=FakeEmbedder(), resamples=10)
    row = found.row("hyde")
    assert not row.error
    assert [(each.stage, each.item) for each in row.failures] == [("ask hyde", bad)]
    assert row.scores["recall@5"][1] == found.row("dense").scores["recall@5"][1]
    assert "failed: ask hyde: 1 of 3 questions" in str(found)


def test_what_searches_ask_themselves_is_counted_once_and_apart() -> None:
    dataset = load_dataset("demo").head(3)
    model = scripted(lambda prompt: False)
    rows = ["hyde", "lightrag", "hipporag2", "noderag?decompose=true", "cot"]
    found = evaluate(dataset, rows, llm=model, embedder=FakeEmbedder(), resamples=10)
    calls = {row.name: row.asking.calls for row in found.rows}
    assert calls == {
        "hyde": 3,
        "lightrag": 3,
        "hipporag2": 3,
        "noderag?decompose=true": 3,
        "cot": 0,
        "dense": 0,
    }
    for row in found.rows:
        assert row.usage.calls + row.usage.cached_calls == 3, row.name
        assert row.judging.calls + row.judging.cached_calls == 3, row.name
        assert row.asking.cached_calls == 0, row.name
    assert "search: tokens in" in str(found)
    assert found.to_dict()["rows"][0]["asking"]["calls"] == 3


def test_baselines_ask_about_several_questions_at_once_with_the_same_results() -> None:
    class Slow:
        name = "slow"

        def __init__(self, concurrency: int) -> None:
            self.now = self.most = 0
            self.concurrency = concurrency

        async def acomplete(self, prompt: str, *, schema: Any = None) -> str:
            if any(each in prompt for each in asking):
                self.now += 1
                self.most = max(self.most, self.now)
                for _ in range(200):  # let others ask before this one is answered
                    if self.most >= self.concurrency:
                        break
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.01)
                self.now -= 1
            return replies(prompt)

    dataset = load_dataset("demo").head(5)
    asking = ("Write a short passage", "low_level", '"facts"')
    rows, answers = ["hyde", "lightrag", "hipporag2"], AnswerConfig(judge=False)
    found = {}
    for concurrency in (1, 4):
        model = Slow(concurrency)
        config = {"limits": {"concurrency": concurrency}}
        found[concurrency] = evaluate(
            dataset, rows, llm=model, embedder=FakeEmbedder(), config=config, answers=answers, resamples=10
        )
        assert model.most == concurrency
    for one, several in zip(found[1].rows, found[4].rows, strict=True):
        assert several.scores == one.scores, one.name
        assert several.asking.calls == one.asking.calls, one.name
    assert all(min(found[4].row(name).latency_ms) >= 9 for name in rows), "the model's time counts"

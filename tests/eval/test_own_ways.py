"""`stratagraph eval` of methods as they are: their ablations and own prompts, a model and a judge by name."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

pytest.importorskip("openai")
pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

from tests.clients.server import ModelServer, every
from tests.clients.writer import written
from tests.eval.replies import replies

from stratagraph.cli.main import command, models_options
from stratagraph.eval.command import eval_command

PLACES = ("Crake", "Perrow", "Tarrant", "Hathe", "Ansley", "Marl")
ROWS = (
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


def write(prompt: str) -> str:
    """Judges answers too."""
    return json.dumps({"correct": True}) if "<reference-answers>" in prompt else written(prompt)


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


def measured(corpus: Path, server: ModelServer, *more: str) -> dict[str, dict[str, object]]:
    config = corpus / "config.json"
    config.write_text(json.dumps({"hirag": {"cluster_size": 2, "max_cluster": 4}}), "utf-8")
    group = click.Group(commands=[eval_command(command, models_options)])
    model = f"openai:m@{server.openai}"
    given = ("--methods", ",".join(ROWS), "--reference", ROWS[0], "--config", str(config), "--json")
    models = ("--llm", model, "--judge", model, "--embedder", "hashing")
    result = CliRunner().invoke(group, ["eval", str(corpus), *given, *models, *more])
    assert result.exit_code == 0, result.output
    return {row["name"]: row for row in json.loads(result.stdout)["rows"]}


def test_every_ablation_is_answered_and_judged_by_a_server_that_fails_now_and_then(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with ModelServer(every(5, "500"), write=write) as server:
        rows = measured(corpus, server)
    assert set(rows) == set(ROWS)
    for name, row in rows.items():
        assert not row["error"], name
        assert row["answers"][0], name
        assert row["means"]["judged"] == 1, name
        for kind in ("usage", "judging"):
            assert row[kind]["calls"] + row[kind]["cached_calls"] >= 1, name


def test_a_stopped_comparison_has_the_same_questions_and_repeats_no_call(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    group = click.Group(commands=[eval_command(command, models_options)])
    given = ["eval", str(corpus), "--abstract", "--methods", "bm25", "--embedder", "hashing"]
    with ModelServer("ok", write=replies) as server:
        models = ["--llm", f"openai:m@{server.openai}", "--judge", f"openai:a@{server.openai}"]
        done = CliRunner().invoke(group, [*given, *models, "--cache", str(tmp_path / "kept")])
        assert done.exit_code == 0, done.output
        assert "answers against dense" in done.output
        asked = server.requests
        CliRunner().invoke(group, [*given, *models, "--cache", str(tmp_path / "kept")])
        assert server.requests == asked

"""`stratagraph eval`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from stratagraph.cli.options import models_options
from stratagraph.cli.output import command
from stratagraph.eval.command import eval_command


def run(*arguments: str) -> Result:
    group = click.Group(commands=[eval_command(command, models_options)])
    return CliRunner().invoke(group, ["eval", *arguments])


def test_the_demo_on_the_command_line(tmp_path: Path) -> None:
    out, table = tmp_path / "out.json", tmp_path / "out.csv"
    chosen = ("--methods", "lshtree, dense,bm25", "--k", "3,8", "--budgets", "500", "--embedder", "hashing")
    result = run("demo", *chosen, "--out", str(out), "--csv", str(table), "--cache", str(tmp_path / "cache"))
    assert result.exit_code == 0, result.output
    assert "R@8" in result.stdout
    assert "ans@500" in result.stdout
    saved = json.loads(out.read_text("utf-8"))
    assert [row["name"] for row in saved["rows"]] == ["lshtree", "dense", "bm25"]
    assert table.read_text("utf-8").startswith("dataset,name,type,questions,recall@3")
    assert (tmp_path / "cache" / "vectors.sqlite").is_file()

    few = run("demo", "--methods", "dense", "--questions", "4", "--embedder", "hashing", "--json")
    assert len(json.loads(few.stdout)["questions"]) == 4


def test_a_row_that_failed_is_left_out_and_the_others_stand() -> None:
    rows = ("--methods", "dense,walk?guided=true", "--embedder", "hashing", "--questions", "2")
    result = run("demo", *rows)
    assert result.exit_code == 3, result.output
    assert "left out: walk?guided=true on demo: " in result.stderr
    assert "\ndense " in result.stdout
    as_json = run("demo", *rows, "--json")
    assert as_json.exit_code == 3
    assert [bool(row["error"]) for row in json.loads(as_json.stdout)["rows"]] == [False, True]


@pytest.mark.parametrize(
    ("cached", "said"), [(True, "interrupted; the same command resumes"), (False, "interrupted")]
)
def test_what_is_said_of_resuming_is_true(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cached: bool, said: str
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stratagraph.eval.command.evaluate", stopped)
    cache = ("--cache", str(tmp_path / "cache")) if cached else ()
    result = run("demo", "--methods", "dense", "--embedder", "hashing", *cache)
    assert result.exit_code == 130
    assert result.stderr.splitlines() == [said]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("nowhere",), 1, "nowhere"),
        (("demo", "--methods", "magic"), 1, "magic"),
        (("demo", "--methods", "dense,noderag?steps=x"), 1, "steps must be a whole number"),
        (("demo", "--judge", "openai:m"), 1, "--llm"),
        (("demo", "--k", "two"), 2, "two"),
        (("demo", "--k", "0"), 2, "at least 1"),
        (("demo", "--view", "trees"), 2, "trees"),
    ],
)
def test_wrong_usage_is_named(arguments: tuple[str, ...], code: int, named: str) -> None:
    result = run(*arguments, "--embedder", "hashing")
    assert result.exit_code == code
    assert named in result.output
    assert "Traceback" not in result.output


def test_several_corpora_are_measured_one_after_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    lines = [
        {"id": f"d{n}", "title": "", "text": f"The lamp number {n} burns {w}."}
        for n, w in enumerate("abcdef")
    ]
    asked = [
        {"id": f"q{n}", "question": f"Which lamp burns {w}?", "supporting_ids": [f"d{n}"]}
        for n, w in enumerate("abcd")
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)), "utf-8")
    out, table = tmp_path / "out.json", tmp_path / "out.csv"
    files = ("--out", str(out), "--csv", str(table))
    result = run("demo", str(folder), "--methods", "dense,bm25", "--embedder", "hashing", *files)
    assert result.exit_code == 0, result.output
    assert "demo: " in result.stdout
    assert "own: 4 questions" in result.stdout
    saved = json.loads(out.read_text("utf-8"))
    assert [each["dataset"] for each in saved["evaluations"]] == ["demo", "own"]
    with table.open(encoding="utf-8") as file:
        assert {line["dataset"] for line in csv.DictReader(file)} == {"demo", "own"}

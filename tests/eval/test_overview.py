"""Several corpora at once: margins are over the best plain ranking of each, and the worst one is told."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stratagraph.cli.main import command, models_options
from stratagraph.eval import Evaluation, Overview, Question, Row
from stratagraph.eval.command import eval_command

METRIC = "doc_recall@5"


def evaluation(name: str, **scores: list[float | None]) -> Evaluation:
    rows = tuple(Row(ranker, "", scores={METRIC: tuple(values)}) for ranker, values in scores.items())
    questions = tuple(Question(str(number), "?") for number in range(len(rows[0].scores[METRIC])))
    settings = {"resamples": 200, "confidence": 0.95, "seed": 0, "k": [5], "budgets": []}
    return Evaluation(name, questions, rows, "dense", settings)


ONE = evaluation("one", hirag=[1, 1, 1, 0], bm25=[1, 0, 0, 0], dense=[1, 1, 0, 0], hybrid=[0, 0, 0, 0])
TWO = evaluation(
    "two", hirag=[0, 1, 0, None], bm25=[1, 1, 0, None], dense=[0, 0, 0, None], hybrid=[0, 1, 0, 1]
)


def test_the_worst_margin_is_over_the_best_plain_ranking_of_each_corpus() -> None:
    found = Overview((ONE, TWO), METRIC)
    assert found.methods == ("hirag",)
    assert found.plain == ("bm25", "dense", "hybrid")
    assert found.mean("hirag") == pytest.approx((3 / 4 + 1 / 3) / 2)
    margins = {fold.dataset: fold for fold in found.folds if fold.part == "all"}
    assert (margins["one"].plain, margins["one"].difference.mean) == ("dense", 0.25)
    assert margins["two"].plain in ("bm25", "hybrid")
    worst = found.worst("hirag")
    assert worst is not None
    assert worst.dataset == "two"
    assert worst.difference.mean == pytest.approx(-1 / 3)


def test_halves_share_out_all_questions_and_are_the_same_every_time() -> None:
    scores: list[float | None] = [float(number % 3 == 0) for number in range(40)]
    zeros: list[float | None] = [0.0] * 40
    found = Overview((evaluation("one", hirag=scores, bm25=zeros),), METRIC, halvings=3)
    halves = [fold for fold in found.folds if fold.part != "all"]
    assert [fold.part for fold in halves] == [f"half {number}" for number in range(1, 7)]
    assert all(fold.difference.questions == 20 for fold in halves)
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert first.difference.mean + second.difference.mean == pytest.approx(2 * 14 / 40)
    assert Overview(found.evaluations, METRIC, halvings=3).folds == found.folds


def test_what_was_not_measured_everywhere_is_not_compared() -> None:
    other = evaluation("two", hirag=[1, 1], bm25=[1, 0])
    found = Overview((ONE, other), METRIC)
    assert found.plain == ("bm25",)
    alone = Overview((evaluation("one", hirag=[1, 1]),), METRIC)
    assert alone.folds == ()
    assert alone.worst("hirag") is None
    assert "hirag" in str(alone)


def test_the_command_line_tells_corpora_folds_and_the_worst_margin(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
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
    group = click.Group(commands=[eval_command(command, models_options)])
    chosen = [
        "--methods",
        "lshtree,dense,bm25",
        "--embedder",
        "hashing",
        "--out",
        str(out),
        "--csv",
        str(table),
    ]
    result = CliRunner().invoke(group, ["eval", "demo", str(folder), *chosen])
    assert result.exit_code == 0, result.output
    assert "worst margin over the best of bm25, dense" in result.stdout
    assert "own: lshtree" in result.stdout
    saved = json.loads(out.read_text("utf-8"))
    assert [each["dataset"] for each in saved["evaluations"]] == ["demo", "own"]
    assert saved["overview"]["metric"] == METRIC
    assert saved["overview"]["worst"]["lshtree"]["dataset"] in ("demo", "own")
    assert {fold["part"] for fold in saved["overview"]["folds"]} >= {"all", "half 1", "half 4"}
    with table.open(encoding="utf-8") as file:
        assert {line["dataset"] for line in csv.DictReader(file)} == {"demo", "own"}
    result = CliRunner().invoke(group, ["eval", "demo", str(folder), "--plot", str(tmp_path / "plot.svg")])
    assert result.exit_code == 1
    assert "one corpus" in result.output

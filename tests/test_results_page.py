"""cookbook/results.py: records hold what was measured, and all pages say what the records say."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratagraph.eval import evaluate, load_dataset
from stratagraph.eval.embedding import shared_embedder
from stratagraph.eval.metrics import paired_difference
from stratagraph.models.local import HashingEmbedder

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "cookbook" / "measured"
DEMO = Path(str(files("stratagraph") / "demo"))


@pytest.fixture(scope="module")
def results() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "cookbook"))
    yield importlib.import_module("results")
    sys.path.remove(str(ROOT / "cookbook"))


@pytest.fixture(scope="module")
def page(results: Any) -> Any:
    return results.results_page


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in KEPT.glob("*.json")}


def test_records_hold_what_searches_find(
    results: Any, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder()
    monkeypatch.setattr(results, "shared_embedder", lambda folder: shared_embedder(folder, embedder))
    monkeypatch.setattr(results, "CORPORA", {"demo": (DEMO, None)})
    monkeypatch.setattr(results, "METHODS", ("hirag",))
    monkeypatch.setattr(results, "code", lambda: "first")
    monkeypatch.setattr(results, "KEPT", tmp_path)
    monkeypatch.setattr(results, "MOST", 6)
    run = partial(results.measure, "demo", DEMO, tmp_path / "work")
    run(["walk", "bm25", "dense, whole passages", "hirag/nodes"])
    first = json.loads((tmp_path / "demo.json").read_text("utf-8"))
    assert [*first["rows"]] == ["bm25", "dense, whole passages", "walk", "hirag/nodes"]

    data = load_dataset("demo")
    asked = replace(data, questions=tuple(Random(0).sample(data.questions, 6)))
    same = {"budgets": (1000,), "embedder": embedder, "config": {"tokenizer": "estimate-1"}}
    found = evaluate(asked, ["walk", "bm25"], reference="walk", k=(5,), **same)
    for name, row in (("walk", "walk"), ("bm25", "bm25")):
        for metric in ("recall@5", "answer@1000"):
            assert page.scores(first, name, metric) == [*found.row(row).scores[metric]], name

    monkeypatch.setattr(results, "code", lambda: "second")
    run(["walk"])
    second = json.loads((tmp_path / "demo.json").read_text("utf-8"))
    assert second["rows"].pop("walk")["code"] == "second"
    assert second["rows"] == {name: row for name, row in first["rows"].items() if name != "walk"}


def record(**rows: str) -> dict[str, Any]:
    """A record of questions with an answer each; `rows` are by name, 1 where the answer was found."""
    return {"rows": {name: {"answer@1000": held} for name, held in rows.items()}}


def test_a_row_stands_against_the_best_plain_ranking(page: Any) -> None:
    better = record(dense="10" * 20, bm25="10" * 19 + "00", hybrid="0" * 40, walk="1" * 40)
    level = record(dense="10" * 20, bm25="1" * 40, hybrid="0" * 40, walk="1" * 39 + "0", hirag="-1" * 20)
    worse = record(dense="0" * 40, bm25="0" * 40, hybrid="1" * 40, walk="10" * 20)
    counted = [better, level, worse]
    assert page.standing(counted, "walk", "answer@1000") == "1 better, 1 level, 1 worse"
    assert page.standing(counted, "hirag", "answer@1000") == "1 level", "not measured on the others"
    exact = paired_difference([1.0] * 40, [1.0, 0.0] * 20)
    assert exact is not None
    interval = f"+.50 [+{exact.low:.2f}, +{exact.high:.2f}]".replace("+0", "+")
    assert page.cell(better, "walk", "answer@1000") == f"1.000<br>{interval}"
    assert page.cell(better, "dense", "answer@1000") == "**.500**"
    assert page.cell(worse, "hirag", "answer@1000") == "not measured"


def test_pages_are_made_of_the_records(page: Any, records: dict[str, Any]) -> None:
    assert {*records} == {*page.TITLES}
    text = (ROOT / "cookbook/RESULTS.md").read_text("utf-8")
    assert text == page.page(records, KEPT), "run results.py --assemble"
    for each in records.values():
        assert {*each["rows"]} == {*page.PLAIN, page.WHOLE, *page.OWN}


def test_every_kept_file_is_linked(records: dict[str, Any]) -> None:
    linked = {f"{name}.json" for name in records}
    for name in ("RESULTS.md", "papers/README.md"):
        text = (ROOT / "cookbook" / name).read_text("utf-8")
        linked |= {*re.findall(r"\((?:\.\./)?measured/([^)]+)\)", text)}
    assert {path.name for path in KEPT.iterdir()} == linked


def test_the_readme_tells_what_the_records_say(page: Any, records: dict[str, Any]) -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    means = re.search(
        r"the walk finds (\S+) of .* dense vectors (\S+), and BM25 and vectors together (\S+);", text
    )
    musique = re.search(r"on MuSiQue (\S+), (\S+) and (\S+) \(", text)
    assert means is not None
    assert musique is not None
    for row, mean, first in zip(("walk", "dense", "hybrid"), means.groups(), musique.groups(), strict=True):
        recalls = [page.mean(records[key], row, "recall@5") for key in page.CORPORA]
        assert (mean, first) == (page.short(sum(recalls) / 5), page.short(recalls[0]))


def test_the_guide_to_methods_tells_what_the_records_say(page: Any, records: dict[str, Any]) -> None:
    text = (ROOT / "docs/how-to/choose-a-method.md").read_text("utf-8")
    _, _, text = text.partition("Share of questions whose answer is in the first 1,000 / 2,000 tokens")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines[:10]]
    assert head == [*page.TITLES.values()]
    named = {"vectors": "dense", "words (BM25)": "bm25", "both, by reciprocal ranks": "hybrid"}
    shown = [named.get(label, label.strip("`")) for label, *_ in rows]
    assert shown == [*page.PLAIN, "walk", *page.METHODS]
    for name, (_, *cells) in zip(shown, rows, strict=True):
        for key, cell in zip(page.TITLES, cells, strict=True):
            means = [page.mean(records[key], name, f"answer@{budget}") for budget in (1000, 2000)]
            assert cell == " / ".join(page.short(mean, 2) for mean in means), (name, key)


def test_questions_of_corpora_are_counted_as_they_are(
    records: dict[str, Any], results: Any, shared_data: Path
) -> None:
    for name, (folder, extraction) in results.CORPORA.items():
        questions = load_dataset(shared_data / folder, extraction=extraction).questions
        drawn = Random(0).sample(questions, min(results.MOST, len(questions)))
        assert records[name]["gold"] == "".join(str(len(set(each.supporting_ids))) for each in drawn)

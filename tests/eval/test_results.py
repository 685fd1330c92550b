"""RESULTS.md: what `cookbook/results.py` makes of evaluations, and of sections that are missing."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from stratagraph.eval import Evaluation, evaluate
from stratagraph.models.local import HashingEmbedder

COOKBOOK = Path(__file__).resolve().parents[2] / "cookbook"
NAMES = ("walk", "lshtree", "kag", "hipporag", "hipporag2", "fastgraphrag", "dense")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    sys.path.insert(0, str(COOKBOOK))
    try:
        return runpy.run_path(str(COOKBOOK / "results.py"))
    finally:
        sys.path.remove(str(COOKBOOK))


@pytest.fixture(scope="module")
def demo() -> Evaluation:
    return evaluate("demo", NAMES, embedder=HashingEmbedder(), resamples=100)


def kept(name: str, **others: Any) -> dict[str, Any]:
    machine = {"processor": "any", "cpus": 2, "memory_gib": 1.0, "system": "any", "python": "3"}
    common = {"date": "2026-01-01", "seconds": 1.0, "load": [1.0, 2.0], "small": False, "command": name}
    return {"name": name, "output": "", "machine": machine | {"versions": {}}} | common | others


def written(script: dict[str, Any], work: Path) -> str:
    out = work / "cookbook" / "RESULTS.md"
    out.parent.mkdir()
    script["write"](out, script["collected"](work))
    return out.read_text("utf-8")


def test_figures_of_the_page_are_those_of_the_evaluation(
    script: dict[str, Any], demo: Evaluation, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    scores = script["reduced"](demo.to_dict(), script["METHODS"])
    (tmp_path / "musique.json").write_text(json.dumps(kept("musique", code="0123abc", scores=scores)))
    (tmp_path / "lsh.json").write_text(json.dumps(kept("lsh", output="hash 3 CPU-seconds")))
    (tmp_path / "lshtree.json").write_text(json.dumps(kept("lshtree", earlier=True)))
    text = written(script, tmp_path)
    for name in NAMES:
        metric = "answer@1000" if name == "lshtree" else "recall@5"
        assert f"| {name} | {shown(demo, name, metric)}" in text
    assert f"| lshtree | {shown(demo, 'lshtree', 'recall@5')}" not in text, "its own nodes are no passages"
    assert f"{shown(demo, 'dense', 'recall@5')} (dense)" in text, "the best plain ranking"
    assert "All ahead beyond noise: MuSiQue (dense: +" in text
    assert "hash 3 CPU-seconds" in (tmp_path / "cookbook/measured/lsh.txt").read_text()
    assert "nDCG@10" in (tmp_path / "cookbook/measured/musique.md").read_text()
    assert re.search(r"Other systems, recall@5 .*\n.*MuSiQue \((kag|hipporag2?|fastgraphrag): ", text)
    for plot in ("results", "results-systems"):
        assert "</svg>" in (tmp_path / f"docs/images/{plot}.svg").read_text()
    assert "earlier state of the code](measured/lshtree.txt)" in text
    assert "HotpotQA: not run" in text
    assert "`musique` | 2026-01-01 | 0123abc |" in text
    assert "`lsh` | 2026-01-01 | not recorded |" in text


def test_what_is_ahead_of_the_methods_is_named(script: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = evaluate("demo", ["walk", "dense", "bm25"], embedder=HashingEmbedder(), resamples=100)
    data = found.to_dict()
    for row in data["rows"]:
        right = 1.0 if row["name"] == "bm25" else 0.0
        row["scores"]["recall@5"] = [right] * len(found.questions)
        row["means"]["recall@5"] = right
    scores = script["reduced"](data, script["METHODS"])
    (tmp_path / "musique.json").write_text(json.dumps(kept("musique", scores=scores)))
    (line,) = (line for line in written(script, tmp_path).splitlines() if "Ahead of the best" in line)
    assert "bm25 on MuSiQue (recall@5 +1.00)" in line
    assert "dense" not in line


def shown(demo: Evaluation, name: str, metric: str) -> str:
    return f"{demo.mean(name, metric):.3f}".removeprefix("0")


def test_an_empty_folder_is_a_page_of_missing_sections(script: dict[str, Any], tmp_path: Path) -> None:
    text = written(script, tmp_path)
    assert text.count(": not run") == len(script["SECTIONS"])
    assert not (tmp_path / "docs").exists(), "nothing to draw"


def test_paths_of_the_machine_stay_out(script: dict[str, Any], tmp_path: Path) -> None:
    class Given:
        data, cache, work = tmp_path / "data", tmp_path / "cache", tmp_path

    text = script["without_paths"](f"read {tmp_path}/data/corpus and {tmp_path}/cache", Given)
    assert text == "read DATA/corpus and CACHE"

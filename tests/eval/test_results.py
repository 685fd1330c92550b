"""RESULTS.md: what `cookbook/results.py` makes of evaluations, and of sections that are missing."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from stratarag.eval import Evaluation, evaluate
from stratarag.models.local import HashingEmbedder

COOKBOOK = Path(__file__).resolve().parents[2] / "cookbook"
NAMES = ("lshtree", "dense")


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
    return {"name": name, "output": "", "error": [], "machine": machine | {"versions": {}}} | common | others


def page(script: dict[str, Any], work: Path) -> str:
    order = [(each.name, each.title, each.name, bool(each.corpus)) for each in script["SECTIONS"]]
    text: str = script["page"](order, script["collected"](work), ("lshtree",), ("dense",))
    return text


def test_figures_of_the_page_are_those_of_the_evaluation(
    script: dict[str, Any], demo: Evaluation, tmp_path: Path
) -> None:
    demo.save_json(tmp_path / "musique.scores.json")
    (tmp_path / "musique.json").write_text(json.dumps(kept("musique")))
    (tmp_path / "lsh.json").write_text(json.dumps(kept("lsh", output="hash 3 CPU-seconds")))
    (tmp_path / "gate.json").write_text(json.dumps(kept("gate", error=["ValueError: no"])))
    text = page(script, tmp_path)
    for name in NAMES:
        shown = f"{demo.mean(name, 'recall@5'):.3f}".removeprefix("0")
        assert f"| {name} | {shown}" in text
    assert "hash 3 CPU-seconds" in text
    assert "Missing: ValueError: no" in text
    assert "Missing: not run." in text, "the other data sets"
    assert "not measured" in text, "their bars"


def test_an_empty_folder_is_a_page_of_missing_sections(script: dict[str, Any], tmp_path: Path) -> None:
    text = page(script, tmp_path)
    assert text.count("Missing:") == len(script["SECTIONS"])


def test_paths_of_the_machine_stay_out(script: dict[str, Any], tmp_path: Path) -> None:
    class Given:
        data, cache, work = tmp_path / "data", tmp_path / "cache", tmp_path

    text = script["without_paths"](f"read {tmp_path}/data/corpus and {tmp_path}/cache", Given)
    assert text == "read DATA/corpus and CACHE"

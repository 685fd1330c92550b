"""Scripts of cookbook/benchmarks that reach behind the public API still run: their smallest forms."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "cookbook" / "benchmarks"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("noderag.py demo --small", "PPR to convergence"),
        ("hirag.py demo --embedder hashing --questions 2", "Table 7"),
        ("indexing.py demo --small --methods lshtree+hirag", "lshtree+hirag"),
        ("walk.py demo --passages 60", "whole walk, unbounded"),
        ("statistics_of_data.py demo", "demo"),
        ("choices.py demo --nodes 400", "hnswlib, ef=400"),
        ("entity_errors.py demo", "demo"),
    ],
)
def test_it_runs(
    command: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = command.split()
    script = str(BENCHMARKS / name)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    runpy.run_path(script, run_name="__main__")
    shown = capsys.readouterr().out
    assert printed in shown
    assert "failed" not in shown


def test_all_of_them_import_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for script in sorted(BENCHMARKS.glob("*.py")):
        runpy.run_path(str(script), run_name="imported")

"""Rows that were measured are kept: a stopped run goes on, and no row of other settings is taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stratagraph import HashingEmbedder
from stratagraph.eval import AnswerConfig, Dataset, Evaluation, Question, evaluate, kept
from stratagraph.eval.kept import Kept, digest_of_files
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.types.records import Document, EntityMention, Extraction

ROWS = ["lshtree", "hipporag", "lshtree/nodes", "kag", "walk", "archrag", "bm25", "dense"]
DATA = Dataset(
    "small",
    (
        Document("ferry", "The ferry sails at seven from Sarn."),
        Document("honey", "Honey of Orrin won the prize."),
        Document("bell", "The bell of Sarn rings at noon."),
    ),
    (
        Question("q1", "When does the ferry sail?", ("seven",), ("ferry",)),
        Question("q2", "What won the prize?", ("honey",), ("honey",)),
    ),
)
QUICK: dict[str, Any] = {"resamples": 50, "k": (1, 2), "budgets": (20,)}
FEW = ["hipporag", "bm25"]


def command(folder: Path) -> list[str]:
    chosen = ["demo", "--methods", ",".join(ROWS), "--embedder", "hashing", "--questions", "6", "--json"]
    return [str(Path(sys.executable).with_name("stratagraph")), "eval", *chosen, "--cache", str(folder)]


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "rows").glob("*.json")}


TIMED = {"measured", "latency_ms", "cpu_ms", "seconds", "cpu_seconds", "peak_memory"}


def without_times(found: Any) -> Any:
    """Without what a clock or the memory of the process decides."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in TIMED}
    return [without_times(each) for each in found] if isinstance(found, list) else found


def test_a_killed_run_goes_on_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    running = subprocess.Popen(command(stopped), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None and len(files(stopped)) < 3:
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    done = files(stopped)
    assert 3 <= len(done) < len(ROWS)

    went_on, at_once = (
        json.loads(subprocess.run(command(folder), capture_output=True, check=True).stdout)
        for folder in (stopped, whole)
    )
    assert went_on["settings"]["taken_rows"] == ROWS[: len(done)]
    assert at_once["settings"]["taken_rows"] == []
    assert {name: time for name, time in files(stopped).items() if name in done} == done
    assert len(files(stopped)) == len(ROWS)
    assert without_times(went_on["rows"]) == without_times(at_once["rows"])


def taken(folder: Path, dataset: Dataset = DATA, rows: Any = FEW, **settings: Any) -> list[str]:
    return run(folder, dataset, rows, **settings).settings["taken_rows"]  # type: ignore[no-any-return]


def run(folder: Path, dataset: Dataset = DATA, rows: Any = FEW, **settings: Any) -> Evaluation:
    given = {**QUICK, "embedder": HashingEmbedder(), "reference": "", "cache": folder, **settings}
    return evaluate(dataset, rows, **given)


def changed(number: int, **fields: Any) -> Dataset:
    documents = list(DATA.documents)
    documents[number] = replace(documents[number], **fields)
    return replace(DATA, documents=tuple(documents))


SAID = {"ferry": Extraction(entities=(EntityMention("Sarn"),))}
OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "a text": lambda: {"dataset": changed(0, text="The ferry sails at eight from Sarn.")},
    "metadata": lambda: {"dataset": changed(0, metadata={"year": 2001})},
    "a question": lambda: {"dataset": replace(DATA, questions=DATA.questions[:1])},
    "gold answers": lambda: {
        "dataset": replace(DATA, questions=tuple(replace(each, answers=("x",)) for each in DATA.questions))
    },
    "the extraction": lambda: {"dataset": replace(DATA, extractions=SAID)},
    "entities of questions": lambda: {"dataset": replace(DATA, question_entities={"q1": ("Sarn",)})},
    "settings of the index": lambda: {"config": {"chunking": {"size": 8, "overlap": 0}}},
    "settings of a method": lambda: {"config": {"lshtree": {"max_cluster": 20}}},
    "the share of failures": lambda: {"config": {"max_failures": 0.5}},
    "cutoffs": lambda: {"k": (1, 3)},
    "budgets": lambda: {"budgets": (25,)},
    "the view": lambda: {"view": "nodes"},
    "unsplit documents": lambda: {"split": False},
    "the embedder": lambda: {"embedder": FakeEmbedder(64)},
    "options": lambda: {"rows": ["hipporag?specificity=false", "bm25"]},
    "a model": lambda: {"llm": ScriptedChatModel("honey"), "answers": AnswerConfig(judge=False)},
}


def test_rows_of_other_settings_or_other_code_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bm25s")
    run(tmp_path)
    assert taken(tmp_path) == FEW
    for what, other in OTHERS.items():
        assert taken(tmp_path, **other()) == [], what
    real = dict(kept.code())
    for code in ({"stratagraph": "x"}, {"versions": {"numpy": "1"}}):
        monkeypatch.setattr(kept, "code", lambda code=code: {**real, **code})
        assert taken(tmp_path) == []
    monkeypatch.undo()
    assert taken(tmp_path, again=True) == []


def test_what_only_compares_rows_takes_them(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    first = run(tmp_path)
    found = run(tmp_path, reference="bm25", seed=3, confidence=0.9)
    assert found.settings["taken_rows"] == FEW
    assert found.row("hipporag").differences
    assert found.row("hipporag").scores == first.row("hipporag").scores
    assert "2 of 2 rows as an earlier run measured them" in str(found)


def test_a_row_stands_for_itself_after_the_same_rows_alone(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    run(tmp_path)
    assert taken(tmp_path, rows=["hipporag", "bm25", "dense"]) == FEW
    assert taken(tmp_path, rows=["bm25", "hipporag"]) == [], "the first pays for what others share"


def test_a_row_in_which_something_failed_is_tried_again(tmp_path: Path) -> None:
    up: list[bool] = []
    model = ScriptedChatModel(lambda prompt: "honey" if up or "ferry sail?" not in prompt else "")
    asked: dict[str, Any] = {"llm": model, "answers": AnswerConfig(judge=False), "rows": ["dense"]}
    assert len(run(tmp_path, **asked).row("dense").failures) == 1
    up.append(True)
    found = run(tmp_path, **asked)
    assert found.settings["taken_rows"] == []
    assert not found.row("dense").failures
    assert run(tmp_path, **asked).settings["taken_rows"] == ["dense"]


def test_nothing_is_kept_of_an_embedder_without_a_name(tmp_path: Path) -> None:
    class Nameless:
        dimension = 256

        def embed_documents(self, texts: list[str]) -> Any:
            return HashingEmbedder().embed_documents(texts)

        def embed_query(self, text: str) -> Any:
            return HashingEmbedder().embed_query(text)

    run(tmp_path, rows=["dense"], embedder=Nameless())
    assert not files(tmp_path)


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put({"row": "a"}, [1, 2.5, None])
    assert kept.get({"row": "a"}) == [1, 2.5, None]
    assert kept.get({"row": "b"}) is None
    (path,) = tmp_path.glob("*.json")
    os.truncate(path, 20)
    with pytest.raises(ValueError, match=f"{path.name} is damaged"):
        kept.get({"row": "a"})


def test_the_code_is_what_is_in_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1", "utf-8")
    first = digest_of_files([tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("?", "utf-8")
    assert digest_of_files([tmp_path]) == first
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    second = digest_of_files([tmp_path])
    (tmp_path / "b.py").write_text("2", "utf-8")
    assert len({first, second, digest_of_files([tmp_path])}) == 3

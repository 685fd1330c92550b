"""Real kills: a child process dies at a random point, and nothing that was paid for is lost.

`pytest tests/test_kill.py --kills 60` is the full trial.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.errors import NotAnIndex
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import assert_equal_states, state
from tests.kill_child import documents, perform

CHILD = Path(__file__).with_name("kill_child.py")
OPERATIONS = ("build", "insert", "delete", "rebuild")
Stage = tuple[Path | None, dict[str, object], int]


def spawn(folder: Path, operation: str, log: Path, *calls: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(CHILD), str(folder), operation, str(log), *map(str, calls)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def finished(folder: Path, operation: str, log: Path) -> int:
    """Run a child to its end; returns the number of its calls."""
    child = spawn(folder, operation, log)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors.decode()
    return calls(log)


def calls(log: Path) -> int:
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def answered(folder: Path) -> set[str]:
    """Digests of the prompts whose answers the folder keeps."""
    calls = folder / "calls.sqlite"
    if not calls.exists():
        return set()
    with sqlite3.connect(calls) as connection:
        try:
            answers = [row[0] for row in connection.execute("SELECT answer FROM calls")]
        except sqlite3.OperationalError:  # killed before the table was made
            return set()
    return {digest for answer in answers for digest in re.findall(r"digest([0-9a-f]{24})", answer)}


def contents(folder: Path) -> dict[str, object]:
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.verify() == []
        return state(index, "lshtree")


@pytest.fixture(scope="module")
def stages(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Stage]:
    """For each operation: the folder before it, the contents after it, and the number of its calls."""
    base = tmp_path_factory.mktemp("stages")
    folder = base / "work"
    before: Path | None = None
    stages = {}
    for operation in OPERATIONS:
        asked = finished(folder, operation, base / f"{operation}.log")
        stages[operation] = (before, contents(folder), asked)
        before = base / f"after-{operation}"
        shutil.copytree(folder, before)
    return stages


def test_kills(stages: dict[str, Stage], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    chance = random.Random(20)
    interrupted = 0
    for number in range(request.config.getoption("--kills")):
        operation = OPERATIONS[number % len(OPERATIONS)]
        before, after, asked = stages[operation]
        folder, log = tmp_path / f"{number}", tmp_path / f"{number}.log"
        if before is not None:
            shutil.copytree(before, folder)
        old = contents(folder) if before is not None else None
        enough = chance.randint(0, asked)
        # Every other child waits at that call for ever, so that the fastest machine kills some in time too.
        waits = number // len(OPERATIONS) % 2 == number % 2
        child = spawn(folder, operation, log, *([max(enough, 1)] if waits else []))
        while child.poll() is None and calls(log) < enough:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.1))
        interrupted += child.poll() is None
        child.kill()
        child.communicate()
        _check_after_kill(folder, old, after)
        _check_finishing(folder, operation, log, after)
        shutil.rmtree(folder)
    assert interrupted >= request.config.getoption("--kills") // 2


def _check_after_kill(folder: Path, old: dict[str, object] | None, new: dict[str, object]) -> None:
    """The folder opens at the old or at the new generation, whole."""
    try:
        found = contents(folder)
    except NotAnIndex:
        assert old is None
        return
    if found != old:
        assert_equal_states(found, new)


def _check_finishing(folder: Path, operation: str, log: Path, after: dict[str, object]) -> None:
    """Finishing gives what an uninterrupted run gives, and asks nothing that was answered before."""
    kept = answered(folder) if folder.exists() else set()
    second = log.with_suffix(".second")
    perform(folder, operation, second)
    asked = second.read_text().split()
    assert not kept & set(asked)
    assert len(asked) == len(set(asked))
    assert_equal_states(contents(folder), after)


def test_the_documents_of_the_trial_differ() -> None:
    assert len({document.text for document in documents(0, 160)}) == 160


def test_a_temporary_index_does_not_outlast_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "import stratagraph as sg\n"
        "index = sg.build_index(['The secret of Skerry.'], embedder=sg.HashingEmbedder(), progress=False)\n"
        "print(index.path, flush=True); os.abort()"
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with sg.build_index(["Kept."], embedder=sg.HashingEmbedder(), progress=False) as living:
        command = [sys.executable, "-c", script, str(tmp_path)]
        killed = subprocess.run(command, capture_output=True, text=True, check=False)
        left = Path(killed.stdout.strip())
        assert left.is_relative_to(tmp_path)
        assert left.is_dir()
        sg.build_index(["Next."], embedder=sg.HashingEmbedder(), progress=False).close()
        assert not left.exists()
        assert living.retrieve("Kept").hits
    assert not list(tmp_path.iterdir())

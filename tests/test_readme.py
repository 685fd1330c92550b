"""The README is a program: its Python blocks run, in order, and its commands exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stratarag.cli import main
from stratarag.testing import FakeEmbedder, ScriptedChatModel

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_every_python_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("langchain_core", "llama_index.core"):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {
        "my_model": ScriptedChatModel("A summary."),
        "my_embedder": FakeEmbedder(),
    }
    assert len(blocks("python")) >= 4
    for block in blocks("python"):
        exec(compile(block, str(README), "exec"), namespace)


def test_every_command_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "notes" / "old.txt").write_text("Ada repaired the bridge.")
    (tmp_path / "notes" / "new.txt").write_text("Bo sails the ferry.")
    (tmp_path / "more" / "notes.txt").write_text("The harbour is full.")
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("stratarag ")]
    assert len(lines) >= 7
    for line in lines:
        arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', line)[1:]]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, (line, result.output)


def test_the_opening_commands_are_single_lines() -> None:
    first, second = blocks("bash")[:2]
    for block in (first, second):
        assert len(block.strip().splitlines()) == 1
    assert "stratarag demo" in first
    assert "pytest" in second
    assert sys.version_info >= (3, 11)

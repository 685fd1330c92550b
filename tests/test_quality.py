"""Linters and type checker, so that one command checks everything. They look at the source, not the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ["src", "integrations/langchain", "integrations/llama-index"]
TOOLS = Path(sys.executable).parent
CHECKS = {
    "ruff-check": ["ruff", "check", "."],
    "ruff-format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "deptry": ["deptry", *SOURCES],
    "import-linter": ["lint-imports", "--no-cache"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_quality(name):
    tool, *arguments = CHECKS[name]
    program = shutil.which(tool, path=str(TOOLS))
    if program is None:
        pytest.skip(f"{tool} is not installed beside this Python")
    done = subprocess.run(
        [program, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / source) for source in SOURCES)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The README is a program: its blocks run as they stand, in one folder, from top to bottom."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
# What a test cannot do again: install the package that is tested, and run the tests.
INSTALLING = (
    "pip install",
    "python3 -m venv .venv",
    ".venv/bin/python -m pip install",
    ".venv/bin/python -m pytest",
)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of each fenced block, in order."""
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield match[1], match[2]


class Session:
    """One folder and one Python session, as of somebody who types the README."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.printed: dict[str, str] = {}

    def run(self, text: str, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        """Run every block; with `capsys`, a block of `text` must be what the Python block above printed."""
        for language, content in blocks(text):
            if language == "python":
                if capsys is not None:
                    capsys.readouterr()
                exec(compile(content, "README.md", "exec"), self.names)
            elif language == "text" and capsys is not None:
                assert capsys.readouterr().out == content
            else:
                assert language == "bash", f"a block of {language} is not run"
                for line in content.splitlines():
                    self._shell(line)

    def _shell(self, line: str) -> None:
        steps = line.split(" && ")
        for step in steps:
            if step.startswith(INSTALLING):
                continue
            words = shlex.split(step)
            if words[0].removeprefix(".venv/bin/") == "stratagraph":
                result = CliRunner().invoke(main, words[1:])
                assert result.exit_code == 0, (step, result.output)
                self.printed[step] = result.stdout
            else:
                subprocess.run(["bash", "-c", step], check=True)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    return Session()


def test_every_block_of_the_readme_runs_and_prints_what_stands_below_it(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    for extra in ("langchain_core", "llama_index.core", "tokenizers"):
        pytest.importorskip(extra)
    session.run(README, capsys)
    assert any(step.startswith(".venv/bin/stratagraph demo") for step in session.printed)


def test_the_page_on_the_command_line_runs_as_it_stands(session: Session) -> None:
    session.run((ROOT / "docs/how-to/command-line.md").read_text("utf-8"))
    ran = {step.split()[1]: shown for step, shown in session.printed.items()}
    assert ran.keys() >= {"estimate", "build", "query", "insert", "delete", "stats", "verify", "export"}
    assert "old.txt" in ran["query"]
    assert "updated: 1 (letters/ferry.txt)" in ran["insert"]
    assert "deleted: 1 (old.txt)" in ran["sync"]
    assert "deleted: 1 (letters/ferry.txt)" in ran["delete"]
    assert ran["verify"].startswith("sound")
    with sg.open_index("idx-cli") as index:
        assert not index.documents()


def test_ten_minutes_run_as_they_stand(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """All but what is shown as `text`, which serves until it is stopped."""
    for extra in ("langchain_core", "llama_index.core"):
        pytest.importorskip(extra)
    text = (ROOT / "docs/ten-minutes.md").read_text("utf-8")
    session.run(re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    ran = {step.split()[1]: shown for step, shown in session.printed.items()}
    assert "quill.txt" in ran["query"]
    assert "gale.txt" in ran["query"]
    assert "Ida Fenn painted the lamp" in capsys.readouterr().out
    with sg.open_index("islands") as index:
        assert index.documents().keys() >= {"paint.txt", "quill.txt"}
        assert "board.md" not in index.documents()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nmy_model\n```", NameError),
        ("```bash\nstratagraph query nowhere question\n```", AssertionError),
        ("```bash\nstratagraph build . --no-such-option\n```", AssertionError),
        ("```bash\nls nowhere\n```", subprocess.CalledProcessError),
        ("```sh\ntrue\n```", AssertionError),
    ],
)
def test_a_block_that_does_not_run_is_noticed(session: Session, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        session.run(f"Text\n\n{text}\n")


def test_the_opening_commands_install_in_one_line_each() -> None:
    first, second = (content for _, content in blocks(README) if content.startswith("python3 -m venv"))
    assert first.splitlines() == [
        "python3 -m venv .venv && .venv/bin/python -m pip install -q '.[local,methods]' "
        "&& .venv/bin/stratagraph demo"
    ]
    (tests,) = second.splitlines()
    assert tests.split(" && ")[-1] == ".venv/bin/python -m pytest -n auto"
    assert "'.[dev]'" in tests
    assert f"<!-- ci:test -->\n```bash\n{second}```" in README


def test_the_page_on_installing_names_every_extra() -> None:
    declared = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    )
    named = set(re.findall(r"`\[([\w-]+)\]`", (ROOT / "docs/install.md").read_text("utf-8")))
    assert named == declared
    assert set(re.findall(r"'(?:stratagraph|\.)\[([\w-]+)\]'", README)) <= declared

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stratarag.cli import main

HASHING = ("--embedder", "hashing")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def as_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes and more"
    folder.mkdir()
    for number in range(30):
        (folder / f"note {number}.txt").write_text(f"Note {number}. The ferry number {number} sails at dawn.")
    (folder / "Grüße.txt").write_text("Die Fähre fährt um sieben.", "utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\x00\x01\x02")
    return folder


@pytest.fixture
def index(notes: Path, tmp_path: Path) -> str:
    path = str(tmp_path / "idx")
    result = run("build", str(notes), "-o", path, *HASHING)
    assert result.exit_code == 0, result.output
    return path


def test_build_names_what_it_skipped(notes: Path, tmp_path: Path) -> None:
    result = run("build", str(notes), "-o", str(tmp_path / "idx"), *HASHING)
    assert result.exit_code == 0
    assert "31 documents" in result.stdout
    assert "picture.png" in result.stderr


def test_query_answers_with_sources(index: str) -> None:
    result = run("query", index, "Wann fährt die Fähre?", "-k", "3", *HASHING)
    assert "Grüße.txt" in result.stdout
    assert "extractive" in result.stdout
    found = as_json("query", index, "Wann fährt die Fähre?", "--no-answer", *HASHING)
    assert found["hits"][0]["documents"] == ["Grüße.txt"]


def test_the_rest_of_the_life_of_an_index(index: str, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "late", "text": "The late note on the tunnel.", "year": 1903}\n')
    assert as_json("insert", index, str(more), *HASHING)["added"] == ["late"]
    found = as_json("query", index, "tunnel", "--where", '{"year": 1903}', "--no-answer", *HASHING)
    assert [hit["documents"] for hit in found["hits"]] == [["late"]]
    assert as_json("delete", index, "late", *HASHING)["deleted"] == ["late"]
    assert as_json("stats", index)["documents"] == 31
    assert as_json("verify", index) == {"problems": []}


def test_estimate(notes: Path) -> None:
    assert as_json("estimate", str(notes))["calls"] == 0
    assert as_json("estimate", str(notes), "--llm", "stratarag.testing:ScriptedChatModel")["calls"] > 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("build", "nowhere", "-o", "idx"), "nowhere"),
        (("query", "nowhere", "question"), "nowhere"),
        (("build", ".", "-o", "idx", "--method", "magic"), "magic"),
    ],
)
def test_an_error_is_one_line(
    arguments: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 1
    assert named in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    failed = run(*arguments, "--json")
    assert failed.exit_code == 1
    assert named in json.loads(failed.stdout)["message"]
    assert run(*arguments, "--debug").exception is not None


def test_wrong_usage_has_its_own_exit_code(index: str) -> None:
    assert run("query", index).exit_code == 2
    assert run("query", index, "q", "-k", "three").exit_code == 2
    assert run("query", index, "q", "--llm", "nocolon").exit_code == 2
    assert run("query", index, "q", "--llm", "no.such.module:thing").exit_code == 2


def test_a_damaged_index_is_found(index: str) -> None:
    array = next(Path(index).rglob("*.npy"))
    content = bytearray(array.read_bytes())
    content[-1] ^= 0xFF
    array.write_bytes(content)
    result = run("verify", index)
    assert result.exit_code == 1
    assert array.name in result.stdout


def test_the_demo_tells_what_it_found() -> None:
    answers = as_json("demo", *HASHING)
    assert len(answers) >= 3
    assert all(entry["answer"]["citations"] for entry in answers)

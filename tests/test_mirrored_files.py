"""Files that change: what an index has of them, by the command line and in Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main

HASHING = ("--embedder", "hashing")


def run(*arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = Path("notes")
    folder.mkdir()
    (folder / "fares.csv").write_text("route,price\nOstra,12\nBremen,9\nVell,7\n")
    (folder / "ferry.txt").write_text("The ferry to Ostra leaves at seven.")
    return folder


@pytest.fixture
def index(notes: Path) -> Iterator[sg.Index]:
    given = sg.read_documents(notes)
    with sg.build_index(given, path="idx", embedder=sg.HashingEmbedder(), progress=False) as index:
        yield index


def texts(index: sg.Index, match: str | None = None) -> set[str]:
    chunks = index.chunks(index.documents(match))
    return {chunk.text.replace("\n", " ") for own in chunks.values() for chunk in own}


def test_rows_that_a_table_has_no_more_are_deleted(index: sg.Index, notes: Path) -> None:
    written = (notes / "fares.csv").stat().st_mtime
    (notes / "fares.csv").write_text("route,price\nLangness,3\nOstra,12\nVell,7\n")
    os.utime(notes / "fares.csv", (written, written))  # else the rows that stay have another date
    report = index.insert(sg.read_documents(notes))
    assert (len(report.added), len(report.deleted), report.updated) == (1, 1, ())
    assert len(report.unchanged) == 3
    assert texts(index, "fares.csv") == {
        "route: Langness; price: 3.",
        "route: Ostra; price: 12.",
        "route: Vell; price: 7.",
    }
    os.utime(notes / "fares.csv", (written + 60, written + 60))
    assert len(index.insert(sg.read_documents(notes)).updated) == 3
    (notes / "fares.csv").write_text("route,price\n")
    index.insert(sg.read_documents(notes / "fares.csv"))
    assert list(index.documents()) == ["ferry.txt"]
    assert index.verify() == []


def test_rows_that_are_not_given_whole_delete_nothing(index: sg.Index, notes: Path) -> None:
    before = index.documents()
    for document in sg.read_documents(notes / "fares.csv"):
        assert index.insert([document]).deleted == ()
    assert index.documents() == before
    rest = sg.read_documents(notes / "fares.csv")
    rows = [next(rest)]
    assert index.insert(rest).deleted == ()
    assert len(index.insert(rows, files=["fares.csv"]).deleted) == 2


def test_a_file_that_cannot_be_read_to_its_end_keeps_its_rows(index: sg.Index, notes: Path) -> None:
    (notes / "fares.csv").write_text("route,price\nOstra,12\n" + "x" * (8 * 2**20 + 2))
    with pytest.warns(UserWarning, match="a line of more than"):
        report = index.insert(sg.read_documents(notes), prune=True)
    assert report.deleted == ()
    assert len(index.documents("fares.csv")) == 3


def test_documents_that_were_not_read_from_a_file_are_not_a_file_s(index: sg.Index, notes: Path) -> None:
    index.insert([sg.Document("own", "Ada wrote this.", {"source": "fares.csv"})])
    index.insert(sg.read_documents(notes), prune=True)
    assert "own" in index.documents()
    with pytest.raises(ValueError, match="read_documents"):
        index.insert([sg.Document("other", "More.")], prune=True)


def test_ids_of_rows_follow_an_id_column_or_the_content(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"

    def ids(text: str) -> list[str]:
        path.write_text(text)
        return [document.id.rpartition("table.csv:")[2] for document in sg.read_documents(path)]

    assert ids("ID,name\n7,Ada\n9,Ida\n7,Mara\n") == ["7", "9", "7 (2)"]
    assert ids("ID,name\n7,Ada\n7 (2),Ida\n7,Mara\n7,Olaf\n") == ["7", "7 (2)", "7 (3)", "7 (4)"]
    first = ids("name,age\nAda,3\nIda,4\nAda,3\n")
    assert ids("name,age\nMara,5\nAda,3\nIda,4\nAda,3\n")[1:] == first
    assert first[2] == f"{first[0]} (2)"
    path = tmp_path / "table.jsonl"
    lines = [json.dumps({"text": name}) for name in ("Ada", "Ida", "Mara")]
    path.write_text("\n".join(lines))
    before = {each.text: each.id for each in sg.read_documents(path)}
    path.write_text("\n".join(lines[1:]))
    assert {each.text: each.id for each in sg.read_documents(path)}.items() <= before.items()


def test_shards_lose_rows_too(notes: Path) -> None:
    embedder = sg.HashingEmbedder()
    with sg.build_shards(
        sg.read_documents(notes), "idx", shards=3, embedder=embedder, progress=False
    ) as index:
        (notes / "fares.csv").write_text("route,price\nOstra,12\n")
        (notes / "ferry.txt").unlink()
        report = index.insert(sg.read_documents(notes), prune=True)
        assert len(report.deleted) == 3
        assert texts(index) == {"route: Ostra; price: 12."}
        (notes / "fares.csv").write_text("route,price\n")
        index.insert(sg.read_documents(notes))
        assert index.documents() == {}


def test_a_folder_is_mirrored_listed_and_deleted_by_commands(notes: Path) -> None:
    run("build", "notes", "-o", "idx", *HASHING)
    (notes / "fares.csv").write_text("id,route\n1,Ostra\n")
    (notes / "ferry.txt").unlink()
    (notes / "letters").mkdir()
    (notes / "letters" / "one.md").write_text("---\ntitle: One\n---\nAda wrote to Bremen.")
    (notes / "letters" / "two.md").write_text("Ada wrote again.")
    assert set(run("sync", "idx", "notes")["deleted"]).isdisjoint({"ferry.txt"})
    assert run("sync", "idx", "notes", "--prune")["deleted"] == ["ferry.txt"]
    row = {"id": "fares.csv:1", "source": "fares.csv", "title": None, "chunks": 1}
    one = {"id": "letters/one.md", "source": "letters/one.md", "title": "One", "chunks": 1}
    two = {**one, "id": "letters/two.md", "source": "letters/two.md", "title": None}
    assert run("list", "idx") == [row, one, two]
    assert run("list", "idx", "letters") == [one, two]
    assert run("list", "idx", "*.csv") == [row]
    assert run("delete", "idx", "*/o*.md")["deleted"] == ["letters/one.md"]
    assert run("delete", "idx", "fares.csv")["deleted"] == ["fares.csv:1"]
    assert run("delete", "idx", "letters/")["deleted"] == ["letters/two.md"]
    assert "no document 'nowhere'" in run("delete", "idx", "nowhere", code=1)["message"]


def test_an_index_remembers_its_folders(notes: Path) -> None:
    other, copy = Path("other"), Path("copy")
    other.mkdir()
    (other / "c.txt").write_text("Olaf paints.")
    run("build", "notes", "-o", "idx", *HASHING)
    before = {each["id"] for each in run("list", "idx")}
    for given in ("./notes", str(notes.resolve()), "other/../notes", "notes/ferry.txt"):
        report = run("sync", "idx", given)
        assert (report["operation"], report["added"], report["updated"]) == ("sync", [], []), given
    assert run("sync", "idx", "notes", "other")["added"] == ["other/c.txt"]
    assert run("sync", "idx", "other")["added"] == []
    shutil.copytree(notes, copy)
    refused = run("sync", "idx", "copy", code=1)["message"]
    assert str(copy.resolve()) in refused
    assert str(notes.resolve()) in refused
    assert "--moved" in refused
    assert "--as NAME" in refused
    assert {each["id"] for each in run("list", "idx")} == before | {"other/c.txt"}
    assert "copy/ferry.txt" in run("sync", "idx", "copy", "--as", "copy")["added"]
    for folder, name in ((notes, "ferry.txt"), (copy, "ferry.txt"), (other, "c.txt")):
        (folder / name).unlink()
    (other / "d.txt").write_text("Olaf sleeps.")
    assert run("sync", "idx", "notes")["vanished"] == ["ferry.txt"]
    assert run("sync", "idx", "notes", "--prune")["deleted"] == ["ferry.txt"]
    lines = CliRunner().invoke(main, ["sync", "idx", "copy"]).output
    assert "vanished: 1 (copy/ferry.txt); --prune" in lines
    notes.rename("moved")
    assert "--moved" in run("sync", "idx", "moved", code=1)["message"]
    report = run("sync", "idx", "moved", "--moved", "notes=moved")
    assert (report["added"], report["updated"], report["vanished"]) == ([], [], [])
    assert run("sync", "idx", "moved")["added"] == []
    assert set(run("build", "moved", "other", "-o", "idx", "--prune", *HASHING)["deleted"]) == {"other/c.txt"}


def test_two_paths_with_one_id_are_refused_before_anything_is_written(notes: Path) -> None:
    Path("old/notes").mkdir(parents=True)
    Path("old/notes/ferry.txt").write_text("Another ferry.")
    message = run("build", "notes", "old/notes", "-o", "idx", *HASHING, code=1)["message"]
    assert str(Path("notes/ferry.txt").resolve()) in message
    assert str(Path("old/notes/ferry.txt").resolve()) in message
    assert not Path("idx").exists()


def test_a_file_that_is_left_out_has_not_vanished(notes: Path) -> None:
    (notes / "app.js").write_text("// The ferry sails.")
    run("build", "notes", "notes/app.js", "-o", "idx", *HASHING)
    assert run("sync", "idx", "notes", "--exclude", "*.txt", "--prune")["deleted"] == []
    assert len(run("list", "idx")) == 5


def test_globs_choose_files(notes: Path) -> None:
    for name in ("app.js", "look.css", "node_modules/lib.txt", "old/a.txt", "sub/old/b.txt", "sub/c.md"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text("The ferry sails.")
    (notes / "photo.jpg").write_bytes(b"\xff\xd8\xff\0")

    def read(**globs: Any) -> tuple[set[str], dict[str, str]]:
        skipped: dict[str, str] = {}
        given = sg.read_documents(notes, on_skip=skipped.__setitem__, **globs)
        return {document.file for document in given}, skipped

    found, skipped = read()
    assert found == {"fares.csv", "ferry.txt", "old/a.txt", "sub/old/b.txt", "sub/c.md"}
    assert skipped == {
        "app.js": "left out by default (JS)",
        "look.css": "left out by default (CSS)",
        "node_modules": "left out by default",
        "photo.jpg": "a picture (JPG)",
    }
    assert read(exclude="old")[0] == {"fares.csv", "ferry.txt", "sub/c.md"}
    assert read(exclude=["notes/old/*", "**/*.md"])[0] == {"fares.csv", "ferry.txt", "sub/old/b.txt"}
    assert read(include=["*.js", "sub/**/*.md"]) == (
        {"app.js", "sub/c.md"},
        {"node_modules": "left out by default"},
    )
    assert read(include="node_modules/*")[0] == {"node_modules/lib.txt"}
    assert {each.id for each in sg.read_documents(notes / "app.js")} == {"app.js"}


def test_globs_are_options_and_pictures_are_no_failure(notes: Path) -> None:
    (notes / "photo.jpg").write_bytes(b"\xff\xd8\xff\0")
    (notes / "app.js").write_text("// The ferry sails.")
    built = run("build", "notes", "-o", "idx", "--exclude", "*.csv", *HASHING)
    assert built["added"] == ["ferry.txt"]
    assert set(built["skipped_files"]) == {"photo.jpg", "app.js"}
    assert run("insert", "idx", "notes", "--include", "*.js")["added"] == ["app.js"]


def test_output_that_nobody_reads_ends_quietly(index: sg.Index) -> None:
    index.insert([sg.Document(f"d{n}", f"The ferry {n} to Ostra. " * 40) for n in range(100)])
    code = "import sys; sys.argv[0] = 'stratagraph'; from stratagraph.cli.main import main; main()"
    for options in (["--json"], ["-k", "100"]):
        command = [sys.executable, "-c", code, "query", "idx", "ferry", "-k", "100", "--no-answer", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait() == 141


def test_errors_of_commands_name_commands(index: sg.Index) -> None:
    asked = ("query", "idx", "ferry")
    for arguments, said in (
        ((*asked, "--method", "hirag"), "stratagraph build INPUTS -o INDEX --method hirag"),
        ((*asked, "--guided"), "open the index with --llm NAME, or give --no-guided"),
        ((*asked, "--no-guided", "--guided-steps", "2"), "--guided-steps is for --guided,"),
        ((*asked, "--option", "x=1"), "there is no --option 'x'"),
        ((*asked, "--no-fill"), "--no-fill leaves passages out"),
        (("delete", "idx", "gone"), "--missing-ok"),
        (("stats", "notes"), "the folder that `stratagraph build` wrote"),
        ((*asked, "--embedder", "minilm"), "--embedder NAME"),
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 1, arguments
        assert said in result.stderr
        assert not re.search(r"=\.\.\.|=True|_index\b|index\.\w+\(", result.stderr)


def test_a_folder_of_another_format_or_an_unfinished_build_says_what_to_do(index: sg.Index) -> None:
    for manifest in Path("idx").rglob("manifest.json"):
        manifest.write_text(manifest.read_text().replace('"stratagraph": ', '"stratagraph": 9'))
    refused = CliRunner().invoke(main, ["list", "idx"])
    assert "format 9" in refused.stderr
    assert "build it again" in refused.stderr
    assert "in Python" not in refused.stderr
    begun = Path("begun")
    begun.mkdir()
    (begun / "stratagraph-index").touch()
    unfinished = CliRunner().invoke(main, ["list", "begun"])
    assert "never finished; run the same command again" in unfinished.stderr

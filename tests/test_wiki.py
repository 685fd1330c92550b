"""An index as a folder of Markdown that stays true when documents change."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.errors import Damaged, NotAnIndex

MANIFEST = ".stratagraph-wiki.json"
TEXTS = {
    "ferry": ("The Ferry", "Ada Lund runs the ferry to Ostra. Ada Lund was born in Hathe."),
    "bridge": ("Bridge", "The bridge to Ostra was built by Ada Lund in 1901."),
    "storm": (
        "bridge",
        "Ostra lost its quay in the storm. <script>alert(1)</script> [[Ostra]] # not a heading",
    ),
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[sg.Index]:
    documents = [sg.Document(name, text, {"title": title}) for name, (title, text) in TEXTS.items()]
    shared: dict[str, Any] = {"path": tmp_path / "idx", "embedder": "hashing", "progress": False}
    with sg.build_index(documents, ["lshtree", "noderag"], **shared) as built:
        yield built


def pages(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in sorted(folder.rglob("*.md"))}


def test_every_link_leads_to_a_heading_and_every_page_is_linked(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "wiki", "markdown")
    written = pages(folder)
    linked = {"index.md"}
    for name, text in written.items():
        for target in re.findall(r"(?<!\\)\]\(([^)]*)\)", text):
            path, _, heading = target.partition("#")
            page = str(((folder / name).parent / unquote(path)).resolve().relative_to(folder.resolve()))
            linked.add(page)
            assert not heading or f"\n## {heading}\n" in written[page]
    assert linked == set(written)
    ada = written["things/Ada-Lund.md"]
    assert "- Ada Lund runs the ferry to Ostra. [\\[" in ada
    assert "](../documents/The-Ferry.md#p1)" in ada
    assert "[Ostra](../things/Ostra.md)" in ada
    assert (
        "[Ada Lund](../things/Ada-Lund.md)" in written["documents/The-Ferry.md"].partition("## Cited by")[2]
    )
    assert "things/Hathe.md" not in written  # of one document alone


def test_texts_and_names_are_shown_as_they_are(index: sg.Index, tmp_path: Path) -> None:
    written = pages(index.export(tmp_path / "wiki", "markdown"))
    named = [name for name in written if name.casefold().startswith("documents/bridge")]
    assert len({name.casefold() for name in named}) == 2  # "Bridge" and "bridge" are one file on some systems
    (storm,) = (written[name] for name in named if "storm" in written[name])
    assert "\\<script\\>" in storm
    assert "\\[\\[Ostra\\]\\] \\# not" in storm


@pytest.mark.parametrize(
    "title", ["CON", "nul.txt", "..", "a/b\\c", "x" * 400, "\U0001f600", "é", ".hidden", "- 1. a"]
)
def test_names_that_a_file_system_refuses(title: str, tmp_path: Path) -> None:
    documents = [sg.Document(name, f"Ostra is far, says {name}.", {"title": title}) for name in ("p", "q")]
    with sg.build_index(documents, embedder="hashing", progress=False) as built:
        folder = built.export(tmp_path / "wiki", "markdown")
    names = [each.name for each in (folder / "documents").iterdir()]
    assert len(names) == 2
    for name in names:
        assert re.fullmatch(r"[^\W_][\w-]*\.md", name)
        assert len(name.encode()) < 140
        assert name.partition(".")[0].lower() not in ("con", "nul")


def test_it_follows_the_index_and_keeps_no_trace(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "wiki", "markdown")
    before = {each: each.stat().st_mtime_ns for each in folder.rglob("*.md")}
    time.sleep(0.01)
    index.export(folder, "markdown")
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*.md")} == before
    index.insert([sg.Document("inn", "The inn at Hathe has a bar.", {"title": "Inn"})])
    index.delete("ferry")
    index.export(folder, "markdown")
    everything = b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())
    for trace in (b"runs the ferry", b"Ferry", b"born"):
        assert trace not in everything
        assert not any(trace.decode() in str(each) for each in folder.rglob("*"))
    fresh = pages(index.export(tmp_path / "fresh", "markdown"))
    assert pages(folder) == fresh
    assert (folder / MANIFEST).read_bytes() == (tmp_path / "fresh" / MANIFEST).read_bytes()


def test_an_edited_page_stops_it(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "wiki", "markdown")
    page = folder / "things" / "Ostra.md"
    page.write_text("mine")
    index.delete("storm")
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    with pytest.raises(ValueError, match=r"1 pages .* edited by hand .*things/Ostra\.md"):
        index.export(folder, "markdown")
    assert {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()} == before
    index.export(folder, "markdown", overwrite=True)
    assert "mine" not in page.read_text()
    (folder / "notes.md").write_text("beside it")
    page.unlink()
    index.export(folder, "markdown")
    assert page.exists()
    assert (folder / "notes.md").read_text() == "beside it"


def test_a_folder_that_is_not_ours_is_not_touched(index: sg.Index, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "index.md").write_text("a page of mine")
    with pytest.raises(NotAnIndex, match="other files"):
        index.export(folder, "markdown")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(NotAnIndex):
        index.export(file, "markdown")
    outside = tmp_path / "outside.md"
    outside.write_text("outside")
    lists: tuple[object, ...] = (
        {"kind": "stratagraph wiki", "pages": {"../outside.md": ["x"]}},
        {"kind": "another", "pages": {}},
        {"kind": "stratagraph wiki", "pages": 3},
        [],
    )
    for listed in lists:
        (folder / MANIFEST).write_text(json.dumps(listed))
        with pytest.raises(Damaged):
            index.export(folder, "markdown", overwrite=True)
    assert sorted(each.name for each in folder.iterdir()) == [MANIFEST, "index.md"]
    assert outside.read_text() == "outside"


def test_links_in_the_folder_are_not_followed(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "wiki", "markdown")
    page, outside = folder / "things" / "Ostra.md", tmp_path / "outside.md"
    outside.write_bytes(page.read_bytes())
    page.unlink()
    page.symlink_to(outside)
    with pytest.raises(ValueError, match="edited by hand or are not ours"):
        index.export(folder, "markdown")


def test_a_filter_holds_on_every_page(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "wiki", "markdown", where={"title": {"$ne": "The Ferry"}})
    [ferry] = (name for name, about in index.documents().items() if about["title"] == "The Ferry")
    by_id = index.export(tmp_path / "by id", "markdown", where={"$document": {"$ne": ferry}})
    assert pages(by_id) == pages(folder)
    assert "ferry" not in "".join(pages(folder).values()).lower()
    assert "things/Ostra.md" in pages(folder)
    assert "things/Ada-Lund.md" not in pages(folder)  # of one admitted document
    by_id = index.export(tmp_path / "ids", "markdown", where={"$document": {"$ne": "ferry"}})
    assert pages(by_id) == pages(folder)
    with pytest.raises(ValueError, match="where is for format='markdown'"):
        index.export(tmp_path / "x.jsonl", where={"title": "Inn"})


def test_the_command_line_writes_a_wiki(index: sg.Index, tmp_path: Path) -> None:
    run, folder = CliRunner(), tmp_path / "wiki"
    arguments = ["export", str(index.path), str(folder), "--format", "markdown"]
    assert run.invoke(main, arguments).exit_code == 0
    (folder / "index.md").write_text("mine")
    stopped = run.invoke(main, arguments)
    assert stopped.exit_code != 0
    assert "index.md" in stopped.output
    assert run.invoke(main, [*arguments, "--overwrite"]).exit_code == 0
    assert run.invoke(main, ["export", str(index.path)]).exit_code != 0

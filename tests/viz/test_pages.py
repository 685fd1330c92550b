"""Pictures: which part of a hierarchy they show, and how they behave in a real browser."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratagraph as sg
from stratagraph import viz
from stratagraph.types.records import Failure, MethodNode, Usage
from stratagraph.viz.hierarchy import largest_part, tree_of
from stratagraph.viz.page import embedded
from tests.viz.browser import Browser, Page
from tests.viz.forest import Forest

# What a document may hold, and what a page must show as text.
EVIL = (
    "Mara Quill wrote <script>document.title='owned'</script> to Ostra. "
    '</script><img src=x onerror="document.title=\'owned\'"> & "quotes" &lt;b&gt; \'--> ]]> \u2028\u2029 '
    "<!-- <script> \u202e Bremen {{7*7}} ${1+1}"
)
DOCUMENTS = [
    sg.Document("<b>evil</b>&\"'", EVIL, {"title": "<i>Title</i> & Co"}),
    *(
        sg.Document(f"ferry-{n}", f"Ferry {n} of Mara Quill leaves Ostra for Bremen at {n}.")
        for n in range(24)
    ),
]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(DOCUMENTS, "lshtree", embedder=sg.HashingEmbedder(), progress=False) as index:
        yield index


class Viewer:
    """Opens pictures in the browser."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder

    def __call__(self, picture: sg.Picture, **options: Any) -> Page:
        return self._browser.open(picture.save(self._folder / "page.html"), **options)


@pytest.fixture
def view(browser: Browser, tmp_path: Path) -> Viewer:
    return Viewer(browser, tmp_path)


def assert_quiet(page: Page, title: str) -> None:
    """Nothing was run, asked for or complained about."""
    assert page.complaints == []
    assert page.requests == []
    assert page.run("document.title") == title
    assert (
        page.run("document.querySelectorAll('main script, main img, main i:not([class]), main b b').length")
        == 0
    )


def click_text(page: Page, selector: str, text: str) -> None:
    """Click the last element of a selector whose text begins so."""
    place = page.run(
        f"[...document.querySelectorAll({selector!r})].findLastIndex(e => e.textContent.startsWith({text!r}))"
    )
    assert place >= 0, (selector, text)
    page.click(selector, place)


def test_a_click_opens_a_summary_and_its_sources(index: sg.Index, view: Viewer) -> None:
    summary = max(index.nodes(), key=lambda node: (node.level, len(node.sources)))
    page = view(index.show())
    assert page.text("h1") == "Hierarchy of lshtree"
    total = len(list(index.nodes())) + len(DOCUMENTS)
    assert f"All {total} nodes." in page.text("header")
    beginning = " ".join(summary.text.split())[:30]
    click_text(page, ".depth-1", beginning)
    panel = page.text("#detail")
    assert beginning[:20] in panel
    assert f"{summary.kind} · level {summary.level} · {len(summary.members)} members" in panel
    assert page.run("document.querySelectorAll('#detail blockquote').length") == min(5, len(summary.sources))
    passage = index.find_chunks(summary.sources[0])[0]
    assert passage.document_id in panel
    page.click(".depth-0")
    assert "Each cell contains those to its right." in page.text("#detail")
    assert_quiet(page, "Hierarchy of lshtree")


def test_markup_in_a_document_is_text(index: sg.Index, view: Viewer) -> None:
    page = view(index.show())
    click_text(page, ".cell", "Mara Quill wrote <script>")
    shown = page.text("#detail .text")
    for part in ("<script>document.title='owned'</script>", "<img src=x onerror=", "&lt;b&gt;", "{{7*7}}"):
        assert part in shown
    assert "<b>evil</b>&\"'" in page.text("#detail")
    assert_quiet(page, "Hierarchy of lshtree")


def test_the_graph_around_a_question(index: sg.Index, view: Viewer) -> None:
    found = index.retrieve("What did Mara Quill write <script>alert(1)</script>?", k=6, view="chunks")
    page = view(found.show())
    assert "Entry points: Mara Quill" in page.text("header")
    assert page.run("document.querySelectorAll('g.hit').length") == 6
    assert page.run("document.querySelectorAll('line.named').length") >= 1
    assert len(page.text("ol.hits").strip().split("\n\n")) >= 1
    page.click("g.hit circle")
    panel = page.text("#detail")
    for word in ("score", "mass", "similarity", "chunk, level 0"):
        assert word in panel
    rank = next(number for number, hit in enumerate(found.hits, 1) if EVIL.startswith(hit.text[:20]))
    click_text(page, "#detail button.back", "All hits")
    page.click("ol.hits button", rank - 1)
    assert "<script>document.title='owned'</script>" in page.text("#detail")
    assert_quiet(page, "Question: What did Mara Quill write <script>alert(1)</script>?")


def test_paths_of_a_trace_are_drawn(index: sg.Index, view: Viewer) -> None:
    from dataclasses import replace

    names = [entity.name for entity in index.entities() if entity.name in ("Mara Quill", "Ostra", "Bremen")]
    assert len(names) == 3
    found = index.retrieve("Mara Quill", k=2)
    told = replace(found, trace=({"path": names}, {"paths": [names[:2], names[1:]], "similarity": 0.25}))
    page = view(told.show())
    assert page.run("document.querySelectorAll('line.path').length") == 2
    page.click("ol.hits button")
    assert " → ".join(names) in page.text("#detail")
    assert_quiet(page, "Question: Mara Quill")


def test_a_question_that_finds_nothing(index: sg.Index, view: Viewer) -> None:
    found = index.retrieve("Mara Quill", where={"title": "nowhere"})
    page = view(found.show())
    assert "Nothing was found." in page.text("#detail")
    assert_quiet(page, "Question: Mara Quill")


def test_the_build_report(view: Viewer) -> None:
    stages = {
        "read": Usage(seconds=0.5),
        "extract <b>": Usage(12, 3, 45_000, 1_234, 0, 30.25),
        "embed": Usage(embedded_texts=700, seconds=2.0),
    }
    failures = tuple(Failure("extract", f"chunk {n}", "</script><b>garbage</b>") for n in range(60))
    report = sg.BuildReport(
        "build", 3, 10, 1, {"lshtree": 4}, notes={"<i>note</i>": 2}, failures=failures, stages=stages
    )
    page = view(viz.build_report(report))
    rows = page.run(
        "[...document.querySelectorAll('tr')].map(r => r.innerText.split('\\t').map(c => c.trim()))"
    )
    assert rows[2][:7] == ["extract <b>", "12", "3", "45,000", "1,234", "–", "30.25"]
    assert rows[4][:7] == ["all", "12", "3", "45,000", "1,234", "700", "32.75"]
    widths = page.run(
        "[...document.querySelectorAll('.bar .time')].map(e => e.getBoundingClientRect().width)"
    )
    assert widths[1] > 10 * widths[2] > 0
    shown = page.text("main")
    assert "<i>note</i>: 2" in shown
    assert "extract: chunk 49: </script><b>garbage</b>" in shown
    assert "10 more, which the report itself lists" in shown
    assert_quiet(page, "Report: build, generation 3")


def test_a_hundred_thousand_nodes_do_not_hang_the_page(view: Viewer) -> None:
    forest = Forest(leaves=100_000, fan=20)
    picture = viz.hierarchy(forest)
    assert len(picture.html) < 2_000_000
    page = view(picture)
    assert "1,000 of 105,264 nodes are shown: the largest" in page.text("header")
    assert page.run("document.querySelectorAll('.cell:not(.rest)').length") == 1001
    rest = page.run("[...document.querySelectorAll('.rest')].map(e => e.textContent)")
    assert any(text.startswith("+ ") and "smaller one" in text for text in rest)
    page.run("document.querySelectorAll('.depth-2')[3].click()")
    assert page.run("document.querySelectorAll('.cell').length") < 2002
    assert_quiet(page, "Hierarchy of forest")


def test_a_notebook_s_frame_renders(index: sg.Index, browser: Browser, tmp_path: Path) -> None:
    frame = tmp_path / "cell.html"
    frame.write_text(
        f"<!doctype html><meta charset=utf-8><title>cell</title>{index.show()._repr_html_()}", "utf-8"
    )
    page = browser.open(frame)
    assert page.run("document.querySelector('iframe').getBoundingClientRect().height") == 560
    assert page.run("document.querySelector('iframe').contentDocument") is None, "the frame is shut off"
    assert page.run("document.querySelectorAll('script').length") == 0
    assert page.run("document.title") == "cell"
    assert page.complaints == page.requests == []


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(index: sg.Index, view: Viewer, dark: bool) -> None:
    """WCAG contrast of at least 4.5 for every column of the icicle and for the panel."""
    page = view(index.show(), dark=dark)
    page.click(".depth-1")
    pairs = page.run(
        """['.depth-0', '.depth-1', '.depth-2', '#detail', '.note', '.facts'].map(s => {
            let e = document.querySelector(s), ink = getComputedStyle(e).color, ground = 'rgba(0, 0, 0, 0)';
            for (; e && ground === 'rgba(0, 0, 0, 0)'; e = e.parentElement)
                ground = getComputedStyle(e).backgroundColor;
            return [ink, ground].map(c => c.match(/[0-9.]+/g).slice(0, 3).map(Number)) })"""
    )
    assert all(contrast(ink, ground) >= 4.5 for ink, ground in pairs), pairs
    assert (sum(pairs[3][1]) < 200) == dark


def contrast(one: list[float], other: list[float]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: list[float]) -> float:
    parts = [value / 255 for value in color]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def node(identity: str, level: int, *members: str, kind: str = "community") -> MethodNode:
    return MethodNode(identity, kind, level, f"Text of {identity}", members, (), ())


def outline(branch: object) -> object:
    return {child.id: outline(child) for child in branch.children}  # type: ignore[attr-defined]


def test_a_member_of_several_is_counted_once() -> None:
    root, total = tree_of([node("a", 1, "x", "y"), node("b", 1, "y", "z")], "all")
    assert outline(root) == {"a": {"x": {}, "y": {}}, "b": {"z": {}}}
    assert (root.size, total) == (3, 5)
    assert root.children[0].children[1].parents == 2


def test_members_that_are_not_below_make_no_circle() -> None:
    root, _ = tree_of([node("a", 1, "a", "b", "x"), node("b", 1, "a")], "all")
    assert outline(root) == {"a": {"x": {}}, "b": {}}


def test_many_tops_are_put_in_groups_by_kind() -> None:
    nodes = [node(f"{kind}{n}", 0, kind=kind) for kind in ("unit", "entity") for n in range(40)]
    root, total = tree_of(nodes, "all")
    assert [(child.id, child.size) for child in root.children] == [("entity", 40), ("unit", 40)]
    assert total == 80


@given(st.integers(1, 400), st.integers(2, 7), st.integers(1, 60))
def test_the_largest_are_shown_each_with_its_parent(leaves: int, fan: int, limit: int) -> None:
    root, total = tree_of(Forest(leaves, fan).nodes(), "all")
    shown = largest_part(root, limit)
    assert len(shown.branches) == min(limit, total + 1) or leaves == 1
    assert all(parent < place for place, parent in enumerate(shown.parents))
    sizes = [branch.size for branch in shown.branches]
    assert sizes == sorted(sizes, reverse=True)
    for place, branch in enumerate(shown.branches):
        seen = sum(parent == place for parent in shown.parents)
        assert seen + shown.hidden[place] == len(branch.children)


@given(st.text() | st.dictionaries(st.text(), st.lists(st.text())))
def test_embedded_data_cannot_end_its_block_and_is_what_it_was(value: object) -> None:
    text = embedded(value)
    assert not re.search(r"[<>&\u2028\u2029]|[^\x20-\x7e]", text)
    assert json.loads(text) == value


def test_an_index_without_summaries_shows_its_chunks() -> None:
    with sg.build_index(["Ada wrote."], "lshtree", embedder=sg.HashingEmbedder(), progress=False) as index:
        assert list(index.nodes()) == []
        page = index.show().html
    assert "All 1 node." in page
    assert "Ada wrote." in page


def test_bad_arguments() -> None:
    with sg.build_index(["Ada wrote."], embedder=sg.HashingEmbedder(), progress=False) as index:
        with pytest.raises(ValueError, match="at least 1, not 0"):
            index.show(most=0)
        with pytest.raises(ValueError, match="no method 'nothing'"):
            index.show("nothing")
        path = index.path
        opened = sg.open_index(path, embedder=sg.HashingEmbedder())
        with pytest.raises(ValueError, match="has only opened the index"):
            opened.show_report()
        assert "Report: build" in index.show_report().title


def test_a_retrieval_that_left_its_index_says_so() -> None:
    import copy
    import pickle

    with sg.build_index(["Ada wrote."], embedder=sg.HashingEmbedder(), progress=False) as index:
        found = index.retrieve("Ada")
        assert copy.deepcopy(found).show() == found.show()
        loaded = pickle.loads(pickle.dumps(found))
    assert loaded == found
    with pytest.raises(ValueError, match="has left its index"):
        loaded.show()
    assert "1 hit by walk" in viz.question(loaded).html


def test_d3_is_as_it_was_published() -> None:
    folder = files("stratagraph.viz").joinpath("assets", "d3")
    listed = dict(reversed(line.split()) for line in folder.joinpath("SHA256SUMS").read_text().splitlines())
    held = {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(".js")}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in held.items()} == listed
    assert "Mike Bostock" in folder.joinpath("LICENSE").read_text()

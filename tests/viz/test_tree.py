"""Which part of a hierarchy is shown, and what a page is made of; no browser."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratagraph as sg
from stratagraph import viz
from stratagraph.types.records import MethodNode
from stratagraph.viz.hierarchy import largest_part, tree_of
from stratagraph.viz.page import embedded, shortened
from tests.viz.forest import Forest


def node(identity: str, level: int, *members: str, kind: str = "community") -> MethodNode:
    return MethodNode(identity, kind, level, f"Text of {identity}", members, (), ())


def outline(branch: object) -> object:
    return {child.id: outline(child) for child in branch.children}  # type: ignore[attr-defined]


def test_members_stand_below_what_contains_them() -> None:
    root, total = tree_of([node("a", 1, "x", "y"), node("b", 1, "z"), node("top", 2, "a", "b")], "all")
    assert outline(root) == {"top": {"a": {"x": {}, "y": {}}, "b": {"z": {}}}}
    assert (root.size, total) == (3, 6)


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


@given(st.text(), st.integers(2, 50))
def test_shortened_texts_keep_to_their_limit(text: str, limit: int) -> None:
    line = shortened(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_a_picture_is_the_same_every_time() -> None:
    assert viz.hierarchy(Forest(300, 5)) == viz.hierarchy(Forest(300, 5))


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

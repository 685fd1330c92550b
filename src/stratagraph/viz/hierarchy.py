"""The hierarchy of a method as an icicle: the root on the left, each level to the right of the one above."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stratagraph.types.checks import positive
from stratagraph.types.question import WALK
from stratagraph.types.records import MethodNode
from stratagraph.types.results import Picture
from stratagraph.viz.page import counted, cut, page, shortened

if TYPE_CHECKING:
    from stratagraph.index import Index

MOST_SHOWN = 1000
MOST_ROOTS = 60
"""Nodes at the top that stand side by side; more are put in groups by their kind."""
_TITLE = 90  # characters
_TEXT = 1200
_PASSAGE = 280
_SOURCES = 5  # passages that a text names

Text = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Of a member that is no node: its kind, text, chunk ids and document ids."""
_SCRIPTS = ("d3/d3-hierarchy.min.js", "common.js", "hierarchy.js")
_BODY = """<main class="split">
<div id="icicle" class="stage" aria-label="Hierarchy"></div>
<aside id="detail" aria-live="polite"></aside>
</main>"""


def hierarchy(index: Index, method: str | None = None, *, most: int = MOST_SHOWN) -> Picture:
    """Show a method's hierarchy; a click on a cell opens its text and its passages.

    Parameters
    ----------
    index
        An open index.
    method
        One of its methods; None uses the first. For the walk, and where there is no method, the passages are
        shown.
    most
        Maximum number of cells. Of a larger hierarchy the largest are shown, each below the one that contains
        it, and the page says how many are left out.

    Raises
    ------
    ValueError
        If `most` is below 1.
    MethodMissing
        If the index does not hold the method.
    """
    most = positive("most", most)
    name = method or next(iter(index.methods), WALK)
    root, total = tree_of(() if name == WALK else index.nodes(name), name)
    if not root.children:  # the walk has no nodes above chunks, nor has a method of a very small corpus
        leaves = [Branch(chunk.id, size=1) for chunks in index.chunks().values() for chunk in chunks]
        root, total = Branch(name, children=leaves, size=len(leaves)), len(leaves)
    shown = largest_part(root, most + 1)
    groups = sum(branch.node is None and bool(branch.children) for branch in shown.branches[1:])
    count = len(shown.branches) - 1
    note = f"All {counted(total, 'node')}."
    if count - groups < total:
        note = f"{count - groups:,} of {total:,} nodes are shown: the largest, each below the one that "
        note += "contains it."
    return page(
        f"Hierarchy of {name}",
        [note, "Width says nothing; height is the number of leaves. Click a cell to read it."],
        _BODY,
        data=_data(index, shown),
        scripts=_SCRIPTS,
    )


def _data(index: Index, shown: Shown) -> dict[str, Any]:
    members = [branch.id for branch in shown.branches if branch.node is None and not branch.children]
    chunks = {chunk.id: chunk for chunk in index.find_chunks(members)}
    texts: dict[str, Text] = {
        each.id: ("chunk", each.text, (each.id,), (each.document_id,)) for each in chunks.values()
    }
    for entity in index.entities([each for each in members if each not in chunks]):
        text = f"{entity.name}: {entity.description}" if entity.description else entity.name
        texts[entity.id] = ("entity", text, entity.sources, entity.documents)
    places: dict[str, int] = {}  # of the passages that texts name
    records = [
        _record(branch, texts, places) | {"parent": parent, "hidden": hidden}
        for branch, parent, hidden in zip(shown.branches, shown.parents, shown.hidden, strict=True)
    ]
    passages = {chunk.id: chunk for chunk in index.find_chunks(list(places))}
    return {
        "nodes": records,
        "passages": [
            {"document": passages[each].document_id, "text": shortened(passages[each].text, _PASSAGE)}
            for each in places
        ],
    }


def _record(branch: Branch, texts: Mapping[str, Text], places: dict[str, int]) -> dict[str, Any]:
    node = branch.node
    title = ""
    if node is not None:
        kind, text, sources, documents = node.kind, node.text, node.sources, node.documents
        titles = (node.metadata.get(key) for key in ("title", "name"))
        title = next((each for each in titles if isinstance(each, str) and each.strip()), "")
    elif branch.children:
        kind, text, sources, documents, title = "group", "", (), (), branch.id
    else:
        kind, text, sources, documents = texts.get(branch.id, ("member", branch.id, (), ()))
    return {
        "title": shortened(title or text, _TITLE) or branch.id,
        "text": cut(text, _TEXT),
        "kind": kind,
        "level": node.level if node is not None else None,
        "size": branch.size,
        "members": len(branch.children),
        "also": max(0, branch.parents - 1),
        "sources": [places.setdefault(each, len(places)) for each in sources[:_SOURCES]],
        "sourceCount": len(sources),
        "documentCount": len(documents),
    }


@dataclass(slots=True)
class Branch:
    """A place in the tree: a node, a group of nodes, or a member that is not a node (`node` is None).

    `size` counts the leaves at and below it: nodes without members, and members that are not nodes.
    """

    id: str
    node: MethodNode | None = None
    children: list[Branch] = field(default_factory=list)
    size: int = 0
    parents: int = 0

    @property
    def level(self) -> int:
        """The node's level; -1 for what is no node."""
        return self.node.level if self.node is not None else -1


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown part of a tree: parents before children, each with the place of its parent.

    `hidden[i]` counts the children of branch i that are left out.
    """

    branches: list[Branch]
    parents: list[int]
    hidden: list[int]


def tree_of(nodes: Iterable[MethodNode], label: str) -> tuple[Branch, int]:
    """All nodes below one root, and the number of nodes and members.

    A node with several parents (clusters may overlap) is below the first. Many tops of several kinds are put
    in groups by their kind.
    """
    branches = {node.id: Branch(node.id, node) for node in nodes}
    descending = sorted(branches.values(), key=lambda branch: branch.level, reverse=True)
    leaves: dict[str, Branch] = {}
    for parent in descending:
        assert parent.node is not None
        for member in dict.fromkeys(parent.node.members):
            child = branches.get(member)
            if child is None:
                child = leaves.setdefault(member, Branch(member, size=1))
            elif child.level >= parent.level:
                continue
            child.parents += 1
            if child.parents == 1:
                parent.children.append(child)
    for branch in reversed(descending):
        branch.size = max(1, sum(child.size for child in branch.children))
    tops = [branch for branch in descending if not branch.parents]
    kinds: dict[str, list[Branch]] = defaultdict(list)
    for branch in tops:
        kinds[branch.node.kind if branch.node else ""].append(branch)
    if len(tops) > MOST_ROOTS and len(kinds) > 1:
        tops = [
            Branch(kind, children=members, size=sum(member.size for member in members))
            for kind, members in sorted(kinds.items())
        ]
    root = Branch(label, children=tops, size=sum(child.size for child in tops))
    return root, len(branches) + len(leaves)


def largest_part(root: Branch, limit: int) -> Shown:
    """The root and the largest branches below it, at most `limit`; none without its parent.

    Largest by leaves; of equals the earlier.
    """
    shown = Shown([], [], [])
    heap = [(-root.size, 0, -1)]
    waiting: list[Branch] = [root]
    while heap and len(shown.branches) < limit:
        _, number, parent = heapq.heappop(heap)
        branch = waiting[number]
        place = len(shown.branches)
        shown.branches.append(branch)
        shown.parents.append(parent)
        shown.hidden.append(len(branch.children))
        if parent >= 0:
            shown.hidden[parent] -= 1
        for child in branch.children:
            heapq.heappush(heap, (-child.size, len(waiting), place))
            waiting.append(child)
    return shown

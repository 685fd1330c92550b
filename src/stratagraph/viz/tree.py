"""A method's nodes as a tree, and the part of it that a page can show."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stratagraph.types.records import MethodNode

MOST_ROOTS = 60
"""Nodes at the top that stand side by side; more are put in groups by their kind."""


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

    A node with several parents (clusters may overlap) is below the first.
    """
    branches = {node.id: Branch(node.id, node) for node in nodes}
    descending = sorted(branches.values(), key=_level, reverse=True)
    leaves: dict[str, Branch] = {}
    for parent in descending:
        assert parent.node is not None
        for member in dict.fromkeys(parent.node.members):
            child = branches.get(member)
            if child is None:
                child = leaves.setdefault(member, Branch(member, size=1))
            elif _level(child) >= _level(parent):
                continue
            child.parents += 1
            if child.parents == 1:
                parent.children.append(child)
    for branch in reversed(descending):
        branch.size = max(1, sum(child.size for child in branch.children))
    tops = [branch for branch in descending if not branch.parents]
    return _rooted(tops, label), len(branches) + len(leaves)


def _level(branch: Branch) -> int:
    return branch.node.level if branch.node is not None else -1


def _rooted(tops: list[Branch], label: str) -> Branch:
    root = Branch(label, children=tops)
    kinds: dict[str, list[Branch]] = defaultdict(list)
    for branch in tops:
        kinds[branch.node.kind if branch.node else ""].append(branch)
    if len(tops) > MOST_ROOTS and len(kinds) > 1:
        root.children = [
            Branch(kind, children=members, size=sum(member.size for member in members))
            for kind, members in sorted(kinds.items())
        ]
    root.size = sum(child.size for child in root.children)
    return root


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


def members_shown(shown: Shown) -> list[str]:
    """Ids of shown branches that are no nodes and no groups: entities or chunks."""
    return [branch.id for branch in shown.branches if branch.node is None and not branch.children]


Texts = Mapping[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]]
"""Of a member that is no node, by id: its kind, text, chunk ids and document ids."""

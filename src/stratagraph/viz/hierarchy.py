"""The hierarchy of a method as an icicle: the root on the left, each level to the right of the one above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from stratagraph.types.question import WALK
from stratagraph.types.records import Chunk, GraphEntity, MethodNode
from stratagraph.types.results import Picture
from stratagraph.viz.page import counted, page, shortened
from stratagraph.viz.tree import Branch, Shown, Texts, largest_part, members_shown, tree_of

MOST_SHOWN = 1000
_TITLE = 90  # characters
_TEXT = 1200
_PASSAGE = 280
_SOURCES = 5  # passages that a text names

_SCRIPTS = ("d3/d3-hierarchy.min.js", "common.js", "hierarchy.js")
_BODY = """<main class="split">
<div id="icicle" class="stage" aria-label="Hierarchy"></div>
<aside id="detail" aria-live="polite"></aside>
</main>"""


class Readable(Protocol):
    """The methods of an index that the page reads."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods of the index, the default one first."""
        ...

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        """Nodes of a method."""
        ...

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        """Entities with these ids, or all."""
        ...

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        """Chunks by document."""
        ...

    def find_chunks(self, ids: str | Iterable[str]) -> list[Chunk]:
        """Chunks with these ids."""
        ...


def hierarchy(index: Readable, method: str | None = None, *, most: int = MOST_SHOWN) -> Picture:
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
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    name = method or next(iter(index.methods), WALK)
    root, total = tree_of(() if name == WALK else index.nodes(name), name)
    if not root.children:  # the walk has no nodes above chunks, nor has a method of a very small corpus
        leaves = [Branch(chunk.id, size=1) for chunks in index.chunks().values() for chunk in chunks]
        root, total = Branch(name, children=leaves, size=len(leaves)), len(leaves)
    shown = largest_part(root, most + 1)
    return page(
        f"Hierarchy of {name}",
        [_note(shown, total), "Width says nothing; height is the number of leaves. Click a cell to read it."],
        _BODY,
        data=_data(index, shown),
        scripts=_SCRIPTS,
    )


def _note(shown: Shown, total: int) -> str:
    count = len(shown.branches) - 1
    groups = sum(branch.node is None and bool(branch.children) for branch in shown.branches[1:])
    if count - groups >= total:
        return f"All {counted(total, 'node')}."
    return (
        f"{count - groups:,} of {total:,} nodes are shown: the largest, each below the one that contains it."
    )


def _data(index: Readable, shown: Shown) -> dict[str, Any]:
    texts = _texts(index, members_shown(shown))
    records = [
        _record(branch, parent, hidden, texts)
        for branch, parent, hidden in zip(shown.branches, shown.parents, shown.hidden, strict=True)
    ]
    cited = dict.fromkeys(source for record in records for source in record["sources"])
    places = {identity: place for place, identity in enumerate(cited)}
    for record in records:
        record["sources"] = [places[source] for source in record["sources"]]
    passages = {chunk.id: chunk for chunk in index.find_chunks(list(cited))}
    return {
        "nodes": records,
        "passages": [
            {"document": passages[each].document_id, "text": shortened(passages[each].text, _PASSAGE)}
            for each in cited
        ],
    }


def _texts(index: Readable, ids: Sequence[str]) -> Texts:
    """Texts of members that are not nodes: chunks, else entities."""
    chunks = {chunk.id: chunk for chunk in index.find_chunks(ids)}
    rest = [each for each in ids if each not in chunks]
    of_entities = {}
    for each in index.entities(rest):
        text = f"{each.name}: {each.description}" if each.description else each.name
        of_entities[each.id] = ("entity", text, each.sources, each.documents)
    of_chunks = {each.id: ("chunk", each.text, (each.id,), (each.document_id,)) for each in chunks.values()}
    return {**of_entities, **of_chunks}


def _record(branch: Branch, parent: int, hidden: int, texts: Texts) -> dict[str, Any]:
    node = branch.node
    if node is not None:
        kind, text, sources, documents = node.kind, node.text, node.sources, node.documents
        title = _title(node)
    elif branch.children:
        kind, text, sources, documents = "group", "", (), ()
        title = branch.id
    else:
        kind, text, sources, documents = texts.get(branch.id, ("member", branch.id, (), ()))
        title = shortened(text, _TITLE)
    return {
        "parent": parent,
        "title": title,
        "text": text if len(text) <= _TEXT else text[:_TEXT] + "…",
        "kind": kind,
        "level": node.level if node is not None else None,
        "size": branch.size,
        "members": len(branch.children),
        "hidden": hidden,
        "also": max(0, branch.parents - 1),
        "sources": list(sources[:_SOURCES]),
        "sourceCount": len(sources),
        "documentCount": len(documents),
    }


def _title(node: MethodNode) -> str:
    """The node's title, else the beginning of its text."""
    for key in ("title", "name"):
        title = node.metadata.get(key)
        if isinstance(title, str) and title.strip():
            return shortened(title, _TITLE)
    return shortened(node.text, _TITLE) or node.id

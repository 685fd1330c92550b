"""The three-part context of an answer (HiRAG 4.2): local, bridge and global knowledge."""

from __future__ import annotations

from typing import Any

from stratagraph.methods.hirag.naming import PACKAGE
from stratagraph.models.gate import Gate
from stratagraph.models.prompts import load_prompt
from stratagraph.search.answer import Draft
from stratagraph.text.packing import joined
from stratagraph.types.records import Metadata
from stratagraph.types.results import Retrieval

ANSWER = load_prompt(PACKAGE, "answer")
HEADINGS = {
    "local": "## Local knowledge",
    "bridge": "## Bridge knowledge",
    "global": "## Global knowledge",
    "passages": "## Passages",
}


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft with the numbered hits of each part under its heading, passages last.

    The hits are packed together (`Retrieval.pieces`), a summary entity with the reasons why members on the
    bridge belong to it. Where tokens are left, the steps of the bridge are followed by their paths.
    """
    parts = [trace.get("part", "passages") for trace in retrieval.trace]
    present = [name for name in HEADINGS if name in parts]
    headings = sum(gate.count_tokens(HEADINGS[name]) + 1 for name in present)
    traced = zip(retrieval.hits, retrieval.trace, strict=True)
    texts = [hit.text.strip() + _reasons(trace) for hit, trace in traced]
    room = max(1, max_tokens - headings)
    pieces = retrieval.pieces(texts, room)
    room -= gate.count_tokens(joined(pieces))
    for at, piece in enumerate(pieces):
        path = _path(retrieval.trace[piece.place])
        if path and (room := room - gate.count_tokens(path) - 1) >= 0:
            pieces[at] = piece._replace(text=piece.text + path)
    lines: list[str] = []
    for name in present:
        own = [str(piece) for piece in pieces if parts[piece.place] == name]
        lines += [HEADINGS[name], *own] if own else []
    values = {"context": "\n\n".join(lines), "question": retrieval.query}
    return Draft(ANSWER, values, retrieval.cited(pieces))


def _reasons(trace: Metadata) -> str:
    """The reasons why a summary entity connects its members."""
    reasons = [f"{each['name']}: {each['reason']}" for each in trace.get("members", ()) if each["reason"]]
    return f" It connects {'; '.join(reasons)}" if reasons else ""


def _path(trace: Metadata) -> str:
    """The path of a step of the bridge, if it has several."""
    path = trace.get("path", ())
    if len(path) < 3 or "step" not in trace:
        return ""
    return f" (step {trace['step']} of the path {' - '.join(path)})"

"""The three-part context of an answer (HiRAG 4.2): local, bridge and global knowledge."""

from __future__ import annotations

from typing import Any

from stratagraph.methods.hirag.naming import PACKAGE
from stratagraph.models.gate import Gate
from stratagraph.models.prompts import load_prompt
from stratagraph.search.answer import Draft
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

    The hits are packed together (`Retrieval.pieces`). A statement of the bridge is followed by its step of
    its path, a summary entity by the reasons why members on the bridge belong to it.
    """
    parts = [trace.get("part", "passages") for trace in retrieval.trace]
    present = [name for name in HEADINGS if name in parts]
    headings = sum(gate.count_tokens(HEADINGS[name]) + 1 for name in present)
    traced = zip(retrieval.hits, retrieval.trace, strict=True)
    texts = [_with_bridge(hit.text.strip(), trace) for hit, trace in traced]
    pieces = retrieval.pieces(texts, max(1, max_tokens - headings))
    lines: list[str] = []
    for name in present:
        own = [str(piece) for piece in pieces if parts[piece.place] == name]
        lines += [HEADINGS[name], *own] if own else []
    values = {"context": "\n\n".join(lines), "question": retrieval.query}
    return Draft(ANSWER, values, retrieval.cited(pieces))


def _with_bridge(text: str, trace: Metadata) -> str:
    """A text with its path, and the reasons why a summary entity connects its members."""
    reasons = [f"{each['name']}: {each['reason']}" for each in trace.get("members", ()) if each["reason"]]
    path = trace.get("path", ())
    way = (
        f" (step {trace['step']} of the path {' - '.join(path)})" if len(path) > 2 and "step" in trace else ""
    )
    return f"{text}{way}" + (f" It connects {'; '.join(reasons)}" if reasons else "")

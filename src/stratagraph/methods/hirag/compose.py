"""The three-part context of an answer (HiRAG 4.2): local, bridge and global knowledge, within budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stratagraph._sentences import clip, whole_sentences
from stratagraph.methods.hirag.config import PARTS, HiRAGOptions
from stratagraph.methods.hirag.naming import PACKAGE
from stratagraph.models.gate import Gate
from stratagraph.pipeline.answer import Draft
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.records import Metadata
from stratagraph.results import Citation, Hit, Retrieval

ANSWER = load_prompt(PACKAGE, "answer")
HEADINGS = {
    "local": "## Local knowledge",
    "bridge": "## Bridge knowledge",
    "global": "## Global knowledge",
    "passages": "## Passages",
}

_Entry = tuple[int, Hit, Metadata]  # number, hit and trace


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft with the numbered hits of each part under its heading, passages last.

    Each part has its share of `max_tokens`; what it does not use goes to the next parts. A statement of the
    bridge is followed by its path, a summary entity by the reasons why members on the bridge belong to it.
    """
    chosen = options if isinstance(options, HiRAGOptions) else HiRAGOptions()
    parts: dict[str, list[_Entry]] = {name: [] for name in HEADINGS}
    for number, (hit, trace) in enumerate(zip(retrieval.hits, retrieval.trace, strict=True), 1):
        parts[trace.get("part", "passages")].append((number, hit, trace))
    writer = _ContextWriter(gate, max_tokens)
    weights: dict[str, float] = dict(zip(PARTS, chosen.budgets, strict=True))
    present = [name for name in HEADINGS if parts[name]]
    for place, name in enumerate(present):
        later = sum(weights.get(other, 0.0) for other in present[place:]) or 1.0
        share = weights.get(name, 1.0) / later if place < len(present) - 1 else 1.0
        writer.part(name, parts[name], int(share * writer.left))
    if not writer.citations and retrieval.hits:
        writer.cut(retrieval.hits[0])
    values = {"context": "\n\n".join(writer.lines), "question": retrieval.query}
    return Draft(ANSWER, values, tuple(writer.citations))


class _ContextWriter:
    """Collects numbered entries within a budget of tokens."""

    def __init__(self, gate: Gate, max_tokens: int) -> None:
        self._count = gate.count_tokens
        self.left = max_tokens
        self.lines: list[str] = []
        self.citations: list[Citation] = []
        self._seen: list[str] = []

    def part(self, name: str, entries: Sequence[_Entry], budget: int) -> None:
        """Add a heading and the entries that fit, without those whose text is part of an earlier entry."""
        heading = HEADINGS[name]
        spent, lines = self._count(heading) + 1, []
        for number, hit, trace in entries:
            text = hit.text.strip()
            if not text or any(text in earlier for earlier in self._seen):
                continue
            line = f"[{number}] {_with_bridge(text, trace)}"
            cost = self._count(line) + 1
            if spent + cost > budget:
                continue
            self._cite(number, hit)
            lines.append(line)
            spent += cost
        if lines:
            self.lines += [heading, *lines]
            self.left -= spent

    def cut(self, hit: Hit) -> None:
        """Add the beginning of the best hit, for when no hit fits as a whole."""
        text = f"[1] {hit.text.strip()}"
        whole = whole_sentences(text, self.left, self._count)
        self.lines.append(whole or clip(text, self.left, self._count))
        self._cite(1, hit)

    def _cite(self, number: int, hit: Hit) -> None:
        self._seen.append(hit.text.strip())
        self.citations.append(Citation.of(number, hit))


def _with_bridge(text: str, trace: Metadata) -> str:
    """A text with its path, and the reasons why a summary entity connects its members."""
    reasons = [f"{each['name']}: {each['reason']}" for each in trace.get("members", ()) if each["reason"]]
    path = trace.get("path", ())
    way = f" (on the path {' - '.join(path)})" if len(path) > 2 else ""
    return f"{text}{way}" + (f" It connects {'; '.join(reasons)}" if reasons else "")

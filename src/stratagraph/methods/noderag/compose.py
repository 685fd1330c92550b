"""The answer's prompt: one for all types of nodes (paper 001, appendix E)."""

from __future__ import annotations

from typing import Any

from stratagraph.models.gate import Gate
from stratagraph.pipeline.answer import Draft
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.results import Retrieval

PROMPT = load_prompt("stratagraph.methods.noderag", "answer")


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft of the nodes that were retrieved, best first, each with a number.

    How many tokens were retrieved, the paper's measure of cost, is `retrieval.context(max_tokens).tokens`.
    """
    context = retrieval.context(max_tokens)
    values = {"context": context.text, "question": retrieval.query}
    return Draft(PROMPT, values, context.citations)

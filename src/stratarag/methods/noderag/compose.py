"""The answer's prompt: one for all types of nodes (paper 001, appendix E)."""

from __future__ import annotations

from typing import Any

from stratarag.models.gate import Gate
from stratarag.pipeline.answer import Draft
from stratarag.pipeline.prompts import load_prompt
from stratarag.results import Retrieval

PROMPT = load_prompt("stratarag.methods.noderag", "answer")


async def compose(retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
    """A draft of the nodes that were retrieved, best first, each with a number.

    How many tokens were retrieved, the paper's measure of cost, is `retrieval.context(max_tokens).tokens`.
    """
    context = retrieval.context(max_tokens)
    values = {"context": context.text, "question": retrieval.query}
    return Draft(PROMPT, values, context.citations)

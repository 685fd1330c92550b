"""Search by the vector of a passage that the model makes up (Gao et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratagraph.eval.baselines.asking import Asked
from stratagraph.eval.baselines.plain import Dense
from stratagraph.eval.rankers import Passage, Workbench, needs_model
from stratagraph.models.gate import Task
from stratagraph.models.structured import plain_text
from stratagraph.pipeline.prompts import load_prompt
from stratagraph.protocols import Vectors

HYDE_PROMPT = load_prompt("stratagraph.eval", "hyde")
TASK: Task[str] = Task("hyde", HYDE_PROMPT, plain_text, lambda values: values["question"])


class HyDE:
    """Search by the mean vector of the question and of a passage that the model makes up.

    The paper takes several such passages, sampled at a temperature; here it is one, as at temperature 0. A
    question for which the model makes up none is searched by itself.
    """

    name = "hyde"
    description = "dense, by the mean vector of the question and an answer that the LLM makes up"

    def __init__(self, bench: Workbench) -> None:
        needs_model(bench, "HyDE")
        self._bench = bench
        self._dense = Dense(bench)
        self._made_up = Asked(bench.gate, "hyde", TASK)

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        embedder = self._bench.embedder
        vector = embedder.question(question)
        if passage := self._made_up(question):
            vector = vector + embedder.documents([passage])[0]
        return [self._bench.passages[row] for row in self._dense.nearest(_unit(vector), k)]


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector

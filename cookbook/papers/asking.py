"""Systems that retrieve nothing but by the model: HyDE, the model alone, and its chain of thought."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from papers.corpus import Baseline, json_task, text_task
from stratagraph.eval import Passage
from stratagraph.kernels.topk import top_k
from stratagraph.models.structured import plain_text
from stratagraph.types.question import Length
from stratagraph.types.records import Usage

ASKED = {
    "brief": "the shortest answer that is complete: a name, a date, a number, yes or no, or a few words",
    "full": "all sides of the question, in paragraphs",
}


class Reasoned(BaseModel):
    """Steps towards an answer, and the answer."""

    steps: str = ""
    answer: str


HYDE = text_task("hyde", 100, plain_text)
ZERO_SHOT = text_task("zero_shot", 20, plain_text)
CHAIN_OF_THOUGHT = json_task("chain_of_thought", Reasoned, 200)


class HyDE(Baseline):
    """Search by the mean vector of the question and of a passage that the model makes up (Gao et al. 2023).

    The paper samples several passages at a temperature; this takes one, as at temperature 0. If the model
    fails, the question alone is searched.
    """

    needs_model = True

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        vector = self.corpus.embedder.question(question)
        if passage := self.ask("hyde", HYDE, question):
            vector = vector + self.corpus.embedder.documents([passage])[0]
        length = np.float32(np.linalg.norm(vector)) or np.float32(1)
        return self.shown(top_k(self.corpus.vectors, vector / length, k)[0].tolist())


class ZeroShot(Baseline):
    """The model answers the question from its own knowledge. Nothing is retrieved, so recall is 0."""

    needs_model = True
    own_prompt = True

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        return []

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        values = {"question": question, "length": ASKED[length]}
        return await self.booked(lambda gate: gate.call(ZERO_SHOT, values, item=question))


class ChainOfThought(ZeroShot):
    """The model alone, with steps before the answer (Wei et al. 2022; Kojima et al. 2022)."""

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        values = {"question": question, "length": ASKED[length]}

        async def asked(gate) -> str:
            return (await gate.call(CHAIN_OF_THOUGHT, values, item=question)).answer

        return await self.booked(asked)

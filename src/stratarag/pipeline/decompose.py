"""What a question is about: by the model (NodeRAG's decomposition), or by the extractor of chunks."""

from __future__ import annotations

from pydantic import BaseModel, field_validator

from stratarag.models.gateway import Gate, Task
from stratarag.models.structured import json_as
from stratarag.pipeline.extract_nlp import question_entities
from stratarag.pipeline.names import canonical
from stratarag.pipeline.prompts import load_prompt


class Decomposition(BaseModel):
    """The names in a question."""

    entities: list[str]

    @field_validator("entities", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [item.get("name", "") if isinstance(item, dict) else item for item in value]


DECOMPOSE = Task(
    name="decompose",
    prompt=load_prompt("stratarag.pipeline", "decompose"),
    parse=json_as(Decomposition),
    schema=Decomposition,
    expected_output_tokens=40,
    placeholder=lambda values: Decomposition(entities=[]),
)


async def decompose(question: str, gate: Gate) -> tuple[str, ...]:
    """The names in a question, by one model call; without a model, by the extractor.

    Raises
    ------
    CallFailed
        If the model failed: whoever asked for it may fall back on `question_entities`, and should say so.
    """
    if not gate.has_llm:
        return question_entities(question)
    answer = await gate.call(DECOMPOSE, {"question": question}, item=question)
    return tuple(dict.fromkeys(name.strip() for name in answer.entities if canonical(name)))

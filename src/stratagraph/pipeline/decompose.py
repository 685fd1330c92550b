"""What a question is about: by the model (NodeRAG's decomposition), or by the extractor of chunks."""

from __future__ import annotations

import warnings

from pydantic import BaseModel, Field, field_validator

from stratagraph.errors import CallFailed
from stratagraph.models.gate import Gate, Task
from stratagraph.models.structured import json_as
from stratagraph.pipeline.extraction.by_rules import question_entities
from stratagraph.pipeline.extraction.parsing import flat, read_name
from stratagraph.pipeline.names.index import canonical
from stratagraph.pipeline.prompts import load_prompt


class Decomposition(BaseModel):
    """What a question is about (paper 001, 2.5): names, key nouns and closely related terms."""

    entities: list[str] = Field(description="Names, key nouns and closely related terms")

    @field_validator("entities", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """Names as strings, of lists in lists too; what is no name is left out."""
        if not isinstance(value, list):
            return value
        return [name for item in flat(value) if (name := read_name(item))]

    @property
    def names(self) -> tuple[str, ...]:
        """The entities, each once, without those that hold neither letter nor digit."""
        return tuple(dict.fromkeys(name.strip() for name in self.entities if canonical(name)))


DECOMPOSE = Task(
    name="decompose",
    prompt=load_prompt("stratagraph.pipeline", "decompose"),
    parse=json_as(Decomposition),
    schema=Decomposition,
    expected_output_tokens=40,
    placeholder=lambda values: Decomposition(entities=[]),
)


async def decompose(question: str, gate: Gate) -> tuple[str, ...]:
    """The names in a question, by one model call; without a model, by the extractor.

    If the model failed for this question, the extractor is used too, with a `RuntimeWarning`.
    """
    if not gate.has_llm:
        return question_entities(question)
    try:
        answer = await gate.call(DECOMPOSE, {"question": question}, item=question)
    except CallFailed as error:
        warnings.warn(
            f"the model could not name the entities of the question ({error}); "
            "the extractor of chunks named them instead",
            RuntimeWarning,
            stacklevel=2,
        )
        return question_entities(question)
    return answer.names

"""Model calls of the evaluation whose answers are JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel

from stratagraph.models.gate import Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as

M = TypeVar("M", bound=BaseModel)


def json_task(
    name: str, form: type[M], placeholder: Callable[[Mapping[str, str]], M], tokens: int
) -> Task[M]:
    """The task of the prompt of that name, with a placeholder and about as many tokens for estimates."""
    prompt = load_prompt("stratagraph.eval", name)
    return Task(
        f"eval/{name}", prompt, json_as(form), placeholder, schema=form, expected_output_tokens=tokens
    )

"""Another model for extraction, for summaries or for answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratagraph.models.identity import model_name

STAGES = ("extract", "summarize", "answer")
_STAGE_OF_TASK = {
    "extract": "extract",
    "glean": "extract",
    "answer": "answer",
    "decompose": "answer",
    "guide": "answer",
    "standalone": "answer",
    "subquestions": "answer",
    "archrag/filter": "answer",
    "archrag/judge": "answer",
}


def stage_of(task: str) -> str:
    """The stage whose model a task uses; by default `summarize`."""
    return _STAGE_OF_TASK.get(task, "summarize")


class StageModels:
    """Chat models by `extract`, `summarize`, `answer` and `default`.

    Raises ValueError for an unknown stage, or a stage without a model.
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        unknown = sorted(set(models) - {*STAGES, "default"})
        if unknown:
            raise ValueError(
                f"unknown stages of llm: {', '.join(unknown)}; known are {', '.join(STAGES)} and default"
            )
        missing = [stage for stage in STAGES if models.get(stage, models.get("default")) is None]
        if missing:
            raise ValueError(f"llm has no model for {', '.join(missing)}: add one, or a default")
        self.by_stage = {stage: models.get(stage, models.get("default")) for stage in STAGES}

    @property
    def name(self) -> str:
        """The names of the models, by stage."""
        return ", ".join(f"{stage}: {model_name(model)}" for stage, model in self.by_stage.items())

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """Not called: the gate asks the model of the stage."""
        raise TypeError("a model per stage is asked through a gate only")


def models_by_stage(llm: object | None) -> dict[str, object]:
    """A model for each stage; empty where there is none."""
    if llm is None:
        return {}
    return llm.by_stage if isinstance(llm, StageModels) else dict.fromkeys(STAGES, llm)

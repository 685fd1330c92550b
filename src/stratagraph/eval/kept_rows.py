"""The rows of a run that a run before it has measured already, and what decides that they are the same."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stratagraph.eval.answer_metrics import has_wordnet
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.datasets import Dataset
from stratagraph.eval.kept import Kept, code, digest
from stratagraph.eval.rankers import Workbench
from stratagraph.eval.results import Indexing, Row
from stratagraph.eval.scoring import Cutoffs
from stratagraph.models.stages import models_by_stage
from stratagraph.models.wrap import identity_of_model
from stratagraph.records import Usage


@dataclass(frozen=True)
class KeptRows:
    """Rows in a folder, each known by the run's identity, its name, and the rows that came before it.

    Those before decide what it cost: what rows share is made by the first, and stands there. Rows in which
    something failed are not kept, so that the same command tries again.

    Parameters
    ----------
    kept
        Where they are; None keeps and finds none.
    identity
        What the run depends on, see `identity_of_run`.
    again
        Whether all are measured anew; they are kept all the same.
    """

    kept: Kept | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False

    def find(self, name: str, before: Sequence[str]) -> tuple[Row, bool] | None:
        """A row, and whether the graph of the baselines had been made when it ended; None if it is not there.

        Raises
        ------
        ValueError
            If it is damaged.
        """
        if self.kept is None or self.again:
            return None
        found = self.kept.get(self._of(name, before))
        return None if found is None else (_row(found["row"]), bool(found["has_graph"]))

    def keep(self, row: Row, before: Sequence[str], has_graph: bool) -> None:
        """Keep a row that has just ended, if nothing failed in it."""
        if self.kept is not None and not row.error and not row.failures:
            found = {"row": asdict(row), "has_graph": has_graph}
            self.kept.put(self._of(row.name, before), found)

    def _of(self, name: str, before: Sequence[str]) -> dict[str, Any]:
        return {**self.identity, "row": name, "before": list(before)}


def identity_of_run(
    bench: Workbench, cutoffs: Cutoffs, answers: AnswerConfig | None, llm: Any, judges: Sequence[Any]
) -> dict[str, Any]:
    """All that figures depend on: data, settings, embedder, models, code, and the machine that is timed.

    Not in it: the reference and the intervals' settings, which make differences of rows that are there, and
    comparisons of answers, which follow when all rows are there and whose calls have a cache of their own.
    """
    return {
        "data": _data(bench.dataset),
        "passages": digest([chunk.text for chunk in bench.chunks]),
        "config": {**bench.config.to_dict(), "max_failures": bench.config.max_failures},
        "view": bench.view,
        "cutoffs": asdict(cutoffs),
        "embedder": bench.embedder.name,
        "models": {stage: identity_of_model(model) for stage, model in models_by_stage(llm).items()},
        "judges": [identity_of_model(judge) for judge in judges],
        "answers": None if answers is None else _answers(answers),
        "code": dict(code()),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }


def _data(dataset: Dataset) -> dict[str, str]:
    return {
        "documents": digest(dataset.documents),
        "questions": digest(dataset.questions),
        "extraction": digest(dict(dataset.extractions)),
        "entities of questions": digest(dict(dataset.question_entities)),
    }


def _answers(config: AnswerConfig) -> dict[str, Any]:
    return {
        "max_tokens": config.max_tokens,
        "style": config.style,
        "yes_no_rule": config.yes_no_rule,
        "judge": config.judge,
        "synonyms": has_wordnet(),
    }


def _row(value: Mapping[str, Any]) -> Row:
    """What `asdict` made of a row that no other was compared with yet."""
    made = value["indexing"]
    spent = {name: Usage(**value[name]) for name in ("asking", "usage", "judging")}
    series = {name: tuple(value[name]) for name in ("latency_ms", "cpu_ms", "answers", "failures")}
    scores = {metric: tuple(each) for metric, each in value["scores"].items()}
    return Row(**{**value, **spent, **series, "scores": scores, "indexing": made and _indexing(made)})


def _indexing(value: Mapping[str, Any]) -> Indexing:
    stages = {stage: Usage(**usage) for stage, usage in value["stages"].items()}
    return Indexing(**{**value, "stages": stages})

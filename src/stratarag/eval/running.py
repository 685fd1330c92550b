"""One ranker after the other: made ready, asked, scored, and compared with the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stratarag.eval.answering import (
    AnswerConfig,
    Answered,
    Answering,
    answer_all,
    failures_of,
    own_answers,
)
from stratarag.eval.baselines import make
from stratarag.eval.bootstrap import Difference, paired_difference
from stratarag.eval.judging import head_to_head, judge_correctness
from stratarag.eval.measuring import Meter
from stratarag.eval.methods import MethodIndex
from stratarag.eval.names import RowName
from stratarag.eval.rankers import Ranker, Workbench
from stratarag.eval.results import Indexing, Row
from stratarag.eval.scoring import Asked, Cutoffs, ask_all
from stratarag.eval.spending import difference
from stratarag.methods import NAMES
from stratarag.protocols import Progress
from stratarag.records import Usage


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run measures; see `harness.evaluate`. `answers` is None where no model answers."""

    cutoffs: Cutoffs
    reference: str
    resamples: int
    confidence: float
    seed: int
    answers: AnswerConfig | None


@dataclass
class Run:
    """The rankers of one evaluation, one after the other."""

    bench: Workbench
    settings: Settings
    index: MethodIndex
    progress: Progress
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = self.settings.cutoffs.depth(self.bench.chunks, self.bench.count_tokens)

    def row(self, wanted: str | Ranker) -> Row:
        """Make a ranker ready and measure it; whatever goes wrong is the row's error."""
        name = wanted if isinstance(wanted, str) else wanted.name
        row = Row(name, "" if isinstance(wanted, str) else wanted.description)
        try:
            ranker, indexing = self._ready(wanted)
            row = replace(row, description=ranker.description, indexing=indexing)
            asked = self._ask(ranker)
            row = replace(row, scores=asked.scores, latency_ms=asked.latency_ms, cpu_ms=asked.cpu_ms)
            return self._answered(row, asked, ranker)
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            return replace(row, error=f"{type(error).__name__}: {error}{f' ({notes})' if notes else ''}")

    def _ready(self, wanted: str | Ranker) -> tuple[Ranker, Indexing | None]:
        if not isinstance(wanted, str):
            return wanted, None
        name = RowName.of(wanted, self.bench.view)
        if name.ranker in NAMES:
            return self.index.add(wanted, name)
        before = dict(self.bench.gate.ledger.stages)
        with Meter() as meter:
            ranker = make(name.ranker, self.bench.viewed(name.asked_view or "chunks"), name.options)
        if name.own_prompt and not isinstance(ranker, Answering):
            raise ValueError(f"{name.ranker} has no prompts of its own to answer by")
        stages = {
            stage: difference(usage, before.get(stage, Usage()))
            for stage, usage in self.bench.gate.ledger.stages.items()
            if usage != before.get(stage)
        }
        return ranker, Indexing(meter.seconds, stages, None, meter.peak_memory, meter.cpu_seconds)

    def _ask(self, ranker: Ranker) -> Asked:
        questions, stage = self.bench.dataset.questions, f"ask {ranker.name}"
        self.progress.start(stage, len(questions))
        try:
            return ask_all(
                ranker,
                questions,
                self.settings.cutoffs,
                self.depth,
                self.bench.count_tokens,
                lambda: self.progress.advance(stage),
            )
        finally:
            self.progress.finish(stage)

    def _answers(self, row: Row, asked: Asked, ranker: Ranker, config: AnswerConfig) -> Answered:
        """By the one prompt for all, or by the ranker's own where it answers so."""
        if isinstance(ranker, Answering) and ranker.own_prompt:
            return own_answers(self.bench, row.name, ranker, config)
        return answer_all(self.bench, row.name, asked.texts, config)

    def _answered(self, row: Row, asked: Asked, ranker: Ranker) -> Row:
        """With answers by the model; if that fails, retrieval stands and the error says so."""
        if self.settings.answers is None:
            return row
        try:
            found = self._answers(row, asked, ranker, self.settings.answers)
        except Exception as error:
            return replace(row, error=f"answers: {type(error).__name__}: {error}")
        scores = {**row.scores, **found.scores}
        row = replace(row, scores=scores, answers=found.answers, usage=found.usage, failures=found.failures)
        return self._judged(row) if self.settings.answers.judge else row

    def _judged(self, row: Row) -> Row:
        """With the judge's verdicts; if it fails, the metrics of wording stand."""
        gate, questions = self.bench.judge_gate, self.bench.dataset.questions
        try:
            verdicts, cost = judge_correctness(gate, row.name, questions, row.answers)
        except Exception as error:
            return replace(row, error=f"judging: {type(error).__name__}: {error}")
        failures = (*row.failures, *failures_of(gate, f"judge {row.name}"))
        scores = {**row.scores, "judged": verdicts}
        return replace(row, scores=scores, usage=row.usage + cost, failures=failures)

    def duelled(self, rows: Sequence[Row]) -> list[Row]:
        """With each row's answers compared with the reference's, by the judge."""
        reference = next((row for row in rows if row.name == self.settings.reference and row.answers), None)
        if reference is None:
            return list(rows)
        return [
            self._duelled(row, reference) if row.answers and row is not reference else row for row in rows
        ]

    def _duelled(self, row: Row, reference: Row) -> Row:
        gate, stage = self.bench.judge_gate, f"compare {row.name}"
        questions = [each.question for each in self.bench.dataset.questions]
        try:
            duels = head_to_head(gate, questions, row.answers, reference.answers, stage=stage)
        except Exception as error:
            return replace(row, error=f"comparison: {type(error).__name__}: {error}")
        failures = (*row.failures, *failures_of(gate, stage))
        return replace(row, duels=duels, usage=row.usage + gate.ledger.stages[stage], failures=failures)


def compared(rows: Sequence[Row], settings: Settings) -> list[Row]:
    """With the differences to the reference, if that has scores."""
    reference = next((row for row in rows if row.name == settings.reference and row.scores), None)
    if reference is None:
        return list(rows)
    return [
        row if row is reference else replace(row, differences=_differences(row, reference, settings))
        for row in rows
    ]


def _differences(row: Row, reference: Row, settings: Settings) -> Mapping[str, Difference]:
    found = {
        metric: paired_difference(
            row.scores[metric],
            reference.scores[metric],
            resamples=settings.resamples,
            confidence=settings.confidence,
            seed=settings.seed,
        )
        for metric in row.scores
        if metric in reference.scores
    }
    return {metric: each for metric, each in found.items() if each is not None}

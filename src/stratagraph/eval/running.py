"""One ranker after the other: made ready, asked, scored, compared with the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from stratagraph.eval.answering import (
    AnswerConfig,
    Answered,
    Answering,
    answer_all,
    contexts_of,
    failures_of,
    own_answers,
)
from stratagraph.eval.baselines import make
from stratagraph.eval.baselines.shared import ASK
from stratagraph.eval.bootstrap import Difference, paired_difference
from stratagraph.eval.datasets import Question
from stratagraph.eval.judging import head_to_head, judge_correctness
from stratagraph.eval.kept import KeptRows
from stratagraph.eval.measuring import Meter
from stratagraph.eval.methods import MethodIndex, MethodRanker
from stratagraph.eval.names import RowName
from stratagraph.eval.rankers import Ranker, Workbench
from stratagraph.eval.results import Indexing, Row
from stratagraph.eval.scoring import PACKED, Asked, Cutoffs, Packing, ask_all
from stratagraph.eval.statements import judge_statements
from stratagraph.methods import WAYS
from stratagraph.models.gate import Gate
from stratagraph.types.protocols import Progress
from stratagraph.types.records import Failure, Usage


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run measures; see `harness.evaluate`. `answers` is None where no model answers."""

    cutoffs: Cutoffs
    reference: str
    resamples: int
    confidence: float
    seed: int
    answers: AnswerConfig | None


@dataclass(frozen=True, slots=True)
class Ready:
    """A ranker that can be asked; `gate` is that of a baseline."""

    ranker: Ranker
    indexing: Indexing | None = None
    gate: Gate | None = None

    @property
    def asking(self) -> Usage:
        """Calls and tokens of its searches so far."""
        if self.gate is not None:
            stages = self.gate.ledger.stages.items()
            return sum((usage for stage, usage in stages if stage.startswith(ASK)), Usage())
        return self.ranker.asking if isinstance(self.ranker, MethodRanker) else Usage()

    @property
    def failures(self) -> Sequence[Failure]:
        """Failures so far."""
        if self.gate is not None:
            return self.gate.failures
        return self.ranker.failures if isinstance(self.ranker, MethodRanker) else ()


@dataclass
class Run:
    """The rankers of one evaluation."""

    bench: Workbench
    settings: Settings
    index: MethodIndex
    progress: Progress
    kept: KeptRows = field(default_factory=KeptRows)
    depth: int = field(init=False)
    taken: list[Row] = field(default_factory=list)
    """Rows of an earlier run that this one goes on with."""
    _before: list[str] = field(default_factory=list)
    _due: list[str] = field(default_factory=list)
    _graph_due: bool = False

    def __post_init__(self) -> None:
        self.depth = self.settings.cutoffs.depth(self.bench.chunks, self.bench.count_tokens)

    def row(self, wanted: str | Ranker) -> Row:
        """The row of a name: kept by an earlier run, or measured now and kept.

        What kept rows shared with later ones is made again when a later one needs it, on no row's account.
        """
        if not isinstance(wanted, str):  # what a ranker of the user's depends on is unknown
            row = self._measured(wanted)
            self._before.append(f"{row.name} (given)")
            return row
        found = self.kept.find(wanted, self._before)
        if found is None:
            row = self._measured(wanted)
            self.kept.keep(row, self._before, self.bench.has_graph)
        else:
            row, has_graph = found
            self._graph_due = has_graph
            self._due.append(wanted)
            self.taken.append(row)
        self._before.append(wanted)
        return row

    def _measured(self, wanted: str | Ranker) -> Row:
        """Make a ranker ready and measure it; an exception becomes the row's error."""
        name = wanted if isinstance(wanted, str) else wanted.name
        row = Row(
            name,
            "" if isinstance(wanted, str) else wanted.description,
            measured=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            ready = self._ready(wanted)
            row = replace(row, description=ready.ranker.description, indexing=ready.indexing)
            asked = self._ask(ready.ranker)
            row = replace(row, scores=asked.scores, latency_ms=asked.latency_ms, cpu_ms=asked.cpu_ms)
            row = self._answered(replace(row, asking=ready.asking), asked, ready.ranker)
            return replace(row, failures=(*ready.failures, *row.failures))
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            return replace(row, error=f"{type(error).__name__}: {error}{f' ({notes})' if notes else ''}")

    def _ready(self, wanted: str | Ranker) -> Ready:
        if not isinstance(wanted, str):
            return Ready(wanted)
        name = RowName.of(wanted, self.bench.view)
        if name.ranker in WAYS:
            self._catch_up()
            return Ready(*self.index.add(wanted, name))
        if self._graph_due:
            self.bench.catch_up()
        bench = self.bench.apart("nodes" if name.view == "nodes" else "chunks")
        with Meter() as meter:
            ranker = make(name.ranker, bench, name.options, own_prompt=name.own_prompt)
        stages = bench.gate.ledger.stages
        indexing = Indexing(meter.seconds, stages, None, meter.peak_memory, meter.cpu_seconds)
        return Ready(ranker, indexing, bench.gate)

    def _catch_up(self) -> None:
        """Build the methods of kept rows, in their order."""
        while self._due:
            name = RowName.of(self._due[0], self.bench.view)
            if name.ranker in WAYS:
                self.index.add(name.ranker, name)
            del self._due[0]

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
        if isinstance(ranker, Answering) and ranker.own_prompt:
            return own_answers(self.bench, row.name, ranker, config)
        return answer_all(self.bench, row.name, asked.texts, config)

    def _answered(self, row: Row, asked: Asked, ranker: Ranker) -> Row:
        """The row with answers; if they fail, retrieval stands and the error says so."""
        if self.settings.answers is None:
            return row
        try:
            found = self._answers(row, asked, ranker, self.settings.answers)
        except Exception as error:
            return replace(row, error=f"answers: {type(error).__name__}: {error}")
        scores = {**row.scores, **found.scores}
        row = replace(row, scores=scores, answers=found.answers, usage=found.usage, failures=found.failures)
        if self.bench.dataset.of_bench:
            row = replace(row, contexts=tuple(self._contexts(asked, ranker, self.settings.answers)))
        return self._judged(row) if self.settings.answers.judge else row

    def _contexts(self, asked: Asked, ranker: Ranker, config: AnswerConfig) -> list[str]:
        """What answers were made from; of own prompts what the ranker packs, or the best of its ranking."""
        if isinstance(ranker, Answering) and ranker.own_prompt and isinstance(ranker, Packing):
            questions = self.bench.dataset.questions
            return [ranker.context(each.question, PACKED, config.context_tokens) for each in questions]
        return contexts_of(self.bench, asked.texts, config)

    def _judged(self, row: Row) -> Row:
        """The row with verdicts; if they fail, metrics of wording stand."""
        gates, questions = self.bench.judge_gates, self.bench.dataset.questions
        try:
            found = judge_correctness(gates, row.name, questions, row.answers)
            scores, usage = {"judged": found.scores}, found.usage
            if self.bench.dataset.of_bench:
                stage = f"judge statements of {row.name}"
                more, spent = judge_statements(
                    gates, self.bench.embedder, stage, questions, row.answers, row.contexts
                )
                scores, usage = scores | more, usage + spent
        except Exception as error:
            return replace(row, error=f"judging: {type(error).__name__}: {error}")
        stages = (f"judge {row.name}", f"judge statements of {row.name}")
        return replace(
            row,
            scores={**row.scores, **scores},
            agreement=found.agreement,
            judging=row.judging + usage,
            failures=(*row.failures, *(each for stage in stages for each in self._failures(stage))),
        )

    def duelled(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with comparisons of answers with the reference's and the gold ones, if wanted."""
        config = self.settings.answers
        reference = next((row for row in rows if row.name == self.settings.reference and row.answers), None)
        gold = tuple(question.answers[0] if question.answers else None for question in self._questions)
        found = []
        for row in rows:
            if config and config.head_to_head and row.answers and reference and row is not reference:
                row = self._compared(row, "duels", f"compare {row.name}", reference.answers)
            if config and config.against_gold and row.answers:
                row = self._compared(row, "gold_duels", f"compare {row.name} with gold", gold)
            found.append(row)
        return found

    def _compared(self, row: Row, kind: str, stage: str, others: Sequence[str | None]) -> Row:
        gates, settings = self.bench.judge_gates, self.settings
        try:
            duels = head_to_head(
                gates,
                [each.question for each in self._questions],
                row.answers,
                others,
                stage=stage,
                resamples=settings.resamples,
                confidence=settings.confidence,
                seed=settings.seed,
            )
        except Exception as error:
            return replace(row, error=f"comparison: {type(error).__name__}: {error}")
        judging = sum((gate.ledger.stages[stage] for gate in gates), row.judging)
        failures = (*row.failures, *self._failures(stage))
        row = replace(row, judging=judging, failures=failures)
        return replace(row, duels=duels) if kind == "duels" else replace(row, gold_duels=duels)

    def _failures(self, stage: str) -> list[Failure]:
        return [failure for gate in self.bench.judge_gates for failure in failures_of(gate, stage)]

    @property
    def _questions(self) -> Sequence[Question]:
        return self.bench.dataset.questions


def compared(rows: Sequence[Row], settings: Settings) -> list[Row]:
    """The rows with differences to the reference, if that has scores."""
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

"""One ranker after the other: made ready, asked, scored, compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from stratagraph.eval.answering import (
    AnswerConfig,
    Answering,
    answer_all,
    contexts_of,
    failures_of,
    own_answers,
)
from stratagraph.eval.baselines import make
from stratagraph.eval.baselines.shared import ASK
from stratagraph.eval.bootstrap import Difference, paired_difference
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

    @property
    def intervals(self) -> dict[str, Any]:
        """Arguments of `paired_difference`."""
        return {"resamples": self.resamples, "confidence": self.confidence, "seed": self.seed}


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
            row, self._graph_due = found
            self._due.append(wanted)
            self.taken.append(row)
        self._before.append(wanted)
        return row

    def _measured(self, wanted: str | Ranker) -> Row:
        """Make a ranker ready, ask it, answer and judge; what was measured before an error stands."""
        name, about = (wanted, "") if isinstance(wanted, str) else (wanted.name, wanted.description)
        row = Row(name, about, measured=datetime.now(UTC).isoformat(timespec="seconds"))
        doing, ready, config = "", None, self.settings.answers
        try:
            ready = self._ready(wanted)
            row = replace(row, description=ready.ranker.description, indexing=ready.indexing)
            asked = self._ask(ready.ranker)
            row = replace(row, scores=asked.scores, latency_ms=asked.latency_ms, cpu_ms=asked.cpu_ms)
            row = replace(row, asking=ready.asking)
            if config is not None:
                doing = "answers: "
                row = self._answered(row, asked, ready.ranker, config)
                doing = "judging: "
                row = self._judged(row) if config.judge else row
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            told = f"{doing}{type(error).__name__}: {error}{f' ({notes})' if notes else ''}"
            row = replace(row, error=told)
        if ready is not None and row.scores:
            row = replace(row, failures=(*ready.failures, *row.failures))
        return row

    def _ready(self, wanted: str | Ranker) -> Ready:
        if not isinstance(wanted, str):
            return Ready(wanted)
        name = RowName.of(wanted, self.bench.view)
        if name.ranker in WAYS:
            while self._due:  # the methods of kept rows are built in their order
                due = RowName.of(self._due[0], self.bench.view)
                if due.ranker in WAYS:
                    self.index.add(due.ranker, due)
                del self._due[0]
            return Ready(*self.index.add(wanted, name))
        if self._graph_due:
            self.bench.catch_up()
        bench = self.bench.apart("nodes" if name.view == "nodes" else "chunks")
        with Meter() as meter:
            ranker = make(name.ranker, bench, name.options, own_prompt=name.own_prompt)
        stages = bench.gate.ledger.stages
        indexing = Indexing(meter.seconds, stages, None, meter.peak_memory, meter.cpu_seconds)
        return Ready(ranker, indexing, bench.gate)

    def _ask(self, ranker: Ranker) -> Asked:
        bench, stage = self.bench, f"ask {ranker.name}"
        questions = bench.dataset.questions
        self.progress.start(stage, len(questions))

        def advance() -> None:
            self.progress.advance(stage)

        try:
            return ask_all(ranker, questions, self.settings.cutoffs, self.depth, bench.count_tokens, advance)
        finally:
            self.progress.finish(stage)

    def _answered(self, row: Row, asked: Asked, ranker: Ranker, config: AnswerConfig) -> Row:
        """The row with answers, and with what they were made from where they are judged by that."""
        bench = self.bench
        own = ranker if isinstance(ranker, Answering) and ranker.own_prompt else None
        found = own_answers(bench, row.name, own, config) if own else None
        found = found or answer_all(bench, row.name, asked.texts, config)
        scores = {**row.scores, **found.scores}
        row = replace(row, scores=scores, answers=found.answers, usage=found.usage, failures=found.failures)
        if not bench.dataset.of_bench:
            return row
        if own and isinstance(ranker, Packing):
            texts = [each.question for each in bench.dataset.questions]
            contexts = [ranker.context(text, PACKED, config.context_tokens) for text in texts]
        else:
            contexts = contexts_of(bench, asked.texts, config)
        return replace(row, contexts=tuple(contexts))

    def _judged(self, row: Row) -> Row:
        """The row with verdicts on its answers."""
        gates, questions = self.bench.judge_gates, self.bench.dataset.questions
        found = judge_correctness(gates, row.name, questions, row.answers)
        scores, usage = {"judged": found.scores}, found.usage
        if self.bench.dataset.of_bench:
            stage = f"judge statements of {row.name}"
            more, spent = judge_statements(
                gates, self.bench.embedder, stage, questions, row.answers, row.contexts
            )
            scores, usage = scores | more, usage + spent
        failures = [*self._failures(f"judge {row.name}"), *self._failures(f"judge statements of {row.name}")]
        return replace(
            row,
            scores={**row.scores, **scores},
            agreement=found.agreement,
            judging=row.judging + usage,
            failures=(*row.failures, *failures),
        )

    def duelled(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with comparisons of answers with the reference's and the gold ones, if wanted."""
        config = self.settings.answers
        reference = next((row for row in rows if row.name == self.settings.reference and row.answers), None)
        gold = [each.answers[0] if each.answers else None for each in self.bench.dataset.questions]
        found = []
        for row in rows:
            if config and config.head_to_head and row.answers and reference and row is not reference:
                row = self._compared(row, "duels", f"compare {row.name}", reference.answers)
            if config and config.against_gold and row.answers:
                row = self._compared(row, "gold_duels", f"compare {row.name} with gold", gold)
            found.append(row)
        return found

    def _compared(
        self, row: Row, kind: Literal["duels", "gold_duels"], stage: str, others: Sequence[str | None]
    ) -> Row:
        gates = self.bench.judge_gates
        questions = [each.question for each in self.bench.dataset.questions]
        try:
            duels = head_to_head(
                gates, questions, row.answers, others, stage=stage, **self.settings.intervals
            )
        except Exception as error:
            return replace(row, error=f"comparison: {type(error).__name__}: {error}")
        judging = sum((gate.ledger.stages[stage] for gate in gates), row.judging)
        row = replace(row, judging=judging, failures=(*row.failures, *self._failures(stage)))
        return replace(row, duels=duels) if kind == "duels" else replace(row, gold_duels=duels)

    def _failures(self, stage: str) -> list[Failure]:
        return [failure for gate in self.bench.judge_gates for failure in failures_of(gate, stage)]


def compared(rows: Sequence[Row], settings: Settings) -> list[Row]:
    """The rows with differences to the reference, if that has scores."""
    reference = next((row for row in rows if row.name == settings.reference and row.scores), None)
    if reference is None:
        return list(rows)

    def differences(row: Row) -> dict[str, Difference]:
        found = {
            metric: paired_difference(scores, reference.scores[metric], **settings.intervals)
            for metric, scores in row.scores.items()
            if metric in reference.scores
        }
        return {metric: each for metric, each in found.items() if each is not None}

    return [row if row is reference else replace(row, differences=differences(row)) for row in rows]

"""`evaluate`: measures methods and baselines with the same passages, vectors and token budgets."""

from __future__ import annotations

import io
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import stratagraph
from stratagraph.config import Config, as_config
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
from stratagraph.eval.datasets import Dataset, Question, StrPath, checked, load_dataset
from stratagraph.eval.judging import head_to_head, judge_correctness, judge_statements
from stratagraph.eval.measuring import Meter
from stratagraph.eval.methods import MethodIndex, MethodRanker
from stratagraph.eval.metrics import has_wordnet, paired_difference
from stratagraph.eval.names import (
    ANSWERS,
    DEFAULT_VIEW,
    EVAL_VIEWS,
    KNOWN,
    RowName,
    check_rows,
    lacking,
    lacking_rows,
)
from stratagraph.eval.report import Evaluation
from stratagraph.eval.results import Indexing, Row
from stratagraph.eval.scoring import PACKED, Asked, Cutoffs, ask_all
from stratagraph.eval.workbench import Ranker, Workbench, shared_embedder
from stratagraph.methods import WAYS
from stratagraph.models.budget import Budget
from stratagraph.models.gate import ModelGate
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.operations.gates import counter_of_build
from stratagraph.operations.progress import LineProgress
from stratagraph.store.calls import SqliteCalls
from stratagraph.types.protocols import Progress
from stratagraph.types.records import Chunk, Document, Failure, Usage

DEFAULT = (*WAYS, "dense", "bm25", "hybrid")
"""All methods and the baselines without a model, measured if nothing is named."""
REFERENCE = "dense"
CALLS = "calls.sqlite"


def evaluate(
    dataset: Dataset | StrPath,
    methods: Sequence[str | Ranker] | None = None,
    *,
    k: Sequence[int] = (2, 5, 10),
    budgets: Sequence[int] = (1000, 2000, 5000),
    view: str = DEFAULT_VIEW,
    reference: str = REFERENCE,
    split: bool = True,
    llm: Any = None,
    embedder: Any = None,
    config: Any = None,
    budget: Budget | None = None,
    answers: AnswerConfig | None = None,
    cache: StrPath | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: bool | Progress = False,
) -> Evaluation:
    """Measure methods and baselines on a corpus with questions.

    All rank the same passages with the same vectors. A row that fails says why, and the others stand.

    Parameters
    ----------
    dataset
        A `Dataset`, or an argument of `load_dataset`.
    methods
        Names of methods, of baselines (see `eval.baselines`), and `Ranker`s of your own. A name may have a
        view and options: `hirag/nodes?mode=no_bridge` searches the index of `hirag`, `lightrag?mode=local` is
        a mode of that baseline, `archrag?build.max_levels=1` builds an index of its own. `own_prompt=true`
        answers by the method's own prompts from its own nodes instead of one prompt for all;
        `graphrag_global`, which does so by default, takes `own_prompt=false`. None measures `DEFAULT`,
        without rows that lack a package.
    k
        Cutoffs in passages.
    budgets
        Cutoffs in tokens of context.
    view
        `default`: what a retrieval returns by default, and passages of baselines. `chunks`: passages, which
        for all methods are those of the walk. `nodes`: the methods' own rankings (`fill=False`), also
        summaries, where recall says little and answers in the context say more.
    reference
        Row that the others are compared with; measured even if it is not in `methods`.
    split
        Split documents into passages; False makes each document one passage.
    llm, embedder, config, budget
        See `build_index`. With an `llm`, questions are answered too. The budget holds for each build, for all
        answers, and for all judgements.
    answers
        How questions are answered and judged; None uses the defaults.
    cache
        Folder that keeps vectors and model calls, so that the next run with it repeats none; None keeps them
        for this run.
    resamples, confidence, seed
        Settings of the intervals; see `paired_difference`.
    progress
        True shows progress bars; or a `Progress`.

    Returns
    -------
    An `Evaluation`, with rows in the order of `methods`.

    Raises
    ------
    ValueError
        If a name is unknown or comes twice, an option or cutoff is not valid, or the dataset cannot be used;
        without an `llm` also if no question has an answer or gold documents. Raised before anything is
        measured.
    MissingExtra
        If a named row or the scores of answers need a package that is not installed. Raised likewise.
    """
    data = checked(dataset) if isinstance(dataset, Dataset) else load_dataset(dataset)
    if llm is None and not any(question.answers or question.supporting_ids for question in data.questions):
        raise ValueError(
            f"none of the {len(data.questions)} questions of {data.name!r} has an answer or gold documents: "
            "nothing could be scored; name them, or give an llm whose answers are compared"
        )
    if not split:
        whole = (
            Chunk(item.text, item.id, metadata=item.metadata) if isinstance(item, Document) else item
            for item in data.documents
        )
        data = replace(data, documents=tuple(whole))
    cutoffs = Cutoffs(tuple(k), tuple(budgets))
    if view not in EVAL_VIEWS:
        raise ValueError(f"view must be one of {', '.join(EVAL_VIEWS)}, not {view!r}")
    settled = as_config(config)
    wanted = _wanted(DEFAULT if methods is None else methods, reference, view, settled)
    names = [each for each in wanted if isinstance(each, str)]
    missing = lacking_rows(names, view)
    for name, why in missing.items():
        if methods is not None or name == reference:
            raise why
    answering = (answers or AnswerConfig()).of(data) if llm is not None else None
    if answering is not None and (unscored := lacking(ANSWERS)):
        raise unscored
    shown = LineProgress() if progress is True else progress or LineProgress(io.StringIO())
    llm, judges = as_chat_model(llm), () if answering is None else tuple(map(as_chat_model, answering.judges))
    count_tokens = lru_cache(maxsize=2**17)(counter_of_build(settled.tokenizer))
    with (
        cache_folder(cache) as folder,
        closing(SqliteCalls(folder / CALLS)) as calls,
        shared_embedder(folder, as_embedder(embedder), settled.limits) as shared,
    ):

        def gate(model: Any) -> ModelGate:
            return ModelGate(
                model,
                shared,
                cache=calls,
                budget=budget,
                limits=settled.limits,
                count_tokens=count_tokens,
                max_failures=settled.max_failures,
                prompts=settled.prompts,
            )

        bench = Workbench(data, shared, settled, gate(llm), count_tokens, view, list(map(gate, judges)))
        shared.learn([chunk.text for chunk in bench.chunks], [each.question for each in data.questions])
        intervals = {"resamples": resamples, "confidence": confidence, "seed": seed}
        with closing(MethodIndex(bench, llm, budget, folder / CALLS)) as index:
            run = _Run(bench, cutoffs, answering, intervals, index, shown)
            rows = [
                Row(each, "", error=f"MissingExtra: {missing[each]}")
                if isinstance(each, str) and each in missing
                else run.row(each)
                for each in wanted
            ]
        rows = run.compared(rows, reference)
    about = {
        "date": date.today().isoformat(),
        "stratagraph": stratagraph.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "documents": len({chunk.document_id for chunk in bench.chunks}),
        "passages": len(bench.chunks),
        "questions": len(data.questions),
        "embedder": shared.name,
        "embedding_seconds": shared.seconds,
        "embedded_passages": shared.embedded,
        "question_embedding_ms": shared.question_ms,
        "extraction": "given" if data.extractions else "the package's own",
        "view": view,
        "k": list(cutoffs.k),
        "budgets": list(cutoffs.budgets),
        "depth": run.depth,
        **intervals,
    }
    if any("meteor" in row.scores for row in rows):
        about["meteor_synonyms"] = has_wordnet()
    return Evaluation(data.name, data.questions, tuple(rows), reference, about, data.notes)


def _wanted(methods: Sequence[str | Ranker], reference: str, view: str, config: Config) -> list[str | Ranker]:
    """All rows to measure, the reference too, each under a name of its own; see `check_rows`."""
    if isinstance(methods, str):
        methods = [methods]
    check_rows([each for each in methods if isinstance(each, str)], view, config)
    names = [each if isinstance(each, str) else each.name for each in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice; names of rows must differ")
    if reference in names or not reference:
        return list(methods)
    if RowName.of(reference, view).ranker not in KNOWN:
        raise ValueError(
            f"the reference {reference!r} is not among {', '.join(dict.fromkeys([*names, *KNOWN]))}"
        )
    check_rows([reference], view, config)
    return [*methods, reference]


@contextmanager
def cache_folder(cache: StrPath | None) -> Iterator[Path]:
    """The folder of model calls and vectors; None makes one that is removed in the end."""
    if cache is not None:
        path = Path(cache)
        path.mkdir(parents=True, exist_ok=True)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="stratagraph-eval-") as name:
            yield Path(name)


@dataclass
class _Run:
    """The rankers of one evaluation, one after the other.

    `answers` is None where no model answers; `intervals` are arguments of `paired_difference`.
    """

    bench: Workbench
    cutoffs: Cutoffs
    answers: AnswerConfig | None
    intervals: dict[str, Any]
    index: MethodIndex
    progress: Progress

    def __post_init__(self) -> None:
        self.depth = self.cutoffs.depth(self.bench.chunks, self.bench.count_tokens)

    def row(self, wanted: str | Ranker) -> Row:
        """Make a ranker ready, ask it, answer and judge; what was measured before an error stands."""
        row = Row(wanted, "") if isinstance(wanted, str) else Row(wanted.name, wanted.description)
        doing = ""
        failures: Sequence[Failure] = ()  # of the build and the searches
        try:
            bench, ranker, indexing = self._ready(wanted)
            row = replace(row, description=ranker.description, indexing=indexing)
            asked = self._ask(ranker, bench)
            row = replace(row, scores=asked.scores, latency_ms=asked.latency_ms, cpu_ms=asked.cpu_ms)
            if isinstance(ranker, MethodRanker):
                row = replace(row, asking=ranker.asking)
                failures = ranker.failures
            elif bench is not self.bench:
                stages = bench.gate.ledger.stages.items()
                asking = sum((usage for stage, usage in stages if stage.startswith(ASK)), Usage())
                row = replace(row, asking=asking)
                failures = bench.gate.failures
            if self.answers is not None:
                doing = "answers: "
                row = self._answered(row, asked, ranker, self.answers)
                doing = "judging: "
                row = self._judged(row) if self.answers.judge else row
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            message = f"{doing}{type(error).__name__}: {error}{f' ({notes})' if notes else ''}"
            row = replace(row, error=message)
        return replace(row, failures=(*failures, *row.failures))

    def _ready(self, wanted: str | Ranker) -> tuple[Workbench, Ranker, Indexing | None]:
        """The ranker and the cost of making it ready; a baseline has a bench with a gate of its own."""
        if not isinstance(wanted, str):
            return self.bench, wanted, None
        name = RowName.of(wanted, self.bench.view)
        if name.ranker in WAYS:
            return self.bench, *self.index.add(wanted, name)
        bench = self.bench.apart("nodes" if name.view == "nodes" else "chunks")
        with Meter() as meter:
            ranker = make(name.ranker, bench, name.options, own_prompt=name.own_prompt)
        stages = bench.gate.ledger.stages
        return bench, ranker, Indexing(meter.seconds, stages, None, meter.peak_memory, meter.cpu_seconds)

    def _ask(self, ranker: Ranker, bench: Workbench) -> Asked:
        stage, questions = f"ask {ranker.name}", bench.dataset.questions
        self.progress.start(stage, len(questions))
        if bench is not self.bench and bench.gate.has_llm:
            with suppress(Exception):  # the timed search of the question meets it again
                _ask_model_ahead(ranker, bench, questions)
        try:
            return ask_all(
                ranker,
                questions,
                self.cutoffs,
                self.depth,
                bench.count_tokens,
                advance=lambda: self.progress.advance(stage),
                waited=bench.waited,
            )
        finally:
            self.progress.finish(stage)

    def _answered(self, row: Row, asked: Asked, ranker: Ranker, config: AnswerConfig) -> Row:
        """The row with answers, and with their contexts if judges read these."""
        bench = self.bench
        own = ranker if isinstance(ranker, Answering) and ranker.own_prompt else None
        if own:
            answered = own_answers(bench, row.name, own, config)
        else:
            answered = answer_all(bench, row.name, asked.texts, config)
        row = replace(
            row,
            scores={**row.scores, **answered.scores},
            answers=answered.answers,
            usage=answered.usage,
            failures=answered.failures,
        )
        if not bench.dataset.of_bench:
            return row
        if own and isinstance(ranker, MethodRanker):
            texts = [each.question for each in bench.dataset.questions]
            contexts = [ranker.context(text, PACKED, config.context_tokens) for text in texts]
        else:
            contexts = contexts_of(bench, asked.texts, config)
        return replace(row, contexts=tuple(contexts))

    def _judged(self, row: Row) -> Row:
        """The row with verdicts on its answers."""
        bench, gates, questions = self.bench, self.bench.judge_gates, self.bench.dataset.questions
        correct = judge_correctness(gates, row.name, questions, row.answers)
        scores, usage = {"judged": correct.scores}, correct.usage
        stage = f"judge statements of {row.name}"
        if bench.dataset.of_bench:
            more, spent = judge_statements(gates, bench.embedder, stage, questions, row.answers, row.contexts)
            scores, usage = scores | more, usage + spent
        return replace(
            row,
            scores={**row.scores, **scores},
            agreement=correct.agreement,
            judging=row.judging + usage,
            failures=(*row.failures, *self._failures(f"judge {row.name}"), *self._failures(stage)),
        )

    def compared(self, rows: Sequence[Row], reference: str) -> list[Row]:
        """The rows with differences to the reference, and with comparisons of answers if these are wanted."""
        config, by_name = self.answers, {row.name: row for row in rows}
        other = by_name.get(reference, Row("", ""))
        gold = [each.answers[0] if each.answers else None for each in self.bench.dataset.questions]
        compared = []
        for row in rows:
            if config and config.head_to_head and row.answers and other.answers and row is not other:
                row = self._duelled(row, "duels", f"compare {row.name}", other.answers)
            if config and config.against_gold and row.answers:
                row = self._duelled(row, "gold_duels", f"compare {row.name} with gold", gold)
            if row.name != other.name:
                differences = {
                    metric: paired_difference(scores, other.scores[metric], **self.intervals)
                    for metric, scores in row.scores.items()
                    if metric in other.scores
                }
                present = {metric: each for metric, each in differences.items() if each is not None}
                row = replace(row, differences=present)
            compared.append(row)
        return compared

    def _duelled(
        self, row: Row, kind: Literal["duels", "gold_duels"], stage: str, others: Sequence[str | None]
    ) -> Row:
        gates = self.bench.judge_gates
        questions = [each.question for each in self.bench.dataset.questions]
        try:
            duels = head_to_head(gates, questions, row.answers, others, stage=stage, **self.intervals)
        except Exception as error:
            return replace(row, error=f"comparison: {type(error).__name__}: {error}")
        judging = sum((gate.ledger.stages[stage] for gate in gates), row.judging)
        row = replace(row, judging=judging, failures=(*row.failures, *self._failures(stage)))
        return replace(row, duels=duels) if kind == "duels" else replace(row, gold_duels=duels)

    def _failures(self, stage: str) -> list[Failure]:
        return [failure for gate in self.bench.judge_gates for failure in failures_of(gate, stage)]


def _ask_model_ahead(ranker: Ranker, bench: Workbench, questions: Sequence[Question]) -> None:
    """Let a baseline ask the model about several questions at a time; its `rank` remembers the answers.

    Nothing is done if it asks nothing about the first question.
    """
    first, *others = dict.fromkeys(question.question for question in questions)
    ranker.rank(first, 1)
    if bench.waited:
        with ThreadPoolExecutor(bench.config.limits.concurrency) as pool:
            for _ in pool.map(lambda text: ranker.rank(text, 1), others):
                pass

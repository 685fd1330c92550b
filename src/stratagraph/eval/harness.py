"""`evaluate`: measures ways of searching with the same passages, vectors and token budgets."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import stratagraph
from stratagraph.config import Config, as_config
from stratagraph.eval.answering import AnswerConfig, answered, judged
from stratagraph.eval.datasets import Dataset, StrPath, checked, load_dataset
from stratagraph.eval.embedding import shared_embedder
from stratagraph.eval.metrics import paired_difference
from stratagraph.eval.names import EVAL_VIEWS, KNOWN, PLAIN, RowName, check_rows
from stratagraph.eval.rankers import Cutoffs, IndexRanker, Ranker, Workbench, ask_all
from stratagraph.eval.report import Evaluation, Row
from stratagraph.methods import WAYS
from stratagraph.models.budget import Budget
from stratagraph.models.gate import ModelGate
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.operations.gates import counter_of_build
from stratagraph.operations.progress import LineProgress
from stratagraph.store.calls import SqliteCalls
from stratagraph.types.protocols import Progress

DEFAULT = (*WAYS, *PLAIN)
"""The walk, all methods and plain rankings, measured if nothing is named."""
CALLS = "calls.sqlite"


def evaluate(
    dataset: Dataset | StrPath,
    methods: Sequence[str | Ranker] | None = None,
    *,
    k: Sequence[int] = (2, 5, 10),
    budgets: Sequence[int] = (1000, 2000, 5000),
    view: str = "default",
    reference: str = "dense",
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
    """Measure methods and plain rankings on a corpus with questions.

    All rank the same passages with the same vectors. A row that fails says why, and the others stand.

    Parameters
    ----------
    dataset
        A `Dataset`, or an argument of `load_dataset`.
    methods
        `walk`, names of methods, plain rankings (`dense`, `bm25`, `hybrid`), and rankers of your own
        (`Ranker`). A name may have a view and options: `hirag/nodes?mode=no_bridge` searches the
        index of `hirag`, `archrag?build.max_levels=1` builds an index of its own. `own_prompt=true` answers
        by the method's own prompts from its own nodes instead of one prompt for all. None measures
        `DEFAULT`.
    k
        Cutoffs in passages.
    budgets
        Cutoffs in tokens of context.
    view
        `default`: what a retrieval returns by default. `chunks`: passages, which for all methods are those of
        the walk. `nodes`: the methods' own rankings (`fill=False`), also summaries, where recall says little
        and answers in the context say more.
    reference
        Row that the others are compared with; measured even if it is not in `methods`.
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
    """
    data = checked(dataset) if isinstance(dataset, Dataset) else load_dataset(dataset)
    if llm is None and not any(question.answers or question.supporting_ids for question in data.questions):
        raise ValueError(
            f"none of the {len(data.questions)} questions of {data.name!r} has an answer or gold documents: "
            "nothing could be scored; name them, or give an llm whose answers are compared"
        )
    cutoffs = Cutoffs(tuple(k), tuple(budgets))
    if view not in EVAL_VIEWS:
        raise ValueError(f"view must be one of {', '.join(EVAL_VIEWS)}, not {view!r}")
    settings = as_config(config)
    wanted = _wanted(DEFAULT if methods is None else methods, reference, view, settings)
    answering = (answers or AnswerConfig()).of(data) if llm is not None else None
    shown = LineProgress() if progress is True else progress or LineProgress(io.StringIO())
    llm, judges = as_chat_model(llm), () if answering is None else tuple(map(as_chat_model, answering.judges))
    count_tokens = lru_cache(maxsize=2**17)(counter_of_build(settings.tokenizer))
    with (
        TemporaryDirectory(prefix="stratagraph-eval-") if cache is None else nullcontext(cache) as kept,
        shared_embedder(folder := Path(kept), as_embedder(embedder), settings.limits) as shared,
        closing(SqliteCalls(folder / CALLS)) as calls,
    ):

        def gate(model: Any) -> ModelGate:
            return ModelGate(
                model,
                shared,
                cache=calls,
                budget=budget,
                limits=settings.limits,
                count_tokens=count_tokens,
                max_failures=settings.max_failures,
                prompts=settings.prompts,
            )

        bench = Workbench(
            data,
            shared,
            settings,
            gate(llm),
            count_tokens,
            llm=llm,
            budget=budget,
            calls=folder / CALLS,
            judge_gates=list(map(gate, judges)),
        )
        shared.learn(
            [chunk.searched_text for chunk in bench.chunks], [each.question for each in data.questions]
        )
        intervals = {"resamples": resamples, "confidence": confidence, "seed": seed}
        with closing(bench):
            # Plain rankings come last, so that builds are charged to methods.
            ordered = sorted(wanted, key=lambda each: isinstance(each, IndexRanker) and each.is_plain)
            by_name = {each.name: _row(each, bench, cutoffs, answering, shown) for each in ordered}
        rows = [by_name[each.name] for each in wanted]
    rows = compared(rows, reference, **intervals)
    about = {
        "date": date.today().isoformat(),
        "stratagraph": stratagraph.__version__,
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
        **intervals,
    }
    return Evaluation(data.name, data.questions, tuple(rows), reference, about, data.notes)


def _wanted(methods: Sequence[str | Ranker], reference: str, view: str, config: Config) -> list[Ranker]:
    """All rankers to measure, the reference too, each under a name of its own; see `check_rows`."""
    named = [methods] if isinstance(methods, str) else list(methods)
    for each in named:
        if not isinstance(each, str | Ranker):
            raise TypeError(f"a row is a name or a Ranker, not {each!r}")
    names = [each if isinstance(each, str) else each.name for each in named]
    check_rows([each for each in named if isinstance(each, str)], view, config)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice; names of rows must differ")
    if reference and reference not in names:
        if RowName.of(reference, view).ranker not in KNOWN:
            known = dict.fromkeys([*names, *KNOWN])
            raise ValueError(f"the reference {reference!r} is not among {', '.join(known)}")
        check_rows([reference], view, config)
        named.append(reference)
    return [IndexRanker(each, RowName.of(each, view)) if isinstance(each, str) else each for each in named]


def _row(
    ranker: Ranker, bench: Workbench, cutoffs: Cutoffs, answers: AnswerConfig | None, progress: Progress
) -> Row:
    """Make a ranker ready, ask it, answer and judge; what was measured before an error stands."""
    row = Row(ranker.name, ranker.description)
    stage, questions = f"ask {ranker.name}", bench.dataset.questions
    doing = ""
    try:
        row = replace(row, indexing=ranker.prepare(bench))
        progress.start(stage, len(questions))
        try:
            advance = partial(progress.advance, stage)
            scores, wall, cpu = ask_all(ranker, questions, cutoffs, bench.count_tokens, advance)
        finally:
            progress.finish(stage)
        row = replace(row, scores=scores, latency_ms=wall, cpu_ms=cpu, asking=ranker.asking)
        if answers is not None:
            doing = "answers: "
            row = answered(row, bench, ranker, answers)
            doing = "judging: "
            row = judged(row, bench.judge_gates, questions) if answers.judge else row
    except Exception as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        message = f"{doing}{type(error).__name__}: {error}{f' ({notes})' if notes else ''}"
        row = replace(row, error=message)
    return replace(row, failures=(*ranker.failures, *row.failures))


def compared(rows: Sequence[Row], reference: str, **intervals: Any) -> list[Row]:
    """The rows with differences to the reference, by arguments of `paired_difference`."""
    scores = next((row.scores for row in rows if row.name == reference), {})
    return [
        row
        if row.name == reference
        else replace(
            row,
            differences={
                metric: difference
                for metric, ours in row.scores.items()
                if metric in scores
                and (difference := paired_difference(ours, scores[metric], **intervals)) is not None
            },
        )
        for row in rows
    ]

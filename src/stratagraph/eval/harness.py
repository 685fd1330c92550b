"""Measure methods and baselines with the same passages, vectors and token budgets."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import stratagraph
from stratagraph.config import Config, as_config
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.checking import ANSWERS, KNOWN, check_rows, lacking, lacking_rows
from stratagraph.eval.datasets import Dataset, StrPath, checked, load_dataset
from stratagraph.eval.embedding import SharedEmbedder, kept_embedder
from stratagraph.eval.kept import Kept, KeptRows, identity_of_run
from stratagraph.eval.methods import MethodIndex
from stratagraph.eval.metrics import has_wordnet
from stratagraph.eval.names import DEFAULT_VIEW, EVAL_VIEWS, RowName
from stratagraph.eval.rankers import Ranker, Workbench
from stratagraph.eval.report import Evaluation
from stratagraph.eval.results import Row
from stratagraph.eval.running import Run, Settings, compared
from stratagraph.eval.scoring import Cutoffs
from stratagraph.methods import WAYS
from stratagraph.models.budget import Budget
from stratagraph.models.gate import ModelGate
from stratagraph.models.identity import is_named
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.operations.progress import LineProgress, NoProgress
from stratagraph.store.calls import SqliteCalls
from stratagraph.text.tokens import choose
from stratagraph.types.protocols import CallCache, Progress
from stratagraph.types.records import Chunk, Document

DEFAULT = (*WAYS, "dense", "bm25", "hybrid")
"""All methods and the baselines without a model, measured if nothing is named."""
REFERENCE = "dense"

CALLS = "calls.sqlite"
ROWS = "rows"


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
    again: bool = False,
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
        Folder that keeps vectors, model calls and rows from run to run; None keeps them for this run. A kept
        row is used if data, settings, embedder, models, code, machine and the rows before it are the same.
        Rows with failures, rankers of your own, and rows of an embedder without a name are not kept.
    again
        Measure kept rows again.
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
    missing = lacking_rows(names, view, settled)
    for name, why in missing.items():
        if methods is not None or name == reference:
            raise why
    answering = (answers or AnswerConfig()).of(data) if llm is not None else None
    if answering is not None and (unscored := lacking(ANSWERS)):
        raise unscored
    settings = Settings(cutoffs, reference, resamples, confidence, seed, answering)
    shown = LineProgress() if progress is True else progress or NoProgress()
    llm, judges = as_chat_model(llm), () if answering is None else tuple(map(as_chat_model, answering.judges))
    with (
        _folder(cache) as folder,
        closing(SqliteCalls(folder / CALLS)) as calls,
        kept_embedder(folder, as_embedder(embedder), settled.limits) as shared,
    ):
        bench = _bench(data, llm, judges, shared, settled, budget, view, calls)
        kept = KeptRows()
        if cache is not None and is_named(bench.embedder.wrapped):
            identity = identity_of_run(bench, cutoffs, answering, llm, judges)
            kept = KeptRows(Kept(folder / ROWS), identity, again)
        run = Run(bench, settings, MethodIndex(bench, llm, budget, folder / CALLS), shown, kept)
        try:
            rows = [
                Row(each, "", error=f"MissingExtra: {missing[each]}")
                if isinstance(each, str) and each in missing
                else run.row(each)
                for each in wanted
            ]
        finally:
            run.index.close()
        rows = run.duelled(rows)
    about = _described(run) | {"taken_rows": [row.name for row in run.taken]}
    if any("meteor" in row.scores for row in rows):
        about["meteor_synonyms"] = has_wordnet()
    rows = compared(rows, settings)
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
def _folder(cache: StrPath | None) -> Iterator[Path]:
    if cache is not None:
        path = Path(cache)
        path.mkdir(parents=True, exist_ok=True)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="stratagraph-eval-") as name:
            yield Path(name)


def _bench(
    dataset: Dataset,
    llm: Any,
    judges: Sequence[Any],
    shared: SharedEmbedder,
    config: Config,
    budget: Budget | None,
    view: str,
    calls: CallCache,
) -> Workbench:
    count_tokens = lru_cache(maxsize=2**17)(choose(config.tokenizer))

    def gate(model: Any) -> ModelGate:
        return ModelGate(
            model,
            shared,
            cache=calls,
            budget=budget,
            limits=config.limits,
            count_tokens=count_tokens,
            max_failures=config.max_failures,
            prompts=config.prompts,
        )

    judging = [gate(judge) for judge in judges]
    bench = Workbench(dataset, shared, config, gate(llm), count_tokens, view, judging)
    shared.learn([chunk.text for chunk in bench.chunks], [each.question for each in dataset.questions])
    return bench


def _described(run: Run) -> dict[str, Any]:
    bench, settings = run.bench, run.settings
    return {
        "date": date.today().isoformat(),
        "stratagraph": stratagraph.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "documents": len({chunk.document_id for chunk in bench.chunks}),
        "passages": len(bench.chunks),
        "questions": len(bench.dataset.questions),
        "embedder": bench.embedder.name,
        "embedding_seconds": bench.embedder.seconds,
        "embedded_passages": bench.embedder.embedded,
        "question_embedding_ms": bench.embedder.question_ms,
        "extraction": "given" if bench.dataset.extractions else "the package's own",
        "view": bench.view,
        "k": list(settings.cutoffs.k),
        "budgets": list(settings.cutoffs.budgets),
        "depth": run.depth,
        "resamples": settings.resamples,
        "confidence": settings.confidence,
        "seed": settings.seed,
    }

"""One evaluation of a table: its rows by name, and what the package's own evaluation does not measure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from papers import asking, clusterings, comparing, graphrag, lightrag, raptor, statements, walks, wording
from papers.corpus import Baseline, Corpus
from papers.layouts import Asked
from papers.tables import Rows
from stratagraph.eval import AnswerConfig, Dataset, Evaluation, Ranker, evaluate
from stratagraph.eval.embedding import shared_embedder
from stratagraph.eval.harness import CALLS, compared
from stratagraph.models.gate import ModelGate
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.store.calls import SqliteCalls
from stratagraph.text.tokens import choose

SYSTEMS: dict[str, Callable[..., Baseline]] = {
    "cot": asking.ChainOfThought,
    "fastgraphrag": walks.FastGraphRAG,
    "graphrag_global": graphrag.GlobalSearch,
    "graphrag_global-1": partial(graphrag.GlobalSearch, level=1),
    "graphrag_global-attributed": partial(graphrag.GlobalSearch, attributed=True),
    "graphrag_local": graphrag.LocalSearch,
    "hipporag": walks.HippoRAG,
    "hipporag-no-specificity": partial(walks.HippoRAG, specificity=False),
    "hipporag-no-synonyms": partial(walks.HippoRAG, synonymy=False),
    "hipporag2": walks.HippoRAG2,
    "hyde": asking.HyDE,
    "kag": walks.MutualIndex,
    "lightrag": lightrag.LightRAG,
    "lightrag-global": partial(lightrag.LightRAG, mode="global"),
    "lightrag-local": partial(lightrag.LightRAG, mode="local"),
    "raptor": raptor.Raptor,
    "raptor-balanced": partial(raptor.Raptor, balanced=True),
    "zero_shot": asking.ZeroShot,
}
"""The compared systems by name. A name with `/passages` appended ranks passages alone, without nodes."""


@dataclass(frozen=True)
class Models:
    """The models of a run and the folder that keeps their calls, by names or objects."""

    cache: Path
    llm: Any = None
    judges: tuple[Any, ...] = ()
    embedder: Any = None


def make(name: str, corpus: Corpus) -> Ranker | str:
    """A compared system, or the name of a row of the package."""
    system, _, view = name.partition("/")
    if system not in SYSTEMS:
        return name
    return SYSTEMS[system](name, corpus, **({"passages": True} if view == "passages" else {}))


def wants_texts(dataset: Dataset) -> bool:
    """Whether answers to the questions of a corpus are texts."""
    parts = any(isinstance(each, Asked) and each.parts for each in dataset.questions)
    return dataset.wants_texts or parts or statements.is_bench(dataset.questions)


def measure(step: Rows, dataset: Dataset, models: Models, tokens: str = "") -> tuple[Evaluation, str]:
    """Evaluate a step's rows on a corpus; the evaluation, and its tables as a text.

    Where there is a model, all metrics of wording that the papers use are added, GraphRAG-Bench's on its
    questions, and comparisons where the step wants them.
    """
    clusterings.register()
    abstract = step.compare == "reference" and not wants_texts(dataset)
    with ExitStack() as stack:
        models.cache.mkdir(parents=True, exist_ok=True)
        calls = stack.enter_context(closing(SqliteCalls(models.cache / CALLS)))
        embedder = stack.enter_context(shared_embedder(models.cache, as_embedder(models.embedder)))

        def gate(model: Any) -> ModelGate:
            return ModelGate(as_chat_model(model), embedder, cache=calls, count_tokens=choose())

        if abstract:
            dataset = comparing.with_abstract_questions(dataset, gate(models.llm))
        corpus, given = Corpus(), tokens or step.tokens or "2000"
        style: Literal["auto", "full"] = "full" if step.compare or wants_texts(dataset) else "auto"
        size: Any = given if given == "free" else int(given)
        found = evaluate(
            dataset,
            [make(name, corpus) for name in step.rows],
            reference=step.reference,
            llm=models.llm,
            embedder=models.embedder,
            config={"extraction": {"form": "full"}, **step.config},
            answers=AnswerConfig(size, style, judge_llm=list(models.judges) or None),
            cache=models.cache,
            progress=True,
        )
        told = []
        if models.llm is not None:
            judges = [gate(each) for each in models.judges or (models.llm,)]
            rows = []
            for row in found.rows:
                if row.answers:
                    scores = {**row.scores, **wording.scores(found.questions, row.answers)}
                    row = replace(row, scores=scores)
                if row.answers and statements.is_bench(found.questions):
                    try:
                        row = statements.judged(row, found.questions, judges, embedder)
                    except Exception as error:
                        row = comparing.failed(row, f"judging: {type(error).__name__}: {error}")
                rows.append(row)
            found = replace(found, rows=tuple(compared(rows, found.reference)))
            if statements.is_bench(found.questions):
                told.append(statements.by_type(found))
            if step.compare:
                found, table = comparing.compared(found, judges, step.compare == "gold")
                told.append(table)
    return found, "\n\n".join(filter(None, [str(found), *told]))

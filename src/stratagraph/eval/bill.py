"""Estimate of what answers and verdicts cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from stratagraph.config import as_config
from stratagraph.eval.answering import AnswerConfig, Answering, answer_all, contexts_of, own_answers
from stratagraph.eval.baselines import BASELINES, make
from stratagraph.eval.checking import ANSWERS, check_rows, lacking, lacking_rows
from stratagraph.eval.datasets import Dataset
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.judging import head_to_head, judge_correctness
from stratagraph.eval.names import RowName
from stratagraph.eval.rankers import Workbench
from stratagraph.eval.statements import judge_statements
from stratagraph.models.budget import Prices
from stratagraph.models.estimate import CountingGate, Estimate
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.text.tokens import choose
from stratagraph.types.records import Usage

_WORDS = {"short": 5, "full": 300}  # of an answer that is judged


def estimate_answers(
    dataset: Dataset,
    methods: Sequence[str],
    *,
    llm: Any,
    answers: AnswerConfig | None = None,
    reference: str = "dense",
    config: Any = None,
    prices: Prices | None = None,
) -> Estimate:
    """Estimate calls and tokens of an evaluation's answers and verdicts, without calling a model.

    Baselines include what makes them ready (extraction, summaries, reports), their calls for each question,
    and their own prompts. Every context is taken as full and no call as cached, so the estimate is an upper
    bound. For builds of the package's methods see `stratagraph.estimate`, for their calls for a question
    (`own_prompt`) `Index.estimate_question`.

    Parameters
    ----------
    dataset, methods, llm, answers, reference, config
        See `evaluate`.
    prices
        Prices per million tokens; None looks the models up in genai-prices.

    Returns
    -------
    The estimate by stage; its `cost` is None where the price of a model is unknown.

    Raises
    ------
    ValueError
        If the name of a row, or an option in it, is not valid.
    MissingExtra
        If a row or the scores of answers need a package that is not installed.
    """
    answers, settings = (answers or AnswerConfig()).of(dataset), as_config(config)
    rows = list(dict.fromkeys([*methods, *([reference] if reference else ())]))
    check_rows(rows, "chunks", settings)
    for missing in (lacking(ANSWERS), *lacking_rows(rows, "chunks", settings).values()):
        if missing is not None:
            raise missing
    count_tokens = lru_cache(maxsize=2**17)(choose(settings.tokenizer))
    judges = [as_chat_model(each) for each in answers.judges]

    embedder = as_embedder("hashing")

    def counting(model: Any) -> CountingGate:
        return CountingGate(model, embedder, count_tokens=count_tokens, prompts=settings.prompts)

    gate = counting(as_chat_model(llm))
    gates = [counting(each) for each in judges] or [gate]
    bench = Workbench(dataset, SharedEmbedder(embedder), settings, gate, count_tokens, judge_gates=gates)
    for name in rows:
        _count(bench, name, answers, reference)
    estimates = [each.estimate(prices) for each in dict.fromkeys([gate, *gates])]
    stages: dict[str, Usage] = {}
    for stage, usage in (entry for each in estimates for entry in each.stages.items()):
        stages[stage] = stages.get(stage, Usage()) + usage
    costs = [each.cost for each in estimates if each.cost is not None]
    return Estimate(stages, sum(costs) if len(costs) == len(estimates) else None)


def _count(bench: Workbench, name: str, answers: AnswerConfig, reference: str) -> None:
    questions = bench.dataset.questions
    if not _count_baseline(bench, name, answers):
        texts = [f"of {name}:", *(passage.text for passage in bench.passages)]
        answer_all(bench, name, [texts] * len(questions), answers)
    said = _said(bench, name, answers)
    if answers.judge:
        judge_correctness(bench.judge_gates, name, questions, said)
        if bench.dataset.of_bench:
            whole = [passage.text for passage in bench.passages]
            contexts = contexts_of(bench, [whole] * len(questions), answers)
            stage = f"judge statements of {name}"
            judge_statements(bench.judge_gates, bench.embedder, stage, questions, said, contexts)
    asked = [question.question for question in questions]
    if answers.head_to_head and name != reference:
        theirs = _said(bench, reference, answers)
        head_to_head(bench.judge_gates, asked, said, theirs, stage=f"compare {name}", resamples=1)
    if answers.against_gold:
        gold = [question.answers[0] if question.answers else None for question in questions]
        stage = f"compare {name} with gold"
        head_to_head(bench.judge_gates, asked, said, gold, stage=stage, resamples=1)


def _count_baseline(bench: Workbench, name: str, answers: AnswerConfig) -> bool:
    """Count the calls of a baseline; whether its answers are among them."""
    wanted = RowName.of(name, bench.view)
    if wanted.ranker not in BASELINES:
        return False
    ranker = make(wanted.ranker, bench, wanted.options, own_prompt=wanted.own_prompt)
    for question in bench.dataset.questions:
        ranker.rank(question.question, 1)
    if not isinstance(ranker, Answering) or not ranker.own_prompt:
        return False
    own_answers(bench, name, ranker, answers)
    return True


def _said(bench: Workbench, name: str, answers: AnswerConfig) -> list[str]:
    words = " ".join(["word"] * _WORDS[answers.style])
    return [f"{name} on {question.id}: {words}" for question in bench.dataset.questions]

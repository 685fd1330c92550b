"""`stratagraph eval`: the harness from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.datasets import load_dataset
from stratagraph.eval.harness import evaluate
from stratagraph.eval.names import split_names
from stratagraph.eval.report import Evaluation, save_csv, save_json

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else split_names(value)


def _settings(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else json.loads(Path(value).read_text("utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not JSON: {error}") from error


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in value.split(",") if number.strip())
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers with commas") from error
    if any(number < 1 for number in numbers):
        raise click.BadParameter("every number must be at least 1")
    return numbers


def _tokens(context: click.Context, parameter: click.Parameter, value: str) -> int | Literal["free"]:
    if value == "free":
        return "free"
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a whole number from 1 nor 'free'")
    return int(value)


def eval_command(shared: Decorator, models_options: Decorator) -> click.Command:
    """The command `eval`.

    `shared` decorates a function that takes `output`, with `--json`, `--debug` and errors as one line.
    `models_options` adds `--llm` and `--embedder` as objects.
    """

    @click.command("eval")
    @click.argument("data", type=click.Path(), nargs=-1, required=True)
    @click.option(
        "--methods",
        callback=_names,
        help="Names with commas: walk, methods, dense, bm25, hybrid; all if not given. A name may have a "
        "view and options: noderag/nodes?mode=entry, archrag?build.max_levels=1&own_prompt=true.",
    )
    @click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        callback=_settings,
        help='A JSON file of settings of the index: {"chunking": {...}, "noderag": {...}}.',
    )
    @click.option("--k", default="2,5,10", show_default=True, callback=_numbers, help="Cutoffs in passages.")
    @click.option(
        "--budgets", default="1000,2000,5000", show_default=True, callback=_numbers, help="In tokens."
    )
    @click.option(
        "--view", type=click.Choice(["default", "chunks", "nodes"]), default="default", show_default=True
    )
    @click.option(
        "--reference", default="dense", show_default=True, help="Row that the others are compared with."
    )
    @click.option(
        "--extraction", "openie", type=click.Path(), help="Given entities and triples, such as openie.jsonl."
    )
    @click.option("--questions", type=click.IntRange(1), help="Ask only the first so many.")
    @click.option(
        "--judge",
        metavar="NAMES",
        callback=_names,
        help="Chat model that judges answers, or several with commas; if not given, that of --llm.",
    )
    @click.option(
        "--answer-tokens",
        default="2000",
        show_default=True,
        callback=_tokens,
        help="Tokens of context of an answer, or `free`: all that each row retrieves for an answer.",
    )
    @click.option(
        "--cache",
        type=click.Path(),
        help="A folder that keeps vectors and model calls, so that the next run repeats none.",
    )
    @click.option("--seed", default=0, show_default=True, help="Seed of the confidence intervals.")
    @click.option("--out", type=click.Path(dir_okay=False), help="Write all results as JSON.")
    @click.option("--csv", "table", type=click.Path(dir_okay=False), help="Write means as CSV.")
    @models_options
    @shared
    def evaluation(output: Any, **options: Any) -> None:
        """Measure methods and plain rankings on DATA: `demo`, or a folder with a corpus and questions.

        With --llm, questions are answered, and the answers scored and judged. If a row fails, the others
        stand and the exit code is 3.
        """
        output.resumes = options["models"]["cache"] is not None
        evaluations = _evaluated(progress=not output.as_json, **options)
        for each in evaluations:
            for row in each.rows:
                if row.error:
                    output.leave_out(f"{row.name} on {each.dataset}", " ".join(row.error.split()))
        output.show(_as_dict(evaluations), lambda: iter("\n\n".join(map(str, evaluations)).splitlines()))

    return evaluation


def _as_dict(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    several = [each.to_dict() for each in evaluations]
    return several[0] if len(several) == 1 else {"evaluations": several}


def _evaluated(
    data: Sequence[str],
    methods: Sequence[str] | None,
    models: dict[str, Any],
    openie: str | None,
    questions: int | None,
    judge: Sequence[str] | None,
    answer_tokens: int | Literal["free"],
    out: str | None,
    table: str | None,
    **options: Any,
) -> list[Evaluation]:
    """Evaluate each corpus and write the files; `options` are those of `evaluate`."""
    if judge is not None and models["llm"] is None:
        raise ValueError("--judge judges answers, and nothing answers: give --llm")
    config = AnswerConfig(answer_tokens, judge_llm=judge)
    datasets = [load_dataset(each, extraction=openie) for each in data]
    datasets = [each if questions is None else each.head(questions) for each in datasets]
    evaluations = [evaluate(each, methods, answers=config, **models, **options) for each in datasets]
    if out is not None:
        save_json(_as_dict(evaluations), out)
    if table is not None:
        save_csv(evaluations, table)
    return evaluations

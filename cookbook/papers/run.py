"""Run a table or figure of one of the papers again, with your data and your model.

usage: python cookbook/papers --list
       python cookbook/papers TABLE DATA ... [--llm NAME] [--judge NAMES] [--embedder NAME]
                              [--extraction FILE] [--questions N] [--answer-tokens N|free]
                              [--work FOLDER] [--small] [--dry-run]

TABLE is a name that --list gives, or `no-model`: all that need none. README.md says for each what it needs
and what it prints. DATA are corpora as `layouts` reads them; FILE is looked for in their folders too. Steps
run one after the other, a step that tables share once. WORK keeps model calls and vectors, so that a run
after a stopped one repeats none; answers to GraphRAG-Bench's questions are written to WORK/answers.
The exit code is 1 if a script failed, and 3 if rows of a table did, which it names, or if `no-model` left a
table out for want of a package, which it says first.
--small shows in a few minutes that a table runs, with two questions and scripts at a reduced size: its
figures mean nothing. --dry-run only shows the steps.
--judge, --embedder, --questions and --answer-tokens are for tables with a model.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from papers import statements
from papers.harness import Models, measure, wants_texts
from papers.layouts import read
from papers.tables import TABLES, Rows, Script, Table

HERE = Path(__file__).resolve().parent
WITHOUT_MODEL = "no-model"
LEFT_OUT = 3
"""Exit code where rows or tables failed or were left out, and the others stand."""
SMALL_QUESTIONS = 2
FOR_MODELS = ("judge", "embedder", "questions", "answer_tokens")
"""Options of evaluations alone; scripts ask all questions, and embed as they do by themselves."""
Work = tuple[str, Callable[[], int]]
"""A step as a line, and how it is done: 0, 1 if it failed, or `LEFT_OUT`."""


def steps(table: Table, given: argparse.Namespace) -> Iterator[Work]:
    """What is run for a table: its steps for each corpus, or once where a step takes all of them."""
    for step in (*table.steps, *(table.with_model if given.llm else ())):
        if isinstance(step, Script):
            for command in commands(step, given):
                yield shlex.join(command), lambda command=command: ran(command)
            continue
        for data in given.data:
            if step.only == "any" or (step.only == "texts") == wants_texts(read(data)):
                about = (
                    [step.reference]
                    if step.compare == "reference"
                    else [step.compare]
                    if step.compare
                    else []
                )
                line = f"evaluate {data}: {', '.join(step.rows)}{' against '.join(['', *about])}"
                line += f" ({step.config})" if step.config else ""
                yield line, lambda step=step, data=data: evaluated(step, data, given)


def commands(step: Script, given: argparse.Namespace) -> Iterator[list[str]]:
    """The runs of a script."""
    own = ["--extraction", given.extraction] if "extraction" in step.options and given.extraction else []
    own += ["--cache", str(given.work / "cache")] if "cache" in step.options else []
    own += ["--llm", given.llm] if "llm" in step.options and given.llm else []
    own += step.small if given.small else []
    installed = [name for name, module in step.libraries.items() if find_spec(module) is not None]
    own += ["--libraries", *installed] if step.libraries else []
    beside = ["--texts", str(Path(given.data[0]).resolve().parent)]
    runs = {"all": [given.data], "each": [[data] for data in given.data], "beside": [beside]}
    for data in runs[step.corpora]:
        script = str(HERE.parent / "benchmarks" / step.script)
        yield [sys.executable, script, *step.arguments, *data, *own]


def ran(command: Sequence[str]) -> int:
    """Run a script; 1 if it failed."""
    exit_code = subprocess.run(command, env=os.environ | {"PYTHONUNBUFFERED": "1"}).returncode
    if exit_code:
        print(f"failed with exit code {exit_code}", flush=True)
    return int(bool(exit_code))


def evaluated(step: Rows, data: str, given: argparse.Namespace) -> int:
    """Evaluate rows on a corpus and print the tables; `LEFT_OUT` if a row failed."""
    dataset = read(data, extraction=given.extraction)
    questions = given.questions or (SMALL_QUESTIONS if given.small else None)
    judges = tuple(filter(None, (given.judge or "").split(",")))
    models = Models(given.work / "cache", given.llm, judges, given.embedder)
    dataset = dataset if questions is None else dataset.head(questions)
    found, told = measure(step, dataset, models, given.answer_tokens or "")
    print(told, flush=True)
    if statements.is_bench(found.questions):
        statements.save_answers(found, given.work / "answers")
    failed = [row for row in found.rows if row.error]
    for row in failed:
        error = " ".join(row.error.split())
        print(f"left out: {row.name} on {found.dataset}: {error}", file=sys.stderr, flush=True)
    if failed:
        print("rows failed and were left out; the same command tries them again", flush=True)
    return LEFT_OUT if failed else 0


def run(tables: Sequence[Table], given: argparse.Namespace) -> int:
    """Run all steps of some tables, each once."""
    codes = {0}
    for line, do in dict(step for table in tables for step in steps(table, given)).items():
        print(f"$ {line}", flush=True)
        if not given.dry_run:
            before = os.times()
            codes.add(do())
            spent = sum(os.times()[:4]) - sum(before[:4])
            print(f"({os.times().elapsed - before.elapsed:.0f} s, {spent:.0f} CPU-seconds)\n", flush=True)
    return 1 if 1 in codes else max(codes)


def in_the_paper(table: Table) -> str:
    """The paper's own figures, with where they stand."""
    text = (HERE / "printed.md").read_text("utf-8")
    figures = re.search(rf"^## {table.name}\n\n```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    if figures is None:
        return f"{table.place}: its figures are only drawn\n"
    return f"{table.place}, as printed there (other models, corpora as a whole):\n{figures[1]}\n"


def listing() -> Iterator[str]:
    """A line for each table."""
    width = max(map(len, TABLES))
    for name, table in TABLES.items():
        yield f"{name:{width}}  {table.place}: {table.title} [{table.needs}]"


def arguments() -> argparse.Namespace:
    """Of the command line, with what does not fit refused."""
    parser = argparse.ArgumentParser(
        "papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=[*sorted(TABLES), WITHOUT_MODEL], metavar="TABLE")
    parser.add_argument("data", nargs="*", metavar="DATA")
    for name, what in (("llm", "chat model"), ("judge", "judges, with commas"), ("embedder", "embedder")):
        parser.add_argument(f"--{name}", metavar="NAME", help=what)
    parser.add_argument("--extraction", metavar="FILE", help="given entities and triples of the passages")
    parser.add_argument("--questions", type=int, metavar="N", help="ask only the first so many")
    parser.add_argument(
        "--answer-tokens", metavar="N|free", help="tokens of context; else the paper's choice"
    )
    parser.add_argument("--work", type=Path, default=Path("papers-work"), help="where all is kept")
    for name in ("small", "dry-run", "list"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    if given.list or given.table is None:
        print("\n".join(listing()))
        sys.exit(0)
    for table in chosen(given.table):
        if not given.data:
            parser.error(f"{table.name} needs DATA: {table.data}")
        if table.needs_model and given.llm is None:
            parser.error(f"{table.name} needs a chat model: give --llm, such as openai:gpt-4o-mini")
        unused = [f"--{name.replace('_', '-')}" for name in FOR_MODELS if getattr(given, name)]
        scripts = all(isinstance(step, Script) for step in table.steps)
        if unused and scripts and not (given.llm and table.with_model):
            parser.error(f"{table.name} is measured by a script, which takes no {unused[0]}")
        if given.table != WITHOUT_MODEL and table.lacks:
            parser.error(f"{table.name} needs what is not installed: pip install {table.lacks}")
        if given.llm and not table.takes_model:
            parser.error(f"{table.name} is measured without a model, and takes no --llm")
    return given


def chosen(name: str) -> Sequence[Table]:
    """The table of a name, or all that need no model."""
    return (
        [each for each in TABLES.values() if not each.needs_model]
        if name == WITHOUT_MODEL
        else [TABLES[name]]
    )


def main() -> int:
    """Run what was asked for, but for the tables of a group that cannot be run here; the exit code."""
    given = arguments()
    tables = chosen(given.table)
    for table in tables:
        if table.lacks:
            print(
                f"left out: {table.name}: not installed: pip install {table.lacks}",
                file=sys.stderr,
                flush=True,
            )
    here = [table for table in tables if not table.lacks]
    failed = run(here, given)
    if not given.dry_run:
        print("\n".join(map(in_the_paper, here)), flush=True)
    return failed or (LEFT_OUT if len(here) < len(tables) else 0)

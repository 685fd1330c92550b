"""Run a table or figure of one of the papers again, with your data and your model.

usage: python cookbook/papers.py --list
       python cookbook/papers.py TABLE DATA ... [--llm NAME] [--judge NAMES] [--embedder NAME]
                                 [--extraction FILE] [--questions N] [--answer-tokens N|free]
                                 [--work FOLDER] [--small] [--dry-run]

TABLE is a name that --list gives, or `no-model`: all that need none. cookbook/papers.md says for each what
it needs and what it prints. DATA are corpora as `stratagraph eval` reads them; FILE is looked for in their
folders too. Commands run one after the other, a command that tables share once. WORK keeps model calls and
vectors, so that a run after a stopped one repeats none.
The exit code is 1 if a command failed, and 3 if rows of a table did, which it names, or if `no-model` left a
table out for want of a package, which it says first.
--small shows in a few minutes that a table runs, with two questions and scripts at a reduced size: its
figures mean nothing. --dry-run only shows the commands.
--judge, --embedder, --questions and --answer-tokens are for tables with a model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from papers_figures import printed
from papers_steps import Step, Table
from papers_tables import TABLES

from stratagraph.eval import load_dataset

HERE = Path(__file__).resolve().parent
WITHOUT_MODEL = "no-model"
LEFT_OUT = 3
"""Exit code of `stratagraph eval`, and of this program, where rows failed and the others stand."""
SMALL_QUESTIONS = 2
FOR_MODELS = ("judge", "embedder", "questions", "answer_tokens")
"""Options of evaluations alone; scripts ask all questions, and embed as they do by themselves."""


def commands(table: Table, given: argparse.Namespace) -> Iterator[list[str]]:
    """What is run for a table: its steps for each corpus, or once where a step takes all of them or none."""
    for step in (*table.steps, *(table.with_model if given.llm else ())):
        if step.script:
            yield from _measurements(step, given)
            continue
        for data in given.data:
            if step.only in ("any", "texts" if wants_texts(data) else "short"):
                yield _evaluation(step, data, given)


@cache
def wants_texts(data: str) -> bool:
    """Whether answers to the questions of a corpus are texts."""
    return bool(load_dataset(data).wants_texts)


def _measurements(step: Step, given: argparse.Namespace) -> Iterator[list[str]]:
    own = ["--extraction", given.extraction] if step.takes_extraction and given.extraction else []
    own += ["--cache", str(given.work / "cache")] if step.keeps_vectors else []
    own += ["--llm", given.llm] if step.takes_llm and given.llm else []
    own += step.small if given.small else []
    own += ["--libraries", *installed(step)] if step.libraries else []
    runs = {"none": [[]], "all": [given.data], "each": [[data] for data in given.data]}
    if step.corpora == "beside":
        runs["beside"] = [["--texts", str(Path(given.data[0]).resolve().parent)]]
    for data in runs[step.corpora]:
        script = str(HERE / "benchmarks" / step.script)
        yield [sys.executable, script, *step.arguments, *data, *own]


def installed(step: Step) -> list[str]:
    """The libraries of a step that are here."""
    return [name for name, module in step.libraries.items() if find_spec(module) is not None]


def _evaluation(step: Step, data: str, given: argparse.Namespace) -> list[str]:
    parts = [str(Path(sys.executable).with_name("stratagraph")), "eval", data]
    parts += ["--methods", ",".join(step.methods), "--cache", str(given.work / "cache"), *step.arguments]
    if step.reference:
        parts += ["--reference", step.reference, "--head-to-head" if wants_texts(data) else "--abstract"]
    parts += ["--config", str(_written(step, given.work))]
    if tokens := given.answer_tokens or step.tokens:
        parts += ["--answer-tokens", tokens]
    if step.answers:
        parts += ["--answers", str(given.work / "answers")]
    for name in ("llm", "judge", "embedder", "extraction", "questions"):
        if (value := getattr(given, name)) is not None:
            parts += [f"--{name}", str(value)]
    if given.small and given.questions is None:
        parts += ["--questions", str(SMALL_QUESTIONS)]
    return parts


def _written(step: Step, work: Path) -> Path:
    """The step's settings as a file, named by its content. The papers extract descriptions: the full form."""
    text = json.dumps({"extraction": {"form": "full"}, **step.config}, sort_keys=True)
    path = work / f"settings-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def run(tables: Sequence[Table], given: argparse.Namespace) -> int:
    """Run all commands of some tables, each once; 1 if a command failed, 3 if only rows of one did."""
    failed = 0
    by_line = {shlex.join(command): command for table in tables for command in commands(table, given)}
    for line, command in by_line.items():
        print(f"$ {line}", flush=True)
        if given.dry_run:
            continue
        before = os.times()
        exit_code = subprocess.run(command, env=os.environ | {"PYTHONUNBUFFERED": "1"}).returncode
        print(_took(before, os.times()), flush=True)
        if exit_code == LEFT_OUT:
            print("rows failed and were left out; the same command tries them again", flush=True)
            failed = failed or LEFT_OUT
        elif exit_code:
            print(f"failed with exit code {exit_code}", flush=True)
            failed = 1
    return failed


def in_the_paper(table: Table) -> str:
    """The paper's own figures, with where they stand."""
    if not (figures := printed(table.name)):
        return f"{table.place}: its figures are only drawn\n"
    return f"{table.place}, as printed there (other models, corpora as a whole):\n{figures}\n"


def _took(before: os.times_result, after: os.times_result) -> str:
    """The time of a command; on Windows its CPU-seconds are not known and 0."""
    spent = [at.children_user + at.children_system for at in (before, after)]
    return f"({after.elapsed - before.elapsed:.0f} s, {spent[1] - spent[0]:.0f} CPU-seconds)\n"


def listing() -> Iterator[str]:
    """A line for each table."""
    width = max(map(len, TABLES))
    for name, table in TABLES.items():
        yield f"{name:{width}}  {table.place}: {table.title} [{table.needs}]"


def arguments() -> argparse.Namespace:
    """Of the command line, with what does not fit refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
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
        if table.needs_data and not given.data:
            parser.error(f"{table.name} needs DATA: {table.data}")
        if table.needs_model and given.llm is None:
            parser.error(f"{table.name} needs a chat model: give --llm, such as openai:gpt-4o-mini")
        unused = [f"--{name.replace('_', '-')}" for name in FOR_MODELS if getattr(given, name)]
        if unused and not table.needs_model and not (given.llm and table.with_model):
            parser.error(f"{table.name} is measured by a script, which takes no {unused[0]}")
        if given.table != WITHOUT_MODEL and (missing := lacks(table)):
            parser.error(f"{table.name} needs what is not installed: pip install {missing}")
        if given.llm and not table.takes_model:
            parser.error(f"{table.name} is measured by a script, which takes no --llm")
    return given


def chosen(name: str) -> Sequence[Table]:
    """The table of a name, or all that need no model."""
    if name == WITHOUT_MODEL:
        return [table for table in TABLES.values() if not table.needs_model]
    return [TABLES[name]]


def lacks(table: Table) -> str | None:
    """What `pip install` has to bring before a table can be run; None if nothing."""
    return next((step.lacks for step in table.steps if step.lacks), None)


def main() -> int:
    """Run what was asked for, but for the tables of a group that cannot be run here; the exit code."""
    given = arguments()
    left_out = {table.name: missing for table in chosen(given.table) if (missing := lacks(table))}
    for name, missing in left_out.items():
        print(f"left out: {name}: not installed: pip install {missing}", file=sys.stderr, flush=True)
    tables = [table for table in chosen(given.table) if table.name not in left_out]
    failed = run(tables, given)
    if not given.dry_run:
        print("\n".join(map(in_the_paper, tables)), flush=True)
    return failed or (LEFT_OUT if left_out else 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on where it was")

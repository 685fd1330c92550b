"""The command line: `stratarag demo | estimate | build | insert | delete | query | stats | verify`.

Every command takes `--json` for machines. An error is one line on standard error and exit code 1
(2 for wrong usage); `--debug` shows the traceback.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import click

import stratarag as sr
from stratarag.errors import StrataragError

EXPECTED = (StrataragError, ValueError, TypeError, KeyError, OSError, ImportError)
_SHOWN = 300


def _json_default(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if not callable(getattr(value, field.name))
        }
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


class Output:
    """Where results go: JSON for machines, or lines for people."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def show(self, value: object, lines: Callable[[], Iterator[str]]) -> None:
        """Print a result in the form that was asked for."""
        if self.as_json:
            click.echo(json.dumps(value, default=_json_default, ensure_ascii=False))
        else:
            for line in lines():
                click.echo(line)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """What all commands share: `--json`, `--debug`, and errors as one clear line."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @wraps(function)
    def wrapped(*args: Any, as_json: bool, debug: bool, **kwargs: Any) -> None:
        try:
            function(*args, output=Output(as_json), **kwargs)
        except KeyboardInterrupt:
            click.echo("interrupted; the same command resumes", err=True)
            sys.exit(130)
        except EXPECTED as error:
            if debug:
                raise
            _fail(error, as_json)

    return wrapped


def _fail(error: BaseException, as_json: bool) -> None:
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    kind = type(error).__name__
    if as_json:
        click.echo(json.dumps({"error": kind, "message": message}, ensure_ascii=False))
    click.echo(f"{kind}: {' '.join(message.split())}", err=True)
    sys.exit(1)


def models_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--llm` and `--embedder`, each the import path of an object or of a function that makes it."""
    llm = click.option(
        "--llm", callback=_loaded, metavar="MODULE:NAME", help="Chat model; without one, LLM-free."
    )
    embedder = click.option(
        "--embedder",
        callback=_loaded,
        metavar="MODULE:NAME",
        help="Embedder, or `minilm` or `hashing`; the local default if not given.",
    )
    return llm(embedder(function))


def _loaded(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """The object that an option names."""
    local: dict[str, Callable[[], Any]] = {"minilm": sr.MiniLMEmbedder, "hashing": sr.HashingEmbedder}
    if value is None:
        return None
    if value in local:
        return local[value]()
    module, _, name = value.partition(":")
    if not name:
        raise click.BadParameter(f"{value!r} is not of the form MODULE:NAME")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"cannot load {value!r}: {error}") from error
    is_factory = isinstance(found, type) or not any(
        hasattr(found, verb) for verb in ("complete", "acomplete", "embed_documents", "aembed_documents")
    )
    return found() if is_factory else found


def budget_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--max-calls` and `--max-tokens`."""
    calls = click.option("--max-calls", type=click.IntRange(1), help="Stop before more model calls.")
    tokens = click.option("--max-tokens", type=click.IntRange(1), help="Stop before more tokens.")
    return calls(tokens(function))


def _budget(calls: int | None, tokens: int | None) -> sr.Budget | None:
    return None if calls is None and tokens is None else sr.Budget(calls=calls, tokens=tokens)


def _read(inputs: Sequence[str]) -> Any:
    return sr.read_documents(
        inputs, on_skip=lambda name, reason: click.echo(f"skipped {name}: {reason}", err=True)
    )


method_option = click.option(
    "--method", "methods", multiple=True, default=("lshtree",), show_default=True, help="May be repeated."
)
inputs_argument = click.argument("inputs", nargs=-1, required=True, type=click.Path())
index_argument = click.argument("index", type=click.Path())


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sr.__version__, prog_name="stratarag")
def main() -> None:
    """Graph RAG over a folder of texts: no key, no server, no network needed."""


@main.command()
@inputs_argument
@method_option
@models_options
@click.option("--cache", type=click.Path(), help="A file of model calls shared among indexes.")
@command
def estimate(
    inputs: Sequence[str], methods: Sequence[str], llm: Any, embedder: Any, cache: str | None, output: Output
) -> None:
    """What a build of INPUTS (files, folders, .jsonl) would cost, without a model call."""
    found = sr.estimate(_read(inputs), list(methods), llm=llm, cache=cache)
    output.show(found.to_dict(), lambda: iter(str(found).splitlines()))


@main.command()
@inputs_argument
@click.option("--out", "-o", "path", required=True, type=click.Path(), help="The index folder.")
@method_option
@models_options
@budget_options
@click.option("--cache", type=click.Path(), help="A file of model calls shared among indexes.")
@click.option("--extraction", type=click.Path(), help="OpenIE JSON lines that exist already, by document id.")
@command
def build(
    inputs: Sequence[str],
    path: str,
    methods: Sequence[str],
    extraction: str | None,
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    output: Output,
) -> None:
    """Build an index of INPUTS (files, folders, .jsonl). The same command resumes a stopped build."""
    budget = _budget(max_calls, max_tokens)
    with sr.build_index(
        _read(inputs),
        list(methods),
        path,
        llm,
        embedder,
        budget=budget,
        cache=cache,
        progress=not output.as_json,
        extraction=None if extraction is None else sr.read_openie(extraction).extractions,
    ) as index:
        report = index.last_report
        output.show(report, lambda: _report_lines(report, path))


@main.command()
@index_argument
@inputs_argument
@models_options
@budget_options
@command
def insert(
    index: str,
    inputs: Sequence[str],
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    output: Output,
) -> None:
    """Add INPUTS to INDEX; documents whose id is there already are updated."""
    budget = _budget(max_calls, max_tokens)
    with sr.open_index(index, llm, embedder, budget=budget, progress=not output.as_json) as opened:
        report = opened.insert(_read(inputs))
        output.show(report, lambda: _report_lines(report, index))


@main.command()
@index_argument
@click.argument("ids", nargs=-1, required=True)
@click.option("--missing-ok", is_flag=True, help="Ignore ids that are not there.")
@models_options
@command
def delete(index: str, ids: Sequence[str], missing_ok: bool, llm: Any, embedder: Any, output: Output) -> None:
    """Remove the documents IDS from INDEX, and all that came from them alone."""
    with sr.open_index(index, llm, embedder, progress=not output.as_json) as opened:
        report = opened.delete(ids, missing_ok=missing_ok)
        output.show(report, lambda: _report_lines(report, index))


@main.command()
@index_argument
@click.argument("question")
@click.option("-k", default=5, show_default=True, type=click.IntRange(1), help="Number of hits.")
@click.option("--view", type=click.Choice(["nodes", "chunks"]), default="nodes", show_default=True)
@click.option("--method", help="The folder's first method if not given.")
@click.option("--where", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 1990}}\'.')
@click.option("--answer/--no-answer", default=True, show_default=True, help="Answer, or only list hits.")
@models_options
@command
def query(
    index: str,
    question: str,
    k: int,
    view: str,
    method: str | None,
    where: str | None,
    answer: bool,
    llm: Any,
    embedder: Any,
    output: Output,
) -> None:
    """Ask INDEX a QUESTION: hits, and an answer with its sources."""
    options = {"view": view, "method": method, "where": _where(where)}
    with sr.open_index(index, llm, embedder) as opened:
        if answer:
            answered = opened.answer(question, k, **options)
            output.show(answered, lambda: _answer_lines(answered))
        else:
            found = opened.retrieve(question, k, **options)
            output.show(found, lambda: _hit_lines(found.hits))


def _where(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"--where is not JSON: {error}") from error


@main.command()
@index_argument
@command
def stats(index: str, output: Output) -> None:
    """What INDEX holds."""
    with _opened_with_its_embedder(index) as opened:
        found = opened.stats()
        output.show(found, lambda: _tree_lines(found))


@main.command()
@index_argument
@command
def verify(index: str, output: Output) -> None:
    """Check every file of INDEX; exit code 1 if something is wrong."""
    with _opened_with_its_embedder(index) as opened:
        problems = opened.verify()
    output.show({"problems": problems}, lambda: iter(problems or ["sound: every file is as it was written"]))
    if problems:
        sys.exit(1)


def _opened_with_its_embedder(path: str) -> sr.Index:
    """Open an index to look at it: whatever embedder it was built with, no question is asked of it."""
    from stratarag._models import AnyEmbedder

    return sr.open_index(path, embedder=AnyEmbedder())


@main.command()
@click.option("--out", "-o", "path", type=click.Path(), help="Keep the index in this folder.")
@models_options
@command
def demo(path: str | None, llm: Any, embedder: Any, output: Output) -> None:
    """Build an index of the corpus that comes with the package, and ask it a few questions."""
    from stratarag import demo as world

    asked = world.showcase()
    with sr.build_index(
        world.documents(), path=path, llm=llm, embedder=embedder, progress=not output.as_json
    ) as index:
        answers = [(question, index.answer(question.question, 5)) for question in asked]
        output.show([{"question": q, "answer": a} for q, a in answers], lambda: _demo_lines(index, answers))


def _demo_lines(index: sr.Index, answers: Sequence[tuple[Any, sr.Answer]]) -> Iterator[str]:
    report = index.last_report
    if report is not None:
        yield from _report_lines(report, str(index.path))
    for question, answer in answers:
        yield ""
        yield click.style(question.question, bold=True)
        yield from _answer_lines(answer)
        found = {document for hit in answer.retrieval for document in hit.documents}
        gold = set(question.supporting_ids)
        yield f"   ({len(gold & found)} of the {len(gold)} documents that hold the answer are among the hits)"


def _report_lines(report: Any, path: str) -> Iterator[str]:
    usage = report.usage
    nodes = ", ".join(f"{name}: {count} nodes" for name, count in report.nodes.items())
    yield f"{report.operation}: {report.documents} documents, {report.chunks} chunks; {nodes}"
    yield (
        f"model calls: {usage.calls} ({usage.cached_calls} cached), "
        f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, {usage.seconds:.1f} s"
    )
    for label in ("updated", "deleted", "unchanged", "skipped"):
        names = getattr(report, label)
        if names:
            yield f"{label}: {len(names)} ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
    for failure in report.failures[:5]:
        yield f"failed: {failure.stage}: {failure.item}: {failure.reason}"
    yield f"index: {path} (generation {report.generation})"


def _answer_lines(answer: sr.Answer) -> Iterator[str]:
    yield from _hit_lines(answer.retrieval.hits)
    label = "answer (extractive: sentences of the sources)" if answer.extractive else "answer"
    yield f"   {label}: {answer.text}"
    for citation in answer.citations:
        yield f"   [{citation.number}] {', '.join(citation.documents[:6])}"


def _hit_lines(hits: Sequence[sr.Hit]) -> Iterator[str]:
    for rank, hit in enumerate(hits, 1):
        text = " ".join(hit.text.split())
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        names = ", ".join(hit.documents[:3]) + (", ..." if len(hit.documents) > 3 else "")
        yield f"{rank:2}. {hit.score:.3f} {hit.kind} (level {hit.level}) from {names}"
        yield f"    {shown}"


def _tree_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield f"{indent}{key}:"
            yield from _tree_lines(item, indent + "  ")
        else:
            yield f"{indent}{key}: {item}"

"""The command line: `stratagraph demo | estimate | build | insert | delete | regroup | query | stats | ...`.

Every command takes `--json` for machines. An error is one line on standard error and exit code 1
(2 for wrong usage, 3 if files were skipped or rows of an evaluation failed); `--debug` shows the traceback.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import stratagraph as sg
from stratagraph._cli.batching import batch
from stratagraph._cli.exporting import export
from stratagraph._cli.lines import answer_lines, demo_lines, hit_lines, tree_lines
from stratagraph._cli.loading import WrongOption, load_config, load_reranker, load_search_options, load_where
from stratagraph._cli.options import (
    budget,
    budget_options,
    cache_dir_option,
    cache_option,
    config_options,
    extraction_option,
    index_argument,
    inputs_argument,
    mapper_of,
    mapper_options,
    method_option,
    models_options,
    partial_option,
    read,
)
from stratagraph._cli.output import Output, command
from stratagraph._cli.serving import mcp, serve
from stratagraph._cli.updating import delete, insert, regroup, show_report
from stratagraph.methods import NAMES as METHODS
from stratagraph.models.prices import money
from stratagraph.question import LENGTHS, RANKS, Length, Rank

__all__ = ["command", "main", "models_options"]

LISTED = 5
"""Hits that are listed if no number is given."""


class Program(click.Group):
    """The commands. `eval` is imported when it is asked for, since it brings a second of imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return sorted([*super().list_commands(ctx), "eval"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name."""
        if cmd_name != "eval":
            return super().get_command(ctx, cmd_name)
        from stratagraph.eval.command import eval_command

        return eval_command(command, models_options)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sg.__version__, prog_name="stratagraph")
def main() -> None:
    """Graph RAG over a folder of texts: no key, no server, no network needed.

    INPUTS are files and folders: text, Markdown, CSV, JSON, .jsonl files with a document per line, and with
    the extra `files` PDF, DOCX, PPTX, XLSX and HTML. Exit code 3 tells that some were skipped.

    A document's id is its path as it was typed, joined with the path inside a folder: `build notes` makes
    notes/sub/b.txt, which `insert idx notes/sub/b.txt` updates and `delete idx notes/sub/b.txt` removes. A
    leading ./ is dropped, an absolute path stays absolute. In a .jsonl file a line's "id" counts, else it
    is file:line; a row of a table is file:id or file:row.
    """


main.add_command(batch)
main.add_command(export)
main.add_command(serve)
main.add_command(mcp)
main.add_command(insert)
main.add_command(delete)
main.add_command(regroup)


@main.command()
@inputs_argument
@method_option
@models_options
@config_options
@cache_option
@click.option("--price-in", type=click.FloatRange(0), help="Price of a million tokens in prompts.")
@click.option("--price-out", type=click.FloatRange(0), help="Price of a million tokens in answers.")
@command
def estimate(
    inputs: Sequence[str],
    methods: Sequence[str],
    llm: Any,
    embedder: Any,
    config: str | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
    concurrency: int | None,
    cache: str | None,
    price_in: float | None,
    price_out: float | None,
    output: Output,
) -> None:
    """What a build of INPUTS (files, folders, .jsonl) would cost, without a model call."""
    if (price_in is None) != (price_out is None):
        raise WrongOption("--price-in and --price-out go together: give both or none")
    found = sg.estimate(
        read(inputs, output, config, cache=cache),
        list(methods),
        llm=llm,
        embedder=embedder,
        config=load_config(config, chunk_size, chunk_overlap, concurrency),
        cache=cache,
        prices=None if price_in is None or price_out is None else sg.Prices(price_in, price_out),
    )
    output.show(found.to_dict(), lambda: iter(str(found).splitlines()), with_files=True)


@main.command()
@inputs_argument
@click.option("--out", "-o", "path", required=True, type=click.Path(), help="The index folder.")
@method_option
@models_options
@config_options
@budget_options
@cache_option
@extraction_option
@click.option("--shards", type=click.IntRange(1), help="Build so many indexes side by side, open as one.")
@click.option(
    "--shard-by", "by", metavar="KEY", help="Build one for each value of this key of the documents' metadata."
)
@mapper_options
@command
def build(
    inputs: Sequence[str],
    path: str,
    methods: Sequence[str],
    llm: Any,
    embedder: Any,
    config: str | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
    concurrency: int | None,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    extraction: str | None,
    shards: int | None,
    by: str | None,
    mapper: str | None,
    workers: int | None,
    output: Output,
) -> None:
    """Build an index of INPUTS (files, folders, .jsonl). The same command resumes a stopped build.

    A document's id is its path as typed, joined with the path inside a folder; see `stratagraph --help`.
    """
    output.resumes = True
    settings = load_config(config, chunk_size, chunk_overlap, concurrency)
    imported = None if extraction is None else sg.read_openie(extraction)
    if shards is not None and by is not None:
        raise WrongOption("--shards and --shard-by are two ways to do one thing: give one of them")
    spread: dict[str, Any] | None = None
    if shards is not None or by is not None:
        spread = {"shards": shards, "by": by}
    made: Callable[..., sg.Index] = (
        sg.build_index if spread is None else functools.partial(sg.build_shards, **spread)
    )
    where = mapper_of(mapper, workers)
    with made(
        read(inputs, output, path, config, extraction, cache=cache, mapper=where),
        method=list(methods),
        path=path,
        llm=llm,
        embedder=embedder,
        config=settings,
        budget=budget(max_calls, max_tokens),
        cache=cache,
        progress=not output.as_json,
        extraction=None if imported is None else imported.extractions,
        mapper=where,
    ) as index:
        show_report(index, imported, path, output)


@main.command()
@index_argument
@click.argument("question")
@click.option(
    "-k",
    "--k",
    type=click.IntRange(1),
    help=f"Number of hits; if not given, {LISTED} are listed, and an answer takes what suits it and lists "
    "those cited.",
)
@click.option(
    "--view",
    type=click.Choice(["nodes", "chunks"]),
    help="The method's own nodes, or passages only; if not given, passages for an extractive answer, else "
    "both, as measured best.",
)
@click.option("--method", help="The folder's first method if not given.")
@click.option("--where", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 1990}}\'.')
@click.option(
    "--decompose",
    type=click.Choice(["names", "questions"]),
    help="Ask the model (one call) for the names in the question, or for up to four simpler questions that "
    "are searched for as well (an embedding each).",
)
@click.option(
    "--rank",
    type=click.Choice(RANKS),
    default="walk",
    show_default=True,
    help="How passages are ranked: by the walk over the graph, or without it by words, by similarity, or by "
    "both fused; these find passages alone.",
)
@click.option(
    "--rerank",
    metavar="NAME",
    help="Let a model choose among four times as many hits: fastembed:NAME, flashrank:NAME, "
    "sentence-transformers:NAME or MODULE:NAME.",
)
@click.option(
    "--option",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A search option of the method, such as mode=per_level or levels=[0,1]. May be repeated.",
)
@click.option("--answer/--no-answer", default=True, show_default=True, help="Answer, or only list hits.")
@click.option(
    "--length",
    type=click.Choice(LENGTHS),
    help="How long the answer is; if not given, as suits the method (full for archrag and hirag).",
)
@click.option("--estimate", "only_estimate", is_flag=True, help="Tell what it would cost, and call nothing.")
@partial_option
@cache_dir_option
@models_options
@budget_options
@cache_option
@command
def query(
    index: str,
    question: str,
    k: int | None,
    view: str | None,
    method: str | None,
    where: str | None,
    decompose: str | None,
    rank: Rank,
    rerank: str | None,
    pairs: Sequence[str],
    answer: bool,
    length: Length | None,
    only_estimate: bool,
    partial: bool,
    cache_dir: str | None,
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    output: Output,
) -> None:
    """Ask INDEX a QUESTION: hits, and an answer with its sources."""
    options = load_search_options(pairs)
    options |= {"method": method, "where": load_where(where), "rank": rank}
    options |= {"decompose": decompose or False}
    options |= {} if rerank is None else {"rerank": load_reranker(rerank)}
    options |= {} if view is None else {"view": view}
    spend = budget(max_calls, max_tokens)
    with sg.open_index(
        index, llm, embedder, budget=spend, cache=cache, partial=partial, cache_dir=cache_dir
    ) as opened:
        if only_estimate:
            most = k or (None if answer else LISTED)
            cost = opened.estimate_question(question, most, answer=answer, length=length, **options)
            output.show(cost.to_dict(), lambda: iter(str(cost).splitlines()))
        elif answer:
            answered = opened.answer(question, k, length=length, **options)
            output.show(answered, lambda: answer_lines(answered, LISTED if k is None else None))
        else:
            found = opened.retrieve(question, k or LISTED, **options)
            output.show(found, lambda: hit_lines(found))


@main.command()
@index_argument
@partial_option
@command
def stats(index: str, partial: bool, output: Output) -> None:
    """What INDEX holds."""
    from stratagraph._gates import AnyEmbedder

    # Whatever embedder it was built with, no question is asked of it.
    with sg.open_index(index, embedder=AnyEmbedder(), partial=partial) as opened:
        found = opened.stats()
        spent = {**found["spent"], "cost": money(found["spent"]["cost"])}
        output.show(found, lambda: tree_lines({**found, "spent": spent}))


@main.command()
@index_argument
@command
def verify(index: str, output: Output) -> None:
    """Check every file of INDEX; exit code 1 if something is wrong."""
    from stratagraph._gates import AnyEmbedder
    from stratagraph._inspection import verify_folder
    from stratagraph.store.remote import is_url

    if is_url(index):
        with sg.open_index(index, embedder=AnyEmbedder()) as opened:
            problems = opened.verify()
    else:
        problems = verify_folder(Path(index))
    output.show({"problems": problems}, lambda: iter(problems or ["sound: every file is as it was written"]))
    if problems:
        sys.exit(1)


@main.command()
@click.option("--out", "-o", "path", type=click.Path(), help="Keep the index in this folder.")
@click.option("--serve", "in_browser", is_flag=True, help="Show the index in a browser afterwards.")
@models_options
@command
def demo(path: str | None, in_browser: bool, llm: Any, embedder: Any, output: Output) -> None:
    """Ask a corpus that comes along what plain vectors miss, and show the way that leads there."""
    from stratagraph import demo as world
    from stratagraph.demo.comparison import shown

    output.resumes = path is not None
    began = time.perf_counter()
    documents = world.documents()
    with sg.build_index(
        documents, list(METHODS), path=path, llm=llm, embedder=embedder, progress=not output.as_json
    ) as index:
        seconds = time.perf_counter() - began
        found = list(shown(index))
        kept = None if path is None else Path(path)
        output.show(found, lambda: demo_lines(len(documents), seconds, found, kept))
        if in_browser:
            click.get_current_context().invoke(
                serve, index=str(index.path), read_only=True, browse=True, llm=llm, embedder=embedder
            )

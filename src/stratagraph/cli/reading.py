"""The commands that read an index: `stratagraph query | export | list | stats | verify`; and `demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.lines import (
    answer_lines,
    demo_lines,
    document_lines,
    hit_lines,
    passage_lines,
    tree_lines,
)
from stratagraph.cli.options import (
    WrongOption,
    cache_dir_option,
    embedder_option,
    index_argument,
    load_search_options,
    models_options,
    open_options,
    partial_option,
)
from stratagraph.cli.output import Output, command
from stratagraph.cli.serving import serve
from stratagraph.export import FORMATS
from stratagraph.methods import NAMES as METHODS
from stratagraph.models.budget import money
from stratagraph.operations.gates import AnyEmbedder
from stratagraph.types.question import GUIDED, LENGTHS, RANKS, VIEWS, Guided, Length

PAGE = 500  # documents that are read at a time
LISTED = 5
PASSAGES, PASSAGE_TOKENS = 10, 1500
"""Default number of listed hits."""


@click.command()
@index_argument
@click.argument("question")
@click.option(
    "-k",
    "--k",
    type=click.IntRange(1),
    help=f"Number of hits. Default: {LISTED}; for an answer, the method's default.",
)
@click.option(
    "--method", help="How to search: a method of the index, or walk. Default: the first method, or walk."
)
@click.option("--view", type=click.Choice(VIEWS), help="Search by the walk, whatever the method.")
@click.option("--no-fill", is_flag=True, help="The method's own results, without passages of the walk.")
@click.option("--where", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 1990}}\'.')
@click.option("--decompose", is_flag=True, help="Ask the model (one call) for the names in the question.")
@click.option(
    "--rank",
    type=click.Choice(RANKS),
    default="walk",
    show_default=True,
    help="How the walk ranks passages, or what takes its place: words, similarity, or both fused.",
)
@click.option(
    "--rerank",
    metavar="NAME",
    help="Reorder four times as many hits by a model: fastembed:NAME, flashrank:NAME, "
    "sentence-transformers:NAME or MODULE:NAME.",
)
@click.option(
    "--min-score",
    type=click.FloatRange(-1, 1),
    help="Leave out hits whose embedding has a lower cosine with the question.",
)
@click.option(
    "--as-of", metavar="DATE", help="Only what was there by this date: 2024-06-30, 2024-06 or 2024."
)
@click.option(
    "--recency",
    type=click.FloatRange(0, min_open=True),
    metavar="DAYS",
    help="Prefer newer hits: one that is so many days older needs twice the score.",
)
@click.option(
    "--guided/--no-guided",
    default=None,
    help="Let the model choose the hits that are needed together, or spread the search for an overview. "
    "Default: for answers, if there is a model.",
)
@click.option(
    "--guided-as",
    type=click.Choice([each for each in GUIDED if isinstance(each, str)]),
    help="Guided, and which of the two the question asks for. Default: the model decides.",
)
@click.option("--guided-steps", type=click.IntRange(1), help="Searches of a guided question. Default: 2.")
@click.option(
    "--option",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A search option of the method, such as mode=per_level or levels=[0,1]. May be repeated.",
)
@click.option(
    "--answer/--no-answer", default=True, show_default=True, help="Write an answer, or only list hits."
)
@click.option("--length", type=click.Choice(LENGTHS), help="Length of the answer. Default: brief.")
@click.option(
    "--passages", is_flag=True, help="Print numbered passages, whole, and nothing else: for agents."
)
@click.option(
    "--passage-tokens",
    type=click.IntRange(1),
    default=PASSAGE_TOKENS,
    show_default=True,
    help="With --passages: tokens of what is printed, at most.",
)
@click.option("--estimate", "only_estimate", is_flag=True, help="Only estimate the cost.")
@partial_option
@cache_dir_option
@open_options
@command
def query(
    index: str,
    question: str,
    k: int | None,
    no_fill: bool,
    guided_as: Guided | None,
    pairs: Sequence[str],
    answer: bool,
    length: Length | None,
    passages: bool,
    passage_tokens: int,
    only_estimate: bool,
    partial: bool,
    cache_dir: str | None,
    models: dict[str, Any],
    output: Output,
    **given: Any,
) -> None:
    """Ask INDEX a QUESTION and print hits and an answer with citations, or passages alone."""
    if guided_as is not None:
        if given["guided"] is False:
            raise WrongOption("--no-guided and --guided-as contradict each other: give one of them")
        given["guided"] = guided_as
    if passages and given["method"] is None:
        given["view"] = "chunks"
    options = {name: value for name, value in given.items() if value is not None}
    options |= load_search_options(pairs) | ({"fill": False} if no_fill else {})
    with sg.open_index(index, **models, partial=partial, cache_dir=cache_dir) as opened:
        if only_estimate:
            most = k or (None if answer else LISTED)
            cost = opened.estimate_question(question, most, answer=answer, length=length, **options)
            output.show(cost.to_dict(), str(cost).splitlines)
        elif answer and not passages:
            answered = opened.answer(question, k, length=length, **options)
            listed = LISTED if k is None else None
            output.show(answered, lambda: answer_lines(answered, listed, opened.methods))
        else:
            retrieval = opened.retrieve(question, k or (PASSAGES if passages else LISTED), **options)
            output.show(
                retrieval,
                lambda: (
                    passage_lines(retrieval, passage_tokens)
                    if passages
                    else hit_lines(retrieval, opened.methods)
                ),
            )


@click.command()
@index_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), default="jsonl", show_default=True)
@click.option("--html", is_flag=True, help="Same as --format html.")
@click.argument("target", required=False, type=click.Path())
@click.option("--out", "-o", "path", type=click.Path(), help="Same as TARGET.")
@click.option("--method", help="Method whose nodes to include. Default: all (html: the first).")
@click.option("--where", metavar="JSON", help="With markdown: only passages that this filter admits.")
@click.option("--overwrite", is_flag=True, help="With markdown: replace pages that were edited by hand.")
@click.option("--question", help="With html: draw the graph around this question.")
@click.option(
    "-k", "--k", default=10, show_default=True, type=click.IntRange(1), help="Number of hits for --question."
)
@embedder_option
@command
def export(
    index: str,
    kind: str,
    html: bool,
    target: str | None,
    path: str | None,
    method: str | None,
    where: Any,
    overwrite: bool,
    question: str | None,
    k: int,
    embedder: Any,
    output: Output,
) -> None:
    """Write INDEX to TARGET, for other tools or a browser: a file; for parquet, neo4j and markdown a folder.

    jsonl holds everything; `sg.read_extraction` reads the extraction back. markdown is a wiki; the same
    command again brings it to what the index holds. An html page works offline.
    """
    if (target is None) == (path is None):
        raise WrongOption("say once where to write: TARGET or --out")
    kind, to = "html" if html else kind, target or path or ""
    if question is not None and kind != "html":
        raise WrongOption(f"--question draws a page: it goes with --format html, not {kind}")
    # Without a question, none is asked of the embedder, whatever the index was built with.
    with sg.open_index(index, embedder=embedder if question is not None else AnyEmbedder()) as opened:
        if question is None:
            written = opened.export(to, kind, method=method, where=where, overwrite=overwrite)
        else:
            written = opened.retrieve(question, k, method=method).show().save(to)
    files = written.rglob("*") if written.is_dir() else [written]
    size = sum(each.stat().st_size for each in files if each.is_file())
    result = {"path": str(written), "format": kind, "bytes": size}
    output.show(result, lambda: [f"written: {written} ({kind}, {size:,} bytes)"])


@click.command()
def skill() -> None:
    """Print SKILL.md, which tells an agent with a shell how to search an index."""
    click.echo(Path(__file__).with_name("SKILL.md").read_text("utf-8"), nl=False)


@click.command("list")
@index_argument
@click.argument("glob", required=False)
@partial_option
@command
def list_(index: str, glob: str | None, partial: bool, output: Output) -> None:
    """List the documents of INDEX: id, file, title, number of chunks.

    GLOB is an id, a file, a folder, or a glob of these; `*` also matches slashes.
    """
    with sg.open_index(index, embedder=AnyEmbedder(), partial=partial) as opened:
        files, chosen = opened.files(), None if glob is None else opened.documents(glob)
        documents = [
            {
                "id": each.id,
                "source": files.get(each.id) or each.metadata.get("source"),
                "title": each.metadata.get("title"),
                "chunks": each.members,
            }
            for start in range(0, opened.stats()["documents"], PAGE)
            for each in opened.browse("documents", offset=start, limit=PAGE).items
            if chosen is None or each.id in chosen
        ]
        output.show(documents, lambda: document_lines(documents))


@click.command()
@index_argument
@partial_option
@command
def stats(index: str, partial: bool, output: Output) -> None:
    """Print what INDEX holds and what it cost."""
    # Whatever embedder it was built with, no question is asked of it.
    with sg.open_index(index, embedder=AnyEmbedder(), partial=partial) as opened:
        numbers = opened.stats()
        spent = {**numbers["spent"], "cost": money(numbers["spent"]["cost"])}
        output.show(numbers, lambda: tree_lines({**numbers, "spent": spent}))


@click.command()
@index_argument
@command
def verify(index: str, output: Output) -> None:
    """Check every file of INDEX. Exit code 1 means that something is wrong."""
    from stratagraph.operations.inspection import verify_folder
    from stratagraph.store.remote import is_url

    if is_url(index):
        with sg.open_index(index, embedder=AnyEmbedder()) as opened:
            problems = opened.verify()
    else:
        problems = verify_folder(Path(index))
    output.show({"problems": problems}, lambda: problems or ["sound: every file is as it was written"])
    if problems:
        sys.exit(1)


@click.command()
@click.option("--out", "-o", "path", type=click.Path(), help="Keep the index in this folder.")
@click.option("--serve", "in_browser", is_flag=True, help="Serve the index as a web page afterwards.")
@models_options
@command
def demo(path: str | None, in_browser: bool, models: dict[str, Any], output: Output) -> None:
    """Index the built-in corpus and show answers that plain vectors miss, with the way to them."""
    from stratagraph import demo as world
    from stratagraph.demo.comparison import DemoResult, own_nodes, shown

    output.resumes = path is not None
    documents = world.documents()
    began = time.perf_counter()
    with sg.build_index(documents, path=path, progress=not output.as_json, **models) as index:
        walk = time.perf_counter() - began
        left_out: dict[str, str] = {}
        for method in METHODS:
            try:
                index.add_method(method)
            except sg.errors.MissingExtra as error:
                left_out[method] = error.install
        methods = time.perf_counter() - began - walk
        asked = next(each.question for each in world.questions() if each.type == "theme")
        own = tuple(own_nodes(index, asked))
        result = DemoResult(len(documents), walk, methods, tuple(shown(index)), asked, own, left_out)
        output.show(result, lambda: demo_lines(result, None if path is None else Path(path)))
        if in_browser:
            serving = {"index": str(index.path), "read_only": True, "browse": True}
            click.get_current_context().invoke(serve, **serving, **models)

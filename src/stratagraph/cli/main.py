"""The command line: `stratagraph demo | estimate | build | insert | delete | query | stats | ...`.

Every command has `--json`. An error is one line on standard error and exit code 1 (2 for wrong usage, 3 if
files were skipped or rows of an evaluation failed); `--debug` shows the traceback.
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
from stratagraph.cli.batching import batch
from stratagraph.cli.exporting import export
from stratagraph.cli.lines import answer_lines, demo_lines, document_lines, hit_lines, tree_lines
from stratagraph.cli.loading import WrongOption, load_reranker, load_search_options, load_where
from stratagraph.cli.options import (
    cache_dir_option,
    cache_option,
    config_options,
    extraction_option,
    index_argument,
    inputs_argument,
    mapper_options,
    method_option,
    models_options,
    open_options,
    partial_option,
    read,
)
from stratagraph.cli.output import Output, command
from stratagraph.cli.serving import mcp, serve
from stratagraph.cli.updating import compact, delete, insert, reembed, regroup, show_report, sync
from stratagraph.config import as_config
from stratagraph.errors import SettingsConflict
from stratagraph.methods import NAMES as METHODS
from stratagraph.models.budget import money
from stratagraph.types.protocols import Mapper
from stratagraph.types.question import GUIDED, LENGTHS, RANKS, VIEWS, Guided, Length, Rank, View

__all__ = ["command", "main", "models_options"]

PAGE = 500  # documents that are read at a time
LISTED = 5
"""Default number of listed hits."""


class Program(click.Group):
    """The commands. `eval` is imported on use, because that takes a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), "eval"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        if cmd_name != "eval":
            return super().get_command(ctx, cmd_name)
        from stratagraph.eval.command import eval_command

        return eval_command(command, models_options)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sg.__version__, prog_name="stratagraph")
def main() -> None:
    """Graph RAG over a folder of texts. Needs no key, server or network.

    INPUTS are files and folders: text, Markdown, CSV, JSON, .jsonl files with one document per line, and with
    the extra `files` PDF, DOCX, PPTX, XLSX, HTML and EPUB. Exit code 3 means that some could not be read.

    A document's id is its path as typed, joined with the path inside a folder. `build notes` makes the id
    notes/sub/b.txt, which `insert idx notes/sub/b.txt` updates and `delete idx notes/sub/b.txt` deletes. A
    leading ./ is dropped; absolute paths stay absolute. A line of a .jsonl file has its "id"; a row of a
    table is file:id, or file: and a hash of the row. A file owns its rows: reading it again deletes those
    that it has no more.
    """


for each in (batch, export, serve, mcp, insert, sync, delete, regroup, compact, reembed):
    main.add_command(each)


@main.command()
@inputs_argument
@method_option
@models_options
@config_options
@cache_option
@click.option("--price-in", type=click.FloatRange(0), help="Price of a million input tokens.")
@click.option("--price-out", type=click.FloatRange(0), help="Price of a million output tokens.")
@command
def estimate(
    inputs: Sequence[str],
    methods: Sequence[str],
    llm: Any,
    embedder: Any,
    settings: dict[str, Any] | None,
    cache: str | None,
    price_in: float | None,
    price_out: float | None,
    output: Output,
) -> None:
    """Estimate the cost of building an index of INPUTS, without calling a model."""
    if (price_in is None) != (price_out is None):
        raise WrongOption("--price-in and --price-out go together: give both or none")
    bill = sg.estimate(
        read(inputs, output),
        list(methods) or None,
        llm=llm,
        embedder=embedder,
        config=settings,
        cache=cache,
        prices=None if price_in is None or price_out is None else sg.Prices(price_in, price_out),
    )
    output.show(bill.to_dict(), lambda: iter(str(bill).splitlines()), with_files=True)


@main.command()
@inputs_argument
@click.option("--out", "-o", "path", required=True, type=click.Path(), help="The index folder.")
@method_option
@open_options
@config_options
@extraction_option
@click.option("--shards", type=click.IntRange(1), help="Number of shards to build, which open as one index.")
@click.option("--shard-by", "by", metavar="KEY", help="Build one shard per value of this metadata key.")
@mapper_options
@click.option("--prune", is_flag=True, help="Delete documents of the index that INPUTS have not.")
@click.option("--rebuild", is_flag=True, help="Build the index in the folder anew, of INPUTS alone.")
@command
def build(
    inputs: Sequence[str],
    path: str,
    methods: Sequence[str],
    models: dict[str, Any],
    settings: dict[str, Any] | None,
    imported: sg.Imported | None,
    shards: int | None,
    by: str | None,
    mapper: Mapper | None,
    prune: bool,
    rebuild: bool,
    output: Output,
) -> None:
    """Build an index of INPUTS. The same command resumes a stopped build.

    An index that is in the folder is brought to INPUTS: new documents are added, changed ones updated, and
    methods that it lacks are built. Its other documents stay, unless --prune is given. Other settings or
    another embedder need --rebuild.

    A document's id is its path as typed, joined with the path inside a folder; see `stratagraph --help`.
    """
    output.resumes = True
    if shards is not None and by is not None:
        raise WrongOption("--shards and --shard-by are two ways to do one thing: give one of them")
    made: Callable[..., sg.Index] = functools.partial(sg.build_index, rebuild=rebuild)
    if shards is not None or by is not None:
        if rebuild:
            raise WrongOption("--rebuild is for one index: build shards anew in another folder")
        made = functools.partial(sg.build_shards, shards=shards, by=by)
    given = {"method": list(methods) or None, "config": settings}
    try:
        index = made(
            read(inputs, output, path, mapper),
            path=path,
            **given,
            **models,
            progress=not output.as_json,
            extraction=None if imported is None else imported.extractions,
            mapper=mapper,
            prune=prune,
        )
    except SettingsConflict as conflict:
        advice = "give another folder with --out"
        if shards is None and by is None:
            cost = _cost_of_rebuild(read(inputs, output, path, mapper), path, models, **given)
            advice = f"add --rebuild to build it anew of these inputs alone ({cost})"
        raise type(conflict)(
            f"{path} holds an index with other settings: {'; '.join(conflict.differences)}. Leave these "
            f"options out to keep its settings, or {advice}"
        ) from conflict
    with index:
        show_report(index, imported, path, output)


def _cost_of_rebuild(documents: Any, path: str, models: dict[str, Any], method: Any, config: Any) -> str:
    """The estimate of a build over the index in a folder, whose answers of models are reused."""
    from stratagraph.operations.gates import AnyEmbedder

    if models["llm"] is None:
        return "no model is called, all texts are embedded again"
    with sg.open_index(path, embedder=AnyEmbedder()) as index:
        bill = sg.estimate(
            documents,
            [*(method or ()), *index.methods],
            llm=models["llm"],
            config=as_config(config, index._config),
            cache=models["cache"] or Path(path) / "calls.sqlite",
        )
    used = bill.usage
    tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out"
    return (
        f"about {used.calls:,} model calls, {used.cached_calls:,} cached, {tokens}, cost: {money(bill.cost)}"
    )


@main.command()
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
@click.option(
    "--decompose",
    type=click.Choice(["names"]),
    help="Ask the model (one call) for the names in the question.",
)
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
    "--guided/--no-guided",
    default=None,
    help="Let the model choose the hits that are needed together, or spread the search for an overview. "
    "Default: for answers of the walk, if there is a model.",
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
@click.option(
    "--length",
    type=click.Choice(LENGTHS),
    help="Length of the answer. Default: brief.",
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
    method: str | None,
    view: View | None,
    no_fill: bool,
    where: str | None,
    decompose: str | None,
    rank: Rank,
    rerank: str | None,
    min_score: float | None,
    guided: bool | None,
    guided_as: Guided | None,
    guided_steps: int | None,
    pairs: Sequence[str],
    answer: bool,
    length: Length | None,
    only_estimate: bool,
    partial: bool,
    cache_dir: str | None,
    models: dict[str, Any],
    output: Output,
) -> None:
    """Ask INDEX a QUESTION and print hits and an answer with citations."""
    options = load_search_options(pairs)
    options |= {"method": method, "where": load_where(where), "rank": rank, "decompose": decompose or False}
    options |= {"min_score": min_score} | ({} if rerank is None else {"rerank": load_reranker(rerank)})
    options |= {} if view is None else {"view": view}
    options |= {"fill": False} if no_fill else {}
    if guided_as is not None and guided is False:
        raise WrongOption("--no-guided and --guided-as contradict each other: give one of them")
    guiding = {"guided": guided if guided_as is None else guided_as, "guided_steps": guided_steps}
    options |= {name: value for name, value in guiding.items() if value is not None}
    with sg.open_index(index, **models, partial=partial, cache_dir=cache_dir) as opened:
        if only_estimate:
            most = k or (None if answer else LISTED)
            cost = opened.estimate_question(question, most, answer=answer, length=length, **options)
            output.show(cost.to_dict(), lambda: iter(str(cost).splitlines()))
        elif answer:
            answered = opened.answer(question, k, length=length, **options)
            listed = LISTED if k is None else None
            output.show(answered, lambda: answer_lines(answered, listed, opened.methods))
        else:
            retrieval = opened.retrieve(question, k or LISTED, **options)
            output.show(retrieval, lambda: hit_lines(retrieval, opened.methods))


@main.command("list")
@index_argument
@click.argument("glob", required=False)
@partial_option
@command
def list_(index: str, glob: str | None, partial: bool, output: Output) -> None:
    """List the documents of INDEX: id, file, title, number of chunks.

    GLOB is an id, a file, a folder, or a glob of these; `*` also matches slashes.
    """
    from stratagraph.operations.gates import AnyEmbedder

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


@main.command()
@index_argument
@partial_option
@command
def stats(index: str, partial: bool, output: Output) -> None:
    """Print what INDEX holds and what it cost."""
    from stratagraph.operations.gates import AnyEmbedder

    # Whatever embedder it was built with, no question is asked of it.
    with sg.open_index(index, embedder=AnyEmbedder(), partial=partial) as opened:
        numbers = opened.stats()
        spent = {**numbers["spent"], "cost": money(numbers["spent"]["cost"])}
        output.show(numbers, lambda: tree_lines({**numbers, "spent": spent}))


@main.command()
@index_argument
@command
def verify(index: str, output: Output) -> None:
    """Check every file of INDEX. Exit code 1 means that something is wrong."""
    from stratagraph.operations.gates import AnyEmbedder
    from stratagraph.operations.inspection import verify_folder
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
@click.option("--serve", "in_browser", is_flag=True, help="Serve the index as a web page afterwards.")
@models_options
@command
def demo(path: str | None, in_browser: bool, llm: Any, embedder: Any, output: Output) -> None:
    """Index the built-in corpus and show answers that plain vectors miss, with the way to them."""
    from stratagraph import demo as world
    from stratagraph.demo.comparison import Told, own_nodes, shown

    output.resumes = path is not None
    documents = world.documents()
    given: dict[str, Any] = {"llm": llm, "embedder": embedder, "progress": not output.as_json}
    began = time.perf_counter()
    with sg.build_index(documents, path=path, **given) as index:
        walk = time.perf_counter() - began
        for method in METHODS:
            index.add_method(method)
        methods = time.perf_counter() - began - walk
        asked = next(each.question for each in world.questions() if each.type == "theme")
        own = tuple(own_nodes(index, asked))
        told = Told(len(documents), walk, methods, tuple(shown(index)), asked, own)
        output.show(told, lambda: demo_lines(told, None if path is None else Path(path)))
        if in_browser:
            click.get_current_context().invoke(
                serve, index=str(index.path), read_only=True, browse=True, llm=llm, embedder=embedder
            )

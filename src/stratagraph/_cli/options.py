"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

import stratagraph as sg
from stratagraph._cli.loading import WrongOption
from stratagraph._cli.output import Output
from stratagraph.protocols import Mapper

Function = Callable[..., None]

_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")


def inputs_argument(function: Function) -> Function:
    """INPUTS, and `--strict`, which `Output` obeys."""
    strict = click.option("--strict", is_flag=True, help="Stop if a file cannot be read, and change nothing.")
    return click.argument("inputs", nargs=-1, required=True, type=click.Path())(strict(function))


partial_option = click.option(
    "--partial", is_flag=True, help="Of shards, take those that are there where one is missing."
)
index_argument = click.argument("index", type=click.Path())
cache_dir_option = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False),
    help="Keep here what was fetched of an INDEX that is a URL, for the next time.",
)
method_option = click.option(
    "--method",
    "methods",
    multiple=True,
    default=("lshtree",),
    show_default=True,
    callback=lambda _context, _option, given: tuple(
        name.strip() for each in given for name in each.split(",")
    ),
    help="Several with commas, or repeated.",
)
cache_option = click.option(
    "--cache", type=click.Path(dir_okay=False), help="A file of model calls shared among indexes."
)
extraction_option = click.option(
    "--extraction",
    type=click.Path(dir_okay=False),
    help="Entities and triples that exist already (OpenIE JSON lines), by document id.",
)
llm_option = click.option(
    "--llm",
    metavar="NAME",
    help="Chat model: openai:NAME, openai:NAME@URL, ollama:NAME or MODULE:NAME; without one, LLM-free.",
)
embedder_option = click.option(
    "--embedder",
    metavar="NAME",
    help="Embedder: minilm, hashing, openai:NAME, ollama:NAME or MODULE:NAME; if not given, that of the "
    "index or the local default.",
)


def models_options(function: Function) -> Function:
    """`--llm` and `--embedder`, each a name that the core knows, or the import path of an object."""
    return llm_option(embedder_option(function))


def budget_options(function: Function) -> Function:
    """`--max-calls` and `--max-tokens`."""
    calls = click.option("--max-calls", type=click.IntRange(1), help="Stop before more model calls.")
    tokens = click.option("--max-tokens", type=click.IntRange(1), help="Stop before more tokens.")
    return calls(tokens(function))


def mapper_options(function: Function) -> Function:
    """`--mapper` and `--workers`."""
    kind = click.option(
        "--mapper",
        metavar="NAME",
        help="Where the stages run that need no paid model: threads, processes, ray or ray@ADDRESS.",
    )
    workers = click.option("--workers", type=int, help="How many threads, processes or workers of Ray.")
    return kind(workers(function))


def mapper_of(kind: str | None, workers: int | None) -> Mapper | None:
    """The mapper that the options name."""
    if kind is None and workers is not None:
        raise WrongOption("--workers goes with --mapper, as in --mapper processes --workers 4")
    return None if kind is None else sg.mapper(kind, workers)


def config_options(function: Function) -> Function:
    """`--config`, and the settings that are changed most."""
    options = (
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False),
            help='A JSON file of settings: {"chunking": {...}, "limits": {...}, "lshtree": {...}}.',
        ),
        click.option("--chunk-size", type=click.IntRange(1), help="Tokens of a chunk, at most."),
        click.option("--chunk-overlap", type=click.IntRange(0), help="Tokens that a chunk repeats."),
        click.option("--concurrency", type=click.IntRange(1), help="Model calls at the same time."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def budget(calls: int | None, tokens: int | None) -> sg.Budget | None:
    """The budget that the options say."""
    return None if calls is None and tokens is None else sg.Budget(calls=calls, tokens=tokens)


def read(
    inputs: Sequence[str],
    output: Output,
    *own: str | None,
    cache: str | None = None,
    mapper: Mapper | None = None,
) -> Any:
    """The documents of the inputs, without the command's `own` files and folders that may lie among them."""
    named = [path for path in own if path is not None]
    if cache is not None:
        named += [cache + suffix for suffix in _BESIDE_SQLITE]
    listeners = {"on_skip": output.skip, "on_warning": output.warn}
    return sg.read_documents(inputs, exclude=named, mapper=mapper, **listeners)

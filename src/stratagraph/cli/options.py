"""Options and arguments shared by several commands; `command` loads their values."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.output import Output
from stratagraph.types.protocols import Mapper

Function = Callable[..., None]


def files_options(function: Function) -> Function:
    """`--include`, `--exclude` and `--strict`, which `Output` keeps."""
    options = (
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="In folders read only these files, also ones left out by default; may be repeated.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="GLOB",
            help="In folders leave out these files and folders; may be repeated.",
        ),
        click.option("--strict", is_flag=True, help="Fail without changes if a file cannot be read."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def inputs_argument(function: Function) -> Function:
    """INPUTS, and which of their files to read."""
    return click.argument("inputs", nargs=-1, required=True, type=click.Path())(files_options(function))


partial_option = click.option("--partial", is_flag=True, help="Open shards even if some are missing.")
index_argument = click.argument("index", type=click.Path())
cache_dir_option = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False),
    help="Folder in which to keep the files of an INDEX behind a URL.",
)
method_option = click.option(
    "--method",
    "methods",
    multiple=True,
    callback=lambda _context, _option, given: tuple(
        name.strip() for each in given for name in each.split(",")
    ),
    help="A method, or several separated by commas; may be repeated. Default: those of the index "
    "that is there; a new one is searched by the walk, which needs none.",
)
cache_option = click.option(
    "--cache", type=click.Path(dir_okay=False), help="File of model answers to share among indexes."
)
extraction_option = click.option(
    "--extraction",
    "openie",
    type=click.Path(dir_okay=False),
    help="Existing entities and triples by document id (OpenIE JSON lines).",
)
llm_option = click.option(
    "--llm",
    metavar="NAME",
    help="Chat model: openai:NAME, openai:NAME@URL, ollama:NAME or MODULE:NAME. Default: no model.",
)
embedder_option = click.option(
    "--embedder",
    metavar="NAME",
    help="Embedder: minilm, hashing, openai:NAME, ollama:NAME or MODULE:NAME. Default: that of the index, or "
    "the local default.",
)


def models_options(function: Function) -> Function:
    """`--llm` and `--embedder`."""
    return llm_option(embedder_option(function))


def open_options(function: Function) -> Function:
    """Models, budget and cache, which a command receives as `models`: arguments of `open_index`."""
    calls = click.option("--max-calls", type=click.IntRange(1), help="Maximum number of model calls.")
    tokens = click.option("--max-tokens", type=click.IntRange(1), help="Maximum number of tokens.")
    return models_options(calls(tokens(cache_option(function))))


def mapper_options(function: Function) -> Function:
    """`--mapper` and `--workers`, which a command receives as `mapper`."""
    kind = click.option(
        "--mapper",
        metavar="NAME",
        help="Runs the work that needs no paid model: threads, processes, ray or ray@ADDRESS.",
    )
    workers = click.option("--workers", type=int, help="Number of threads, processes or Ray workers.")
    return kind(workers(function))


def config_options(function: Function) -> Function:
    """`--config` and common settings, which a command receives as `settings`."""
    options = (
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False),
            help='JSON file of settings: {"chunking": {...}, "limits": {...}, "lshtree": {...}}.',
        ),
        click.option("--chunk-size", type=click.IntRange(1), help="Maximum number of tokens in a chunk."),
        click.option(
            "--chunk-overlap", type=click.IntRange(0), help="Tokens shared with the previous chunk."
        ),
        click.option(
            "--concurrency", type=click.IntRange(1), help="Maximum number of concurrent model calls."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read(inputs: Sequence[str], output: Output, path: str | None = None, mapper: Mapper | None = None) -> Any:
    """The documents of INPUTS, without the command's own files that may lie among them."""
    own = [*output.own_files, *([] if path is None else [path])]
    output.documents = sg.read_documents(
        inputs,
        include=output.include,
        exclude=[*output.exclude, *(glob.escape(os.path.realpath(each)) for each in own)],
        mapper=mapper,
        on_skip=output.skip,
        on_warning=output.warn,
    )
    return output.documents

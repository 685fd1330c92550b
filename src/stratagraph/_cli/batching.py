"""`stratagraph batch write | read`: builds whose model answers in batch files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

import stratagraph as sg
from stratagraph._cli.loading import WrongOption, load_config
from stratagraph._cli.options import (
    cache_option,
    config_options,
    extraction_option,
    index_argument,
    inputs_argument,
    models_options,
    read,
)
from stratagraph._cli.output import Output, command

_OUT = click.option(
    "--out",
    "-o",
    "requests",
    default="requests.jsonl",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The file to write. What is too much for one goes to others beside it.",
)


@click.group()
def batch() -> None:
    """Build or insert through batch files in OpenAI's format, at half the price where there is a batch API.

    `write` writes what is to be asked first, `read` takes in the results and writes what is to be asked next;
    when nothing is left to ask, it builds the index. Nothing is sent to the chat model.
    """


@batch.command("write")
@index_argument
@inputs_argument
@_OUT
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="May be repeated. If not given: lshtree, or those of the index.",
)
@models_options
@config_options
@cache_option
@extraction_option
@command
def write_(
    index: str,
    inputs: Sequence[str],
    requests: str,
    methods: Sequence[str],
    llm: Any,
    embedder: Any,
    config: str | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
    concurrency: int | None,
    cache: str | None,
    extraction: str | None,
    output: Output,
) -> None:
    """Write what a build of INPUTS in INDEX has to ask first; over an index, what an insert has to."""
    if llm is None:
        raise WrongOption("--llm is needed: whom do the requests ask? As in --llm openai:gpt-4o-mini")
    output.resumes = True
    imported = None if extraction is None else sg.read_openie(extraction)
    pending = sg.batch.write(
        read(inputs, output, index, config, extraction, requests, cache=cache),
        requests,
        path=index,
        llm=llm,
        method=list(methods) or None,
        embedder=embedder,
        config=load_config(config, chunk_size, chunk_overlap, concurrency),
        cache=cache,
        extraction=None if imported is None else imported.extractions,
    )
    output.show(pending, lambda: iter(str(pending).splitlines()), with_files=True)


@batch.command("read")
@index_argument
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@_OUT
@models_options
@cache_option
@command
def read_(
    index: str,
    results: Sequence[str],
    requests: str,
    llm: Any,
    embedder: Any,
    cache: str | None,
    output: Output,
) -> None:
    """Take RESULTS into INDEX, and write what is to be asked next; or build the index if nothing is."""
    output.resumes = True
    pending = sg.batch.read(results, requests, path=index, llm=llm, embedder=embedder, cache=cache)
    output.show(pending, lambda: iter(str(pending).splitlines()))

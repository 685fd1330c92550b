"""`stratagraph batch write | read`: builds whose model answers in batch files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.loading import WrongOption
from stratagraph.cli.options import (
    cache_option,
    config_options,
    extraction_option,
    index_argument,
    inputs_argument,
    models_options,
    read,
)
from stratagraph.cli.output import Output, command

_OUT = click.option(
    "--out",
    "-o",
    "requests",
    default="requests.jsonl",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The file to write; large batches are split over several files.",
)


@click.group()
def batch() -> None:
    """Build or insert with batch files in OpenAI's format, which providers answer at half the price.

    `write` writes the first requests. `read` reads the results and writes the next requests, or
    builds the index if there are none. Nothing is sent to the chat model.
    """


@batch.command("write")
@index_argument
@inputs_argument
@_OUT
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="A method; may be repeated. Default: the methods of the index.",
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
    settings: dict[str, Any] | None,
    cache: str | None,
    imported: sg.Imported | None,
    output: Output,
) -> None:
    """Write the first requests of building INDEX from INPUTS, or of inserting them if it exists."""
    if llm is None:
        raise WrongOption("--llm is needed to write requests, as in --llm openai:gpt-4o-mini")
    output.resumes = True
    output.own_files.append(requests)
    pending = sg.batch.write(
        read(inputs, output, index),
        requests,
        path=index,
        llm=llm,
        method=list(methods) or None,
        embedder=embedder,
        config=settings,
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
    """Read RESULTS into INDEX and write the next requests, or build the index if there are none."""
    output.resumes = True
    pending = sg.batch.read(results, requests, path=index, llm=llm, embedder=embedder, cache=cache)
    output.show(pending, lambda: iter(str(pending).splitlines()))

"""`stratagraph insert | delete | regroup`: what changes an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

import stratagraph as sg
from stratagraph._cli.lines import report_lines
from stratagraph._cli.options import (
    budget,
    budget_options,
    cache_option,
    extraction_option,
    index_argument,
    inputs_argument,
    mapper_of,
    mapper_options,
    models_options,
    read,
)
from stratagraph._cli.output import Output, command


def show_report(index: sg.Index, imported: sg.Imported | None, path: str, output: Output) -> None:
    """Show what the last operation did, and what an import brought."""
    report = index.last_report
    assert report is not None
    if imported is not None:
        report = replace(report, notes=Counter(imported.notes) + Counter(report.notes))
    output.show(report, lambda: report_lines(report, path), with_files=True)


@click.command()
@index_argument
@inputs_argument
@models_options
@budget_options
@cache_option
@extraction_option
@click.option("--spacy", metavar="NAME", help="Agree to load the spaCy pipeline that INDEX was built with.")
@mapper_options
@command
def insert(
    index: str,
    inputs: Sequence[str],
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    extraction: str | None,
    spacy: str | None,
    mapper: str | None,
    workers: int | None,
    output: Output,
) -> None:
    """Add INPUTS to INDEX; documents whose id is there already are updated.

    A document's id is its path as typed, joined with the path inside a folder; see `stratagraph --help`.
    """
    output.resumes = True
    imported = None if extraction is None else sg.read_openie(extraction)
    spend, where = budget(max_calls, max_tokens), mapper_of(mapper, workers)
    with sg.open_index(
        index,
        llm,
        embedder,
        budget=spend,
        cache=cache,
        progress=not output.as_json,
        spacy=spacy,
        mapper=where,
    ) as opened:
        documents = read(inputs, output, index, extraction, cache=cache, mapper=where)
        opened.insert(documents, extraction=None if imported is None else imported.extractions)
        show_report(opened, imported, index, output)


@click.command()
@index_argument
@click.argument("ids", nargs=-1, required=True)
@click.option("--missing-ok", is_flag=True, help="Ignore ids that are not there.")
@models_options
@budget_options
@cache_option
@command
def delete(
    index: str,
    ids: Sequence[str],
    missing_ok: bool,
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    output: Output,
) -> None:
    """Remove the documents IDS from INDEX, and all that came from them alone.

    The id of a file is its path as it was typed when it was added; see `stratagraph --help`.
    """
    output.resumes = True
    spend = budget(max_calls, max_tokens)
    with sg.open_index(
        index, llm, embedder, budget=spend, cache=cache, progress=not output.as_json
    ) as opened:
        try:
            report = opened.delete(ids, missing_ok=missing_ok)
        except KeyError as error:
            raise KeyError(str(error.args[0]).replace("missing_ok=True", "--missing-ok")) from error
        output.show(report, lambda: report_lines(report, index))


@click.command()
@index_argument
@click.option("--method", help="Of one method alone.")
@models_options
@budget_options
@cache_option
@command
def regroup(
    index: str,
    method: str | None,
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    output: Output,
) -> None:
    """Make the communities and clusters in INDEX anew, as a build would.

    Updates place what is new among the groups that are there. How much changed since these were last compared
    with new ones stands under `changed` in `stratagraph stats`. Reports on other members than before are
    written again, which costs model calls.
    """
    output.resumes = True
    spend = budget(max_calls, max_tokens)
    with sg.open_index(
        index, llm, embedder, budget=spend, cache=cache, progress=not output.as_json
    ) as opened:
        report = opened.regroup(method)
        output.show(report, lambda: report_lines(report, index))

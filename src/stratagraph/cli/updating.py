"""`stratagraph insert | sync | delete | regroup | compact | reembed`: commands that change an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.lines import report_lines
from stratagraph.cli.loading import WrongOption
from stratagraph.cli.options import (
    extraction_option,
    files_options,
    index_argument,
    inputs_argument,
    mapper_options,
    open_options,
    read,
)
from stratagraph.cli.output import Output, command
from stratagraph.operations.gates import AnyEmbedder
from stratagraph.types.protocols import Mapper


def show_report(index: sg.Index, imported: sg.Imported | None, path: str, output: Output) -> None:
    """Print the report of the last operation, with the notes of an import."""
    report = index.last_report
    assert report is not None
    if imported is not None:
        report = replace(report, notes=Counter(imported.notes) + Counter(report.notes))
    output.show(report, lambda: report_lines(report, path), with_files=True)


@click.command()
@index_argument
@inputs_argument
@open_options
@extraction_option
@click.option(
    "--spacy", metavar="NAME", help="Allow loading this spaCy pipeline, which INDEX was built with."
)
@mapper_options
@command
def insert(
    index: str,
    inputs: Sequence[str],
    models: dict[str, Any],
    imported: sg.Imported | None,
    spacy: str | None,
    mapper: Mapper | None,
    output: Output,
) -> None:
    """Add INPUTS to INDEX; documents with a known id are updated.

    A document's id is its path as typed, joined with the path inside a folder; see `stratagraph --help`.
    """
    output.resumes = True
    with sg.open_index(index, **models, progress=not output.as_json, spacy=spacy, mapper=mapper) as opened:
        documents = read(inputs, output, index, mapper)
        opened.insert(documents, extraction=None if imported is None else imported.extractions)
        show_report(opened, imported, index, output)


@click.command()
@index_argument
@click.argument("folders", nargs=-1, required=True, type=click.Path(), metavar="FOLDERS...")
@click.option("--prune", is_flag=True, help="Delete documents of files that vanished from FOLDERS.")
@files_options
@open_options
@mapper_options
@command
def sync(
    index: str,
    folders: Sequence[str],
    prune: bool,
    models: dict[str, Any],
    mapper: Mapper | None,
    output: Output,
) -> None:
    """Bring INDEX to FOLDERS: add new files, and update changed ones.

    A file owns its rows: those that it has no more are deleted. With --prune, so are the documents of files
    that vanished. Files that cannot be read, and those that --exclude leaves out, keep their documents.
    """
    output.resumes = True
    with sg.open_index(index, **models, progress=not output.as_json, mapper=mapper) as opened:
        opened.insert(read(folders, output, index, mapper), prune=prune)
        show_report(opened, None, index, output)


@click.command()
@index_argument
@click.argument("names", nargs=-1, required=True, metavar="FILE|FOLDER|GLOB...")
@click.option("--missing-ok", is_flag=True, help="Ignore names that no document has.")
@open_options
@command
def delete(
    index: str,
    names: Sequence[str],
    missing_ok: bool,
    models: dict[str, Any],
    output: Output,
) -> None:
    """Delete documents from INDEX, with everything that came from them alone.

    A name is the id of a document, a file with all of its rows (its path as typed when it was added), a
    folder, or a glob such as 'notes/*.csv', in which `*` also matches slashes. `stratagraph list INDEX GLOB`
    shows what it names.
    """
    output.resumes = True
    with sg.open_index(index, **models, progress=not output.as_json) as opened:
        ids = [identity for name in names for identity in opened.documents(name) or [name]]
        report = opened.delete(ids, missing_ok=missing_ok)
        output.show(report, lambda: report_lines(report, index))


@click.command()
@index_argument
@click.option("--method", help="Only this method.")
@open_options
@command
def regroup(
    index: str,
    method: str | None,
    models: dict[str, Any],
    output: Output,
) -> None:
    """Compute the communities and clusters of INDEX again, as a new build would.

    Updates keep existing groups; `changed` in `stratagraph stats` counts the members that changed since.
    Summaries of changed groups are written again, which costs model calls.
    """
    output.resumes = True
    with sg.open_index(index, **models, progress=not output.as_json) as opened:
        report = opened.regroup(method)
        output.show(report, lambda: report_lines(report, index))


@click.command()
@index_argument
@command
def compact(index: str, output: Output) -> None:
    """Write all files of INDEX anew, without what updates put out of use. No model is called."""
    output.resumes = True
    with sg.open_index(index, embedder=AnyEmbedder(), progress=not output.as_json) as opened:
        report = opened.compact()
        output.show(report, lambda: report_lines(report, index))


@click.command()
@index_argument
@open_options
@click.option("--estimate", is_flag=True, help="Tell what it costs, and do nothing.")
@command
def reembed(index: str, models: dict[str, Any], estimate: bool, output: Output) -> None:
    """Compute the vectors of INDEX again by another --embedder.

    No extraction is asked again. Groups that stay the same keep their summaries; those of other groups are
    written again, which costs model calls (--llm).
    """
    embedder = models.pop("embedder")
    if embedder is None:
        raise WrongOption("--embedder is needed: the one that computes the vectors from now on")
    output.resumes = True
    shown = not output.as_json
    with sg.open_index(index, **models, embedder=AnyEmbedder(), progress=shown) as opened:
        if estimate:
            bill = opened.estimate_reembed(embedder)
            output.show(bill.to_dict(), lambda: iter(str(bill).splitlines()))
        else:
            report = opened.reembed(embedder)
            output.show(report, lambda: report_lines(report, index))

"""The commands that build and change an index: `stratagraph build | insert | sync | delete | batch | ...`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import stratagraph as sg
from stratagraph.api import build_any
from stratagraph.cli.lines import report_lines
from stratagraph.cli.options import (
    WrongOption,
    cache_option,
    config_options,
    extraction_option,
    files_options,
    index_argument,
    inputs_argument,
    mapper_options,
    method_option,
    models_options,
    open_options,
)
from stratagraph.cli.output import Output, command
from stratagraph.config import as_config
from stratagraph.errors import SettingsConflict
from stratagraph.models.budget import money
from stratagraph.operations.gates import AnyEmbedder
from stratagraph.types.protocols import Mapper

Names = Sequence[str]
Options = dict[str, Any]
_OUT = click.option(
    "--out",
    "-o",
    "requests",
    default="requests.jsonl",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The file to write; large batches are split over several files.",
)


def _show_report(index: sg.Index, path: str, output: Output, name: str | None = None) -> None:
    """Print the report of the last operation, or of the command `name`, with the notes of an import."""
    report = index.last_report
    assert report is not None
    report = replace(report, operation=name or report.operation, notes=output.notes + Counter(report.notes))
    output.show(report, lambda: report_lines(report, path))


@contextmanager
def _changed(path: str, output: Output, *, name: str | None = None, **arguments: Any) -> Iterator[sg.Index]:
    """Open an index for a change, which the same command resumes, and print the report of the change."""
    output.resumes = True
    with sg.open_index(path, progress=not output.as_json, **arguments) as index:
        yield index
        _show_report(index, path, output, name)


@click.command()
@inputs_argument
@method_option
@models_options
@config_options
@cache_option
@click.option("--price-in", type=click.FloatRange(0), help="Price of a million input tokens.")
@click.option("--price-out", type=click.FloatRange(0), help="Price of a million output tokens.")
@command
def estimate(
    inputs: Names,
    method: Names | None,
    models: Options,
    config: Options | None,
    price_in: float | None,
    price_out: float | None,
    output: Output,
) -> None:
    """Estimate the cost of building an index of INPUTS, without calling a model."""
    if (price_in is None) != (price_out is None):
        raise WrongOption("--price-in and --price-out go together: give both or none")
    prices = None if price_in is None or price_out is None else sg.Prices(price_in, price_out)
    bill = sg.estimate(output.read(inputs), method, config=config, prices=prices, **models)
    output.show(bill.to_dict(), str(bill).splitlines)


@click.command()
@inputs_argument
@click.option("--out", "-o", "path", required=True, type=click.Path(), help="The index folder.")
@method_option
@open_options
@config_options
@extraction_option
@click.option("--shards", type=click.IntRange(1), help="Number of shards to build, which open as one index.")
@click.option("--shard-by", "by", metavar="KEY", help="Build one shard per value of this metadata key.")
@mapper_options
@click.option(
    "--date-key", metavar="KEY", help="The metadata key that dates a document: published, date, modified."
)
@click.option("--prune", is_flag=True, help="Delete documents of files that vanished from INPUTS.")
@click.option("--rebuild", is_flag=True, help="Build the index in the folder anew, of INPUTS alone.")
@command
def build(
    inputs: Names,
    path: str,
    models: Options,
    mapper: Mapper | None,
    shards: int | None,
    by: str | None,
    output: Output,
    **given: Any,
) -> None:
    """Build an index of INPUTS. The same command resumes a stopped build.

    An index that is in the folder is brought to INPUTS: new documents are added, changed ones updated, and
    methods that it lacks are built. Documents of vanished files stay, unless --prune is given. Other
    settings or another embedder need --rebuild.

    A document's id is its path inside the folder that is given; see `stratagraph --help`.
    """
    output.resumes = True
    if shards is not None and by is not None:
        raise WrongOption("--shards and --shard-by are two ways to do one thing: give one of them")
    documents = output.read(inputs, path, mapper)
    how: Options = {"progress": not output.as_json, "mapper": mapper, "shards": shards if by is None else by}
    try:
        index = build_any(documents, path=path, **how, **models, **given)
    except SettingsConflict as conflict:
        advice = "give another folder with --out"
        if shards is None and by is None:
            documents = output.read(inputs, path, mapper)
            cost = _cost_of_rebuild(documents, path, models, given["method"], given["config"])
            advice = f"add --rebuild to build it anew of these inputs alone ({cost})"
        raise type(conflict)(
            f"{path} holds an index with other settings: {'; '.join(conflict.differences)}. Leave these "
            f"options out to keep its settings, or {advice}"
        ) from conflict
    with index:
        _show_report(index, path, output)


def _cost_of_rebuild(
    documents: Any, path: str, models: Options, method: Names | None, config: Options | None
) -> str:
    """The estimate of a build over the index in a folder, whose answers of models are reused."""
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
    inputs: Names,
    models: Options,
    extraction: Any,
    spacy: str | None,
    mapper: Mapper | None,
    output: Output,
) -> None:
    """Add INPUTS to INDEX. A document whose id is in the index already is updated.

    A document's id is its path inside the folder that is given; see `stratagraph --help`.
    """
    with _changed(index, output, **models, spacy=spacy, mapper=mapper) as opened:
        opened.insert(output.read(inputs, index, mapper), extraction=extraction)


@click.command()
@index_argument
@click.argument("folders", nargs=-1, required=True, type=click.Path(), metavar="FOLDERS...")
@click.option("--prune", is_flag=True, help="Delete documents of files that vanished from FOLDERS.")
@files_options
@open_options
@mapper_options
@command
def sync(
    index: str, folders: Names, prune: bool, models: Options, mapper: Mapper | None, output: Output
) -> None:
    """Bring INDEX to FOLDERS: add new files, and update changed ones.

    A file owns its rows: those that it has no more are deleted. Files that vanished are named; with --prune
    their documents are deleted, of these FOLDERS alone. Files that cannot be read, and those that --exclude
    leaves out, keep their documents.
    """
    with _changed(index, output, name="sync", **models, mapper=mapper) as opened:
        opened.insert(output.read(folders, index, mapper), prune=prune)


@click.command()
@index_argument
@click.argument("names", nargs=-1, required=True, metavar="FILE|FOLDER|GLOB...")
@click.option("--missing-ok", is_flag=True, help="Ignore names that no document has.")
@open_options
@command
def delete(index: str, names: Names, missing_ok: bool, models: Options, output: Output) -> None:
    """Delete documents from INDEX, with everything that came from them alone.

    A name is the id of a document, a file with all of its rows, a folder (both by their path inside the
    folder that was given), or a glob such as 'notes/*.csv', in which `*` also matches slashes.
    `stratagraph list INDEX GLOB` shows what it names.
    """
    with _changed(index, output, **models) as opened:
        ids = [identity for name in names for identity in opened.documents(name) or [name]]
        opened.delete(ids, missing_ok=missing_ok)


@click.command()
@index_argument
@click.option("--method", help="Only this method.")
@open_options
@command
def regroup(index: str, method: str | None, models: Options, output: Output) -> None:
    """Compute the communities and clusters of INDEX again, as a new build would.

    Updates keep existing groups. In `stratagraph stats`, `changed` counts the members that changed since the
    groups were computed.

    Summaries of changed groups are written again, which costs model calls.
    """
    with _changed(index, output, **models) as opened:
        opened.regroup(method)


@click.command()
@index_argument
@command
def compact(index: str, output: Output) -> None:
    """Write all files of INDEX anew, without what updates put out of use. No model is called."""
    with _changed(index, output, embedder=AnyEmbedder()) as opened:
        opened.compact()


@click.command()
@index_argument
@open_options
@click.option("--estimate", is_flag=True, help="Tell what it costs, and do nothing.")
@command
def reembed(index: str, models: Options, estimate: bool, output: Output) -> None:
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
            output.show(bill.to_dict(), str(bill).splitlines)
        else:
            opened.reembed(embedder)
            _show_report(opened, index, output)


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
@method_option
@models_options
@config_options
@cache_option
@extraction_option
@command
def write_(index: str, inputs: Names, requests: str, models: Options, output: Output, **given: Any) -> None:
    """Write the first requests of building INDEX from INPUTS, or of inserting them if it exists."""
    if models["llm"] is None:
        raise WrongOption("--llm is needed to write requests, as in --llm openai:gpt-4o-mini")
    output.resumes = True
    output.own_files.append(requests)
    pending = sg.batch.write(output.read(inputs, index), requests, path=index, **models, **given)
    output.show(pending, str(pending).splitlines)


@batch.command("read")
@index_argument
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@_OUT
@models_options
@cache_option
@command
def read_(index: str, results: Names, requests: str, models: Options, output: Output) -> None:
    """Read RESULTS into INDEX and write the next requests, or build the index if there are none."""
    output.resumes = True
    pending = sg.batch.read(results, requests, path=index, **models)
    output.show(pending, str(pending).splitlines)

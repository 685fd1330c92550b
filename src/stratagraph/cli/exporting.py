"""`stratagraph export`: write an index, or the graph around a question, to files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.loading import WrongOption
from stratagraph.cli.options import embedder_option, index_argument
from stratagraph.cli.output import Output, command
from stratagraph.export import FORMATS
from stratagraph.operations.gates import AnyEmbedder


@click.command()
@index_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), default="jsonl", show_default=True)
@click.option("--html", is_flag=True, help="Same as --format html.")
@click.option(
    "--out",
    "-o",
    "path",
    required=True,
    type=click.Path(),
    help="Target file; for parquet and neo4j a folder.",
)
@click.option("--method", help="Method whose nodes to include. Default: all (html: the first).")
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
    path: str,
    method: str | None,
    question: str | None,
    k: int,
    embedder: Any,
    output: Output,
) -> None:
    """Write INDEX to files for other tools or a browser.

    jsonl holds everything; `sg.read_extraction` reads the extraction back. An html page works offline.
    """
    kind = "html" if html else kind
    if question is not None and kind != "html":
        raise WrongOption(f"--question draws a page: it goes with --format html, not {kind}")
    # Without a question, none is asked of the embedder, whatever the index was built with.
    with sg.open_index(index, embedder=embedder if question is not None else AnyEmbedder()) as opened:
        if question is None:
            written = opened.export(path, kind, method=method)
        else:
            written = opened.retrieve(question, k, method=method).show().save(path)
    size = sum(each.stat().st_size for each in _files(written))
    told = {"path": str(written), "format": kind, "bytes": size}
    output.show(told, lambda: iter([f"written: {written} ({kind}, {size:,} bytes)"]))


def _files(path: Path) -> Iterator[Path]:
    return path.iterdir() if path.is_dir() else iter([path])

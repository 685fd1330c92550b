"""Read JSON lines that `Index.export` wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stratagraph.importing.draft import Imported
from stratagraph.importing.lines import json_lines
from stratagraph.types.records import Chunk, Extraction

FORMAT = 1
"""Version of the JSON lines."""
_EXTRACTION = TypeAdapter(Extraction)


def read_extraction(path: str | os.PathLike[str]) -> Imported:
    """Read the chunks of an exported index and their extractions.

    An index built from these has the same graph. Chunks keep text, place, `ref` and metadata (with that of
    their document); extractions are by chunk id. Derived records of the file are not read.

    Raises
    ------
    ValueError
        If the file is no export or a line cannot be read; the message names the line.
    """
    source = Path(path)
    chunks: list[Chunk] = []
    extractions: dict[str, Extraction] = {}
    begun = False
    for place, record in json_lines(source):
        if not begun:
            _check_header(record, place)
            begun = True
        elif record.get("record") == "chunk":
            try:
                chunk, extraction = _chunk(record)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{place}: not a chunk as stratagraph exports it: {error!r}") from error
            chunks.append(chunk)
            extractions[str(record["id"])] = extraction
    if not begun:
        raise ValueError(f"{source}: empty")
    return Imported(chunks, extractions)


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does."""
    with path.open("rb") as file:
        return b'"record": "stratagraph"' in file.readline(1000)


def _check_header(record: Mapping[str, Any], place: str) -> None:
    if record.get("record") != "stratagraph":
        raise ValueError(
            f"{place}: not an export of stratagraph, which begins with its format. Write one with "
            "index.export(path) or `stratagraph export`; for OpenIE there is read_openie"
        )
    if record.get("format") != FORMAT:
        raise ValueError(
            f"{place}: format {record.get('format')!r}, which another version of stratagraph wrote; "
            f"this one reads format {FORMAT}"
        )


def _chunk(record: Mapping[str, Any]) -> tuple[Chunk, Extraction]:
    chunk = Chunk(
        text=record["text"],
        document_id=record["document"],
        ordinal=record["ordinal"],
        start=record["start"],
        end=record["end"],
        metadata=record["metadata"],
        ref=record["ref"],
    )
    return chunk, _EXTRACTION.validate_python(record["extraction"])

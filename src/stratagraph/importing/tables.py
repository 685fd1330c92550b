"""The tables of a GraphRAG index: parquet or JSON lines, under the names and columns of all its versions."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.importing.lines import json_lines

Row = Mapping[str, Any]

TABLES = {
    "entities": ("entities", "create_final_entities"),
    "relationships": ("relationships", "create_final_relationships"),
    "text_units": ("text_units", "create_final_text_units", "create_base_text_units", "corpus"),
    "documents": ("documents", "create_final_documents"),
    "communities": ("communities", "create_final_communities"),
    "community_reports": ("community_reports", "create_final_community_reports"),
    "nodes": ("create_final_nodes",),
    "covariates": ("covariates", "create_final_covariates"),
}
_SUFFIXES = (".parquet", ".jsonl", ".json")
_FOLDERS = ("", "output", "artifacts", "output/artifacts")
_UNREAD = ("embedding", "findings", "full_content_json", "raw_content")  # large, and of no use here


class Tables:
    """The tables found in a folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"no such folder: {str(folder)!r}")
        self._folder = folder
        places = [folder / name for name in _FOLDERS]
        self._files = next(filter(None, map(_find, places)), {})
        if missing := [name for name in ("entities", "text_units") if name not in self._files]:
            files = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
            wanted = ", ".join(f"{name}.parquet" for name in missing)
            raise ValueError(
                f"no table of {' and '.join(missing)} in {str(folder)!r}: looked for {wanted} (or .jsonl, or "
                f"older names), found {files}. Give the folder with the outputs of one GraphRAG run"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of a table; none if the folder does not have it."""
        path = self._files.get(name)
        if path is None:
            return iter(())
        return _parquet(path) if path.suffix == ".parquet" else (row for _, row in json_lines(path))


def _find(folder: Path) -> dict[str, Path]:
    """The table files of a folder, if it has one with entities."""
    found = {}
    for table, names in TABLES.items():
        paths = (folder / f"{name}{suffix}" for name in names for suffix in _SUFFIXES)
        if path := next((path for path in paths if path.is_file()), None):
            found[table] = path
    return found if "entities" in found else {}


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if not name.endswith(_UNREAD)]
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: not readable as parquet: {error}") from error


def text_of(row: Row, *names: str) -> str:
    """The first of the columns that holds something, as text without white space around it."""
    for name in names:
        value = row.get(name)
        if isinstance(value, float):  # data frames leave a text out as NaN, and make floats of such numbers
            value = int(value) if value.is_integer() else value if value == value else None
        if value is not None and not isinstance(value, bool) and (text := str(value).strip()):
            return text
    return ""


def list_of(row: Row, *names: str) -> list[str]:
    """The first of the columns that holds something, as a list of strings.

    A list that was written as text is read too: as JSON, as Python prints it, or separated by commas.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            value = _split(value.strip())
        elif isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if isinstance(value, list | tuple) and value:
            return [text for item in value if item is not None and (text := str(item).strip())]
    return []


def _split(text: str) -> list[Any]:
    if text.startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, list):
                return value
        text = text.strip("[]")
    return [part.strip(" '\"\n") for part in text.split(",")]

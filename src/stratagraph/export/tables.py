"""The records of an export, kind by kind, with the same fields in every format; JSON lines and parquet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stratagraph.errors import require
from stratagraph.importing.lines import FORMAT

if TYPE_CHECKING:
    from stratagraph.index import Index

_DOCUMENTS = 1000

Record = dict[str, Any]
Table = tuple[str, Iterator[Record]]


def tables(index: Index, methods: Sequence[str]) -> Iterator[Table]:
    """All kinds of records by name, in an order in which records refer to earlier ones."""
    yield "document", ({"id": each, "metadata": dict(m)} for each, m in index.documents().items())
    yield "chunk", _chunks(index)
    yield "entity", (asdict(each) for each in index.entities())
    yield "relation", (asdict(each) for each in index.relations())
    yield "unit", (asdict(each) for each in index.units())
    yield "node", ({"method": name, **asdict(each)} for name in methods for each in index.nodes(name))


def _chunks(index: Index) -> Iterator[Record]:
    extractions = index.extractions()
    documents = iter(index.documents())
    while names := list(islice(documents, _DOCUMENTS)):
        for chunk in chain.from_iterable(index.chunks(names).values()):
            identity, extraction = next(extractions)
            if identity != chunk.id:
                raise RuntimeError(
                    f"chunk {chunk.id!r} has the extraction of {identity!r}: the index changed"
                )
            yield {
                "id": chunk.id,
                "document": chunk.document_id,
                "ordinal": chunk.ordinal,
                "start": chunk.start,
                "end": chunk.end,
                "ref": chunk.ref,
                "text": chunk.text,
                "prefix": chunk.prefix,
                "metadata": dict(chunk.metadata),
                "extraction": asdict(extraction),
            }


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path; the file gets its name when the block ends without an error.

    The temporary files of killed exports to the same path are removed, since they can hold deleted texts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{escape(path.name)}.*.part"):
        process = left.name.removeprefix(f".{path.name}.").removesuffix(".part")
        if process.isdecimal() and not _runs(int(process)):
            with suppress(PermissionError):  # Windows removes no file that a process has open
                left.unlink(missing_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether a process may still be running; never known on Windows, where `os.kill` would end it."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def write_jsonl(index: Index, path: Path, methods: Sequence[str]) -> None:
    """Write everything to one file of JSON lines.

    Each line has `record`: `stratagraph` (the header, with the numbers of chunks and calls), `document`,
    `chunk` (with its `extraction`), `entity`, `relation`, `unit`, `node` (with its `method`) or `call` (the
    answer of a model, see `Index.calls`).
    """
    with whole(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        counts = {"chunks": index.stats()["chunks"], "calls": sum(1 for _ in index.calls())}
        header = {"record": "stratagraph", "format": FORMAT, "methods": list(methods), **counts}
        file.write(json.dumps(header) + "\n")
        calls: Table = ("call", (asdict(each) for each in index.calls()))
        for name, records in chain(tables(index, methods), [calls]):
            for record in records:
                file.write(json.dumps({"record": name, **record}, ensure_ascii=False) + "\n")


_ROWS = 4096
_COLUMNS = {
    "document": "id metadata",
    "chunk": "id document ordinal start end ref text prefix metadata extraction",
    "entity": "id name type description sources documents",
    "relation": "id source target text weight sources documents types opposite_types",
    "unit": "id text entities sources documents",
    "node": "method id kind level text members sources documents metadata",
}
_LISTS = frozenset(("sources", "documents", "entities", "members", "types", "opposite_types"))
_INTEGERS = frozenset(("ordinal", "start", "end", "level"))
_JSON = frozenset(("metadata", "extraction"))


def write_parquet(index: Index, path: Path, methods: Sequence[str]) -> None:
    """Write `documents.parquet`, `chunks.parquet` and so on to a folder.

    Lists of ids are lists; metadata and extractions are JSON columns.
    """
    require("parquet", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.large_string()
    types = {
        **dict.fromkeys(_LISTS, pyarrow.list_(text)),
        **dict.fromkeys(_INTEGERS, pyarrow.int64()),
        "weight": pyarrow.float64(),
    }
    path.mkdir(parents=True, exist_ok=True)
    for name, records in tables(index, methods):
        schema = pyarrow.schema([(column, types.get(column, text)) for column in _COLUMNS[name].split()])
        file = path / f"{'entities' if name == 'entity' else f'{name}s'}.parquet"
        with whole(file) as aside, parquet.ParquetWriter(aside, schema) as writer:
            while batch := list(islice(records, _ROWS)):
                for record in batch:
                    for column in _JSON & record.keys():
                        record[column] = json.dumps(record[column], ensure_ascii=False)
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))

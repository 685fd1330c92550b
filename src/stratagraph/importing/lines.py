"""JSON and JSON lines files, with errors that name the file and line, and the export of an index."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stratagraph.importing.draft import Imported
from stratagraph.store.calls import SqliteCalls
from stratagraph.types.records import CachedCall, Chunk, Extraction

FORMAT = 1
"""Version of the JSON lines."""
_EXTRACTION, _CALL = TypeAdapter(Extraction), TypeAdapter(CachedCall)
_KEY = re.compile("[0-9a-f]{32}")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the object of each line with its place, `file:line`, which errors name; skips blank lines."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"{path}:{number}"
                yield place, json_object(line, place)


def json_object(raw: bytes, place: str) -> dict[str, Any]:
    """The JSON object in some bytes."""
    value = _value(raw, place)
    if not isinstance(value, dict):
        raise ValueError(f"{place}: a JSON {type(value).__name__} where an object was expected")
    return value


def _value(raw: bytes, place: str) -> Any:
    """The JSON value in some bytes, without lone surrogates (half an emoji), which cannot be stored."""
    try:
        text = raw.decode("utf-8-sig").rstrip()
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        where = place if error.lineno == 1 else f"{place}:{error.lineno}"
        raise ValueError(f"{where}: not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise ValueError(f"{place}: not readable: nested too deeply") from None
    if "\\ud" in text.lower():
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object of a JSON list with its place, `file[number]`, which errors name."""
    value = json_value(path)
    if not isinstance(value, list):
        raise ValueError(f"{path}: a list of objects was expected")
    for number, record in enumerate(value):
        if not isinstance(record, dict):
            raise ValueError(f"{path}[{number}]: an object was expected, not {record!r:.60}")
        yield f"{path}[{number}]", record


def json_value(path: Path) -> Any:
    """The value of a JSON file; `ValueError` names the file."""
    return _value(path.read_bytes(), str(path))


def read_extraction(path: str | os.PathLike[str], *, cache: str | os.PathLike[str] | None = None) -> Imported:
    """Read the chunks of an exported index and their extractions.

    An index built from these has the same graph. Chunks keep text, prefix, place, `ref` and metadata (with
    that of their document); extractions are by chunk id. Derived records of the file are not read.

    Parameters
    ----------
    path
        The file.
    cache
        A file of model answers, to which those in the export are added. With it as its `cache`, and with the
        same model and settings, `build_index` writes the nodes of the export without a model call; groups
        that another embedder or other settings change are asked about. Answers that the file has stay.

    Raises
    ------
    ValueError
        If the file is no export, a line cannot be read (the message names it), or the file has other numbers
        of chunks or calls than it says. Nothing is added to the cache then.
    StoreError
        If `cache` is another kind of file.
    """
    source = Path(path)
    calls: list[CachedCall] = []
    chunks: list[Chunk] = []
    extractions: dict[str, Extraction] = {}
    header: Mapping[str, Any] = {}
    for place, record in json_lines(source):
        if not header:
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
            header = record
        elif record.get("record") == "chunk":
            try:
                fields = ("ordinal", "start", "end", "metadata", "ref")
                own = {field: record[field] for field in fields}
                prefix = record.get("prefix", "")
                chunks.append(Chunk(record["text"], record["document"], **own, prefix=prefix))
                extractions[str(record["id"])] = _EXTRACTION.validate_python(record["extraction"])
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{place}: not a chunk as stratagraph exports it: {error!r}") from error
        elif record.get("record") == "call" and cache is not None:
            calls.append(_call(record, extractions, place))
    if not header:
        raise ValueError(f"{source}: empty")
    read = {"chunks": len(extractions)} | ({} if cache is None else {"calls": len(calls)})
    for what, count in read.items():
        if header.get(what, count) != count:
            raise ValueError(
                f"{source} has {count} {what}, and its first line tells of {header[what]}: it was cut off or "
                "changed. Export the index again"
            )
    if cache is not None:
        with closing(SqliteCalls(Path(cache))) as answers:
            answers.add(calls)
    return Imported(chunks, extractions)


def _call(record: Mapping[str, Any], chunks: Container[str], place: str) -> CachedCall:
    try:
        call = _CALL.validate_python(record)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError(f"{place}: not a call as stratagraph exports it: {what:.300}") from error
    if not _KEY.fullmatch(call.key):
        raise ValueError(f"{place}: the key of a call is no hash of 128 bits: {call.key[:40]!r}")
    if other := [each for each in call.sources if each not in chunks]:
        raise ValueError(f"{place}: a call quotes chunk {other[0][:40]!r}, which no line before it has")
    return call


def is_export(path: Path) -> bool:
    """Whether a file begins as an export does."""
    with path.open("rb") as file:
        return b'"record": "stratagraph"' in file.readline(1000)

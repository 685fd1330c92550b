"""JSON lines: a header with the format, then one record a line, each saying what it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from stratagraph.export.tables import Source, tables, whole
from stratagraph.importing.own import FORMAT


def write_jsonl(index: Source, path: Path, methods: Sequence[str]) -> None:
    """Write everything to one file.

    Each line is an object with `record`: `stratagraph` (the header), `document`, `chunk` (with its
    `extraction`), `entity`, `relation`, `unit` or `node` (with its `method`).
    """
    with whole(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        header = {"record": "stratagraph", "format": FORMAT, "methods": list(methods)}
        file.write(json.dumps(header) + "\n")
        for name, records in tables(index, methods):
            for record in records:
                file.write(json.dumps({"record": name, **record}, ensure_ascii=False) + "\n")

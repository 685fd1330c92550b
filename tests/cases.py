"""Cases of tests that lie in files of their own, and files that tests write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Files = Mapping[str, Any]
"""Contents by path: bytes, text, lines of JSON (a list under a name `.jsonl`), or JSON."""


def cases(test: str, name: str) -> list[Any]:
    """The cases of a test: a list in `golden/x.json` beside its module `test_x.py`, under its name."""
    module = Path(test)
    file = module.parent / "golden" / f"{module.stem.removeprefix('test_')}.json"
    return list(json.loads(file.read_text("utf-8"))[name])


def put(folder: Path, files: Files) -> Path:
    """Write files into a folder, and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list) and path.suffix == ".jsonl":
            content = "\n".join(map(json.dumps, content))
        elif not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder

"""Cases of tests that lie in files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cases(test: str, name: str) -> list[Any]:
    """The cases of a test: a list in `golden/x.json` beside its module `test_x.py`, under its name."""
    module = Path(test)
    file = module.parent / "golden" / f"{module.stem.removeprefix('test_')}.json"
    return list(json.loads(file.read_text("utf-8"))[name])

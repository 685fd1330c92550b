"""A corpus and five questions of our own in the layout of GraphRAG-Bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "bench_questions.json").read_text("utf-8")
)
CORPUS, QUESTIONS = _DATA["corpus"], _DATA["questions"]


def written(folder: Path, name: str = "islands") -> Path:
    """The file of questions, with its corpus where the layout has it."""
    for part in ("Corpus", "Questions"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "Corpus" / f"{name}.json").write_text(json.dumps(CORPUS), "utf-8")
    path = folder / "Questions" / f"{name}_questions.json"
    path.write_text(json.dumps([{"source": "Islands", **each} for each in QUESTIONS]), "utf-8")
    return path

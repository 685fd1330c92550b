"""A corpus and five questions of our own in the layout of GraphRAG-Bench."""

from __future__ import annotations

import json
from pathlib import Path

CORPUS = {
    "corpus_name": "Islands",
    "context": (
        "Orrin sells honey to Sarn. Ada Loom keeps the bees of Orrin and teaches beekeeping in spring. "
        "Sarn lies south of Orrin and boils salt. When the salt pans of Sarn flooded, "
        "Orrin lent Sarn its ferry. "
        "Ada Loom lives in Sarn and crosses to Orrin every morning."
    ),
}
QUESTIONS = [
    {
        "id": "Islands-1",
        "question": "What does Orrin sell to Sarn?",
        "answer": "Orrin sells honey to Sarn.",
        "question_type": "Fact Retrieval",
        "evidence": ["Orrin sells honey to Sarn."],
    },
    {
        "id": "Islands-2",
        "question": "Who keeps the bees of Orrin?",
        "answer": "Ada Loom keeps them.",
        "question_type": "Fact Retrieval",
        "evidence": "Ada Loom keeps the bees of Orrin",
    },
    {
        "id": "Islands-3",
        "question": "Why does Ada Loom cross the water every morning?",
        "answer": "She lives in Sarn, and the bees that she keeps are on Orrin.",
        "question_type": "Complex Reasoning",
        "evidence": ["Ada Loom lives in Sarn", "Ada Loom keeps the bees of Orrin"],
    },
    {
        "id": "Islands-4",
        "question": "How do Orrin and Sarn depend on each other?",
        "answer": "Orrin sells honey to Sarn and lent it a ferry after a flood; Sarn boils salt.",
        "question_type": "Contextual Summarize",
        "evidence": ["Orrin lent Sarn its ferry"],
    },
    {
        "id": "Islands-5",
        "question": "Tell the flood of Sarn as a ferryman's letter.",
        "answer": "Dear sister, the salt pans of Sarn are under water, and Orrin lent us the ferry.",
        "question_type": "Creative Generation",
        "evidence": ["When the salt pans of Sarn flooded, Orrin lent Sarn its ferry."],
    },
]


def written(folder: Path, corpus: object = CORPUS, name: str = "islands") -> Path:
    """The file of questions, with its corpus where the layout has it."""
    for part in ("Corpus", "Questions"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "Corpus" / f"{name}.json").write_text(json.dumps(corpus), "utf-8")
    path = folder / "Questions" / f"{name}_questions.json"
    path.write_text(json.dumps([{"source": "Islands", **each} for each in QUESTIONS]), "utf-8")
    return path

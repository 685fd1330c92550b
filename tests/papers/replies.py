"""A model that answers every prompt of the evaluation in its form, for runs that show the plumbing alone."""

from __future__ import annotations

import json

from papers.comparing import CRITERIA
from tests.clients.writer import written


def replies(prompt: str) -> str:
    """What a model of few ideas says: the answer is honey, and neither of two answers is better."""
    if "<first-answer>" in prompt:
        return json.dumps({key: {"explanation": "Both say the same.", "winner": "tie"} for key in CRITERIA})
    if "<reference-answers>" in prompt:
        return json.dumps({"reason": "It says so.", "correct": "honey" in prompt})
    if '"users"' in prompt:
        return json.dumps({"users": [{"user": "a reader", "tasks": ["to learn what recurs"]}]})
    if '"questions"' in prompt:
        return json.dumps({"questions": ["What recurs on the islands?", "Who disagrees with whom?"]})
    if '"facts"' in prompt:
        return json.dumps({"facts": [1, 2]})
    if '"low_level"' in prompt:
        return json.dumps({"high_level": ["trade"], "low_level": ["Orrin"]})
    if '"statements"' in prompt:
        return json.dumps({"statements": ["Orrin sells honey.", "Orrin is an island."]})
    if '"supported"' in prompt:
        return json.dumps({"supported": [1], "missing": [2]})
    if '"held"' in prompt:
        return json.dumps({"held": [1]})
    if '"rating_reason"' in prompt:
        finding = {"summary": "Orrin trades.", "explanation": "Orrin sells honey to Sarn."}
        report = {
            "title": "Orrin",
            "summary": "Orrin and its trade.",
            "rating": 6,
            "rating_reason": "It trades.",
        }
        return json.dumps({**report, "findings": [finding] * 7})
    if "<reports>" in prompt:
        return json.dumps({"points": [{"description": "Orrin sells honey.", "score": 80}]})
    if '"steps"' in prompt:
        return json.dumps({"steps": "Orrin sells honey.", "answer": "honey"})
    if "<points>" in prompt or "<passages>" in prompt or "from what you know" in prompt:
        return "honey"
    return written(prompt)

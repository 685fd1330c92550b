"""Completions of a real model, with the noise that it made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from stratagraph.models.structured import json_as


class Finding(BaseModel):
    summary: str
    explanation: str


class CommunityReport(BaseModel):
    title: str
    summary: str
    rating: float
    rating_explanation: str
    findings: list[Finding]


@pytest.fixture(scope="module")
def completions(shared_data: Path) -> dict[str, list[str]]:
    file = shared_data / "nano_graphrag_raw_llm_outputs" / "outputs.jsonl"
    if not file.is_file():
        pytest.skip("these completions are not here")
    kinds: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        kinds.setdefault(row["kind"], []).append(row["output"])
    return kinds


def test_every_report_is_read(completions: dict[str, list[str]]) -> None:
    parse = json_as(CommunityReport)
    reports = [parse(answer) for answer in completions["community_report"]]
    assert len(reports) == 346
    assert all(each.title and each.findings for each in reports)


def test_reports_survive_damage(completions: dict[str, list[str]]) -> None:
    parse = json_as(CommunityReport)
    for answer in completions["community_report"][::10]:
        whole = parse(answer)
        assert parse(f"Here is the report:\n```json\n{answer}\n```\nDone.") == whole
        cut = answer.rstrip()[:-4]  # within the end of the last finding, or after it
        assert parse(cut).title == whole.title
        trailing = re.sub(r"\}\s*\]\s*\}\s*$", "},]}", answer)
        assert parse(trailing) == whole

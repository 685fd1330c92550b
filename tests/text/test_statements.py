"""What is one statement: sentences, and records of every form."""

from __future__ import annotations

import pytest

from stratagraph import Document
from stratagraph.ingest.chunk import ChunkConfig, split
from stratagraph.text.statements import LONGEST, statements
from stratagraph.text.tokens import Estimate

STANZA = (
    "The moon was on the harbour,\nThe ferry lay asleep,\nAnd nobody was watching\nThe waters dark and deep."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rains. St. Peter is wet.", ["It rains.", "St. Peter is wet."]),
        ("Port: Soll; Note: Shut. Ask Mr. Vik.\nPort: Ostra; Note: a; b.", None),
        ("Port: Soll\nFare: 7\nPort: Ostra\nFare: 9", ["Port: Soll\nFare: 7", "Port: Ostra\nFare: 9"]),
        ("Fares:\nFares: 7\nPort: Soll", ["Fares:\nFares: 7\nPort: Soll"]),
        ("- port: Soll\n  fare: 7\n- port: Ostra\n  fare: 9", None),
        ("[soll]\nfare=7\n[ostra]\nfare=9", ["[soll]\nfare=7", "[ostra]\nfare=9"]),
        ("level=info port=Soll msg=Shut. Now.\nlevel=warn port=Ostra", None),
        ("Port | Fare\nSoll | 7\nOstra | 9", ["Port | Fare\nSoll | 7", "Port | Fare\nOstra | 9"]),
        (
            "Closed:\n\n- Soll\n- Ostra\n\nOthers are open.",
            ["Closed:\n\n- Soll\n- Ostra", "Others are open."],
        ),
        ("Run:\n\n```\nmake\n\nmake test\n```", ["Run:\n\n```\nmake\n\nmake test\n```"]),
        ("渡轮：\n\n- 七点\n- 九点\n\n票价十七元。", ["渡轮：\n\n- 七点\n- 九点", "票价十七元。"]),
        (STANZA, [STANZA]),
    ],
)
def test_a_record_is_one_statement(text: str, expected: list[str] | None) -> None:
    if expected is None:  # two records, of which the second names Ostra
        expected = [text[: (at := max(text.rfind("\n", 0, text.find("Ostra")), 0))], text[at + 1 :]]
    assert [each.shown(text) for each in statements(text)] == expected


def test_a_long_record_is_divided_between_fields_and_each_part_begins_with_the_first() -> None:
    fields = [f"Field {n}: the value of field number {n} is here" for n in range(30)]
    text = "\n".join(["Port: Soll", *fields])
    parts = [each.shown(text) for each in statements(text)]
    assert len(parts) > 1
    assert all(part.startswith("Port: Soll\n") and len(part.split()) <= LONGEST for part in parts)
    assert [line for part in parts for line in part.split("\n")[1:]] == fields


def test_a_chunk_inside_of_a_table_repeats_the_header_row_before_its_true_place() -> None:
    head = "| Port | Fare |\n|---|---|\n"
    text = head + "\n".join(f"| Port number {n} | {n} |" for n in range(60))
    chunks = list(split(Document("d", text), ChunkConfig(100, 20), Estimate()))
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.text.startswith(head)
        assert chunk.text[chunk.repeated :] == text[chunk.start : chunk.end]

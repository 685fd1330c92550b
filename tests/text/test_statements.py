"""What is one statement: sentences, and records of every form."""

from __future__ import annotations

import pytest
from tests.cases import cases

from stratagraph import Document
from stratagraph.ingest.chunk import ChunkConfig, split
from stratagraph.text.statements import LONGEST, statements
from stratagraph.text.tokens import TokenEstimate


@pytest.mark.parametrize(("text", "expected"), cases(__file__, "records"))
def test_a_record_is_one_statement(text: str, expected: list[str]) -> None:
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
    chunks = list(split(Document("d", text), ChunkConfig(100, 20), TokenEstimate()))
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.text.startswith(head)
        assert chunk.text[chunk.repeated :] == text[chunk.start : chunk.end]

from __future__ import annotations

from collections import Counter

import pytest
from tests.cases import cases

from stratagraph.ingest.extraction.by_model import to_extraction
from stratagraph.ingest.extraction.parsing import parse_extraction
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import link
from stratagraph.ingest.names.spelling import iso_date


@pytest.mark.parametrize(("written", "iso"), cases(__file__, "dates by their numbers"))
def test_dates_by_their_numbers(written: str, iso: str | None) -> None:
    assert iso_date(written) == iso


def test_a_model_may_write_dates_as_it_likes() -> None:
    answer = parse_extraction(
        '{"units": [{"text": "Runa sold her mill.", "entities": ["Runa", "May 1912"]}],'
        ' "entities": ["Runa", {"name": "1912-05", "type": "date", "description": "Month of the sale."}],'
        ' "relations": [{"source": "Runa", "target": "May 1912", "description": "Runa sold it then."}]}'
    )
    found = to_extraction([answer], Counter())
    assert [entity.name for entity in found.entities] == ["Runa", "1912-05"]
    assert found.units[0].entities == ("Runa", "1912-05")
    assert found.relations[0].target == "1912-05"


@pytest.mark.parametrize("question", ["What was sold in May 1912?", "What was sold in 1912-05?"])
def test_a_question_finds_a_date_in_another_form(question: str) -> None:
    index = NameIndex(NameIndex.build(["Runa", "1912-05", "1911-05", "1912-05-03"]))
    assert link(question, index).named.tolist() == [1]
    assert link(question.replace("1912", "1913"), index).named.tolist() == []

from __future__ import annotations

from collections import Counter

import pytest

import stratagraph as sg
from stratagraph.ingest.extraction.by_model import to_extraction
from stratagraph.ingest.extraction.parsing import parse_extraction
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import link
from stratagraph.ingest.names.spelling import iso_date


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("2024-09", "2024-09"),
        ("2024/9/5", "2024-09-05"),
        ("September 2024", "2024-09"),
        ("Sept. 2024", "2024-09"),
        ("september of 2024", "2024-09"),
        ("15 September 2024", "2024-09-15"),
        ("the 1st of May, 1912", "1912-05-01"),
        ("May 3rd,  1912", "1912-05-03"),
        ("Feb 30, 2024", None),
        ("2024-13", None),
        ("05/06/2024", None),
        ("2024", None),
        ("May", None),
        ("Mayor 2024", None),
        ("In May 1912", None),
        ("May 1912 Treaty", None),
        ("", None),
    ],
)
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


def test_a_date_that_no_entity_has_is_not_another_one() -> None:
    index = NameIndex(NameIndex.build(["Runa", "1911-05"]))
    assert link("What was sold in May 1912?", index).named.tolist() == []


def test_the_walk_starts_at_the_month() -> None:
    texts = ["The mill was sold to the Holm company.", "The lighthouse was repaired by Ada."]
    months = ["1912-05", "1913-06"]
    given = {
        text: sg.Extraction(
            units=(sg.SemanticUnit(text, (month,)),), entities=(sg.EntityMention(month, "date", text),)
        )
        for text, month in zip(texts, months, strict=True)
    }
    chunks = [sg.Chunk(text, f"doc-{number}", 0, ref=f"ref-{number}") for number, text in enumerate(texts)]
    extraction = {f"ref-{number}": given[text] for number, text in enumerate(texts)}
    embedder = sg.HashingEmbedder()
    with sg.build_index(chunks, extraction=extraction, embedder=embedder, progress=False) as index:
        found = index.retrieve("What happened in June 1913?", k=2, view="chunks")
    assert found.hits[0].text == texts[1]

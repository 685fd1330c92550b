"""What a question names, what it may mean where no entity has that name, and where a walk starts then."""

from __future__ import annotations

import pytest
from tests.cases import cases

import stratagraph as sg
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import Linked, link
from stratagraph.search.walk import PassageWalk, Provenance
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.opened import opened, snapshot_of

NAMES = [
    "Franz Liszt",
    "Philbrook Museum of Art",
    "Peter Rogers",
    "Peter Rodgers Organization",
    "president",
    "Tekezé River",
    "grand hotel",
    *[f"{first} Kennedy" for first in ("Jack", "Robert", "Ted", "Rose")],
    *[f"John {chr(ord('a') + place)}{place}" for place in range(13)],
    "The Who",
    "US",
]


def linked(question: str, entities: list[str] | None = None) -> Linked:
    return link(question, NameIndex(NameIndex.build(NAMES)), entities)


def near(question: str, entities: list[str] | None = None) -> dict[str, float]:
    _, _, rows, weights = linked(question, entities)
    return {NAMES[row]: weight for row, weight in zip(rows.tolist(), weights.tolist(), strict=True)}


def test_a_part_of_a_name_means_the_longer_one() -> None:
    assert near("Where is the Philbrook Museum?") == {"Philbrook Museum of Art": 1.0}


def test_namesakes_share_the_weight_of_their_name() -> None:
    assert near("Whom did Kennedy marry?") == {
        name: 0.25 for name in ("Jack Kennedy", "Robert Kennedy", "Ted Kennedy", "Rose Kennedy")
    }


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("When was a song by The Who played first?", ["The Who"]),
        ('Where was "The Who" founded?', ["The Who"]),
        ("Was it in the US?", ["US"]),
        ("Who told us?", []),
        ("When did The Who Was There appear?", []),
    ],
)
def test_words_of_grammar_are_names_where_they_are_written_so(question: str, named: list[str]) -> None:
    assert [NAMES[row] for row in linked(question).named] == named


@pytest.mark.parametrize(
    ("names", "question", "named", "contained"), cases(__file__, "a question names what it writes as a name")
)
def test_a_question_names_what_it_writes_as_a_name(
    names: list[str], question: str, named: list[int], contained: list[int]
) -> None:
    rows = link(question, NameIndex(NameIndex.build(names)))
    assert (rows.named.tolist(), rows.contained.tolist()) == (named, contained)


@pytest.mark.parametrize("question", ["Who taught Franz Lisszt?", "Who taught Frantz Liszt?"])
def test_a_misspelt_name_means_the_one_most_like_it(question: str) -> None:
    found = near(question)
    assert list(found) == ["Franz Liszt"]
    assert linked(question).named.tolist() == []


def test_candidates_share_the_weight_of_their_name() -> None:
    found = near("Who hired Peter Rodgers Organisation and Franz Lisszt?")
    assert found.pop("Franz Liszt") == 1.0
    assert found["Peter Rodgers Organization"] > 0.9
    assert sum(found.values()) == pytest.approx(1.0)


def test_a_name_that_an_entity_has_needs_no_candidates() -> None:
    found = linked("What did Peter Rogers produce?")
    assert found.named.tolist() == [2]
    assert found.near.tolist() == []


def test_a_part_of_many_names_and_a_name_like_no_other_mean_nothing() -> None:
    assert near("Who was John?") == {}
    assert near("Where is Xylqua?") == {}
    assert near("Who was Franz Ferdinand?") == {}  # one of two words


def test_a_question_that_names_nothing_may_mean_what_it_contains() -> None:
    found = near("who stayed with the president in the grand hotel?")
    assert found["grand hotel"] == 1.0
    assert 0 < found["president"] < 0.5  # a single word is seldom what a question is about
    assert near("Did the president meet Peter Rogers?") == {}


def test_names_that_a_model_gives_need_not_stand_in_the_question() -> None:
    found = linked("who taught the composer of the Faust Symphony?", ["Franz Liszt", "Tekeze River", "the"])
    assert found.named.tolist() == [0]
    assert [NAMES[row] for row in found.near] == ["Tekezé River"]


@pytest.mark.parametrize("names", [[], ["", "-", "the"]])
def test_an_index_without_names_links_nothing(names: list[str]) -> None:
    found = link(
        "Who taught Franz Liszt and the?", NameIndex(NameIndex.build(names)), ["Franz Liszt", "", "the"]
    )
    assert [part.size for part in found] == [0, 0, 0, 0]


def test_a_walk_starts_at_what_a_misspelt_name_means() -> None:
    texts = [f"A boat of the kind {n} is built of wood and was often sold." for n in range(30)]
    texts += ["The Quinceberry was made by Mara Quill.", "Mara Quill lies in Tolmouth, under a stone."]
    index = sg.build_index(
        [sg.Document(str(n), text) for n, text in enumerate(texts)], "lshtree", embedder=FakeEmbedder()
    )
    snapshot, over = snapshot_of(index), opened(index, "lshtree")
    walk = PassageWalk(over.corpus, Provenance(over.graph, over.corpus.size), over.passages)
    question = "Who painted the Quincebery?"
    vector = snapshot.vectors[0]  # the question is like another passage

    rows = walk.rank(question, vector, 3).rows.tolist()
    assert "30" in {chunk.document_id for chunk in snapshot.chunks(rows)}
    rows = walk.rank("Who painted it?", vector, 3).rows.tolist()
    assert "30" not in {chunk.document_id for chunk in snapshot.chunks(rows)}

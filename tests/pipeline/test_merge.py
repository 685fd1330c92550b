from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from stratarag.pipeline.merge import Merge, finish, merge
from stratarag.records import EntityMention, Extraction, RelationMention, SemanticUnit

names = st.sampled_from(["Ada", "ada", "The Ada", "Bo Li", "BO LI", "Ostra", "ostra.", "...", "R&D", "Café"])
texts = st.sampled_from(["", "sails", "sails the ferry", "is old"])
mentions = st.builds(EntityMention, names, st.sampled_from(["", "person", "place"]), texts)
relations = st.builds(RelationMention, names, names, texts, st.floats(0.5, 9))
units = st.builds(
    lambda text, of: SemanticUnit(text, tuple(of)), st.sampled_from(["x", "y"]), st.lists(names, max_size=3)
)
extractions = st.builds(
    lambda u, e, r, t: Extraction(tuple(u), tuple(e), tuple(r), tuple(t)),
    st.lists(units, max_size=2),
    st.lists(mentions, max_size=4),
    st.lists(relations, max_size=3),
    st.lists(st.sampled_from(["salt tithe", "glass"]), max_size=2, unique=True),
)
corpora = st.lists(extractions, max_size=6).map(lambda items: list(enumerate(items)))


@given(corpora, st.randoms())
def test_order_does_not_matter(corpus: list[tuple[int, Extraction]], chance: random.Random) -> None:
    shuffled = list(corpus)
    chance.shuffle(shuffled)
    assert finish(merge(shuffled)) == finish(merge(corpus))


@given(corpora, st.integers(0, 6), st.integers(0, 6))
def test_grouping_does_not_matter(corpus: list[tuple[int, Extraction]], one: int, two: int) -> None:
    first, second = sorted((one, two))
    a, b, c = merge(corpus[:first]), merge(corpus[first:second]), merge(corpus[second:])
    left, right = Merge(), Merge()
    left.update(a)
    left.update(b)
    left.update(c)
    b.update(c)
    right.update(a)
    right.update(b)
    assert finish(left) == finish(right) == finish(merge(corpus))


@given(corpora, st.sets(st.integers(0, 5)))
def test_every_record_has_exactly_the_chunks_that_contributed(
    corpus: list[tuple[int, Extraction]], gone: set[int]
) -> None:
    rest = finish(merge([(chunk, found) for chunk, found in corpus if chunk not in gone]))
    for record in (*rest.entities, *rest.relations, *rest.units):
        assert record.chunks
        assert not gone & set(record.chunks)
    whole = finish(merge(corpus))
    kept = {entity.key for entity in whole.entities if set(entity.chunks) - gone}
    assert {entity.key for entity in rest.entities} == kept


def test_names_are_one_whatever_their_case_articles_and_marks() -> None:
    spellings = [Extraction(entities=(EntityMention(name),)) for name in ("The Star", "star", "Star", "Star")]
    (entity,) = finish(merge(enumerate(spellings))).entities
    assert (entity.key, entity.name, entity.chunks) == ("star", "Star", (0, 1, 2, 3))


def test_what_cannot_be_kept_is_counted() -> None:
    found = finish(
        merge(
            [
                (
                    0,
                    Extraction(
                        entities=(EntityMention("!!!"),),
                        relations=(RelationMention("Ada", "ada"), RelationMention("Ada", "???")),
                    ),
                )
            ]
        )
    )
    assert found.notes == {
        "names that are no names dropped": 2,
        "relations of an entity with itself dropped": 1,
        "relations without two names dropped": 1,
    }
    assert not found.relations


def test_parallel_relations_add_their_strength_and_keep_their_fragments() -> None:
    found = finish(
        merge(
            [
                (0, Extraction(relations=(RelationMention("Ada", "Bo", "met", 2.0),))),
                (1, Extraction(relations=(RelationMention("Bo", "Ada", "wrote to", 3.0),))),
                (2, Extraction(relations=(RelationMention("Ada", "Bo", "met", 2.0),))),
            ]
        )
    )
    (relation,) = found.relations
    assert (relation.source, relation.target, relation.weight) == ("ada", "bo", 7.0)
    assert relation.fragments == ("met", "wrote to")
    assert relation.chunks == (0, 1, 2)


def test_terms_become_entities_only_when_promoted() -> None:
    collected = merge(
        [(0, Extraction(terms=("salt tithe",))), (3, Extraction(terms=("salt tithe", "glass")))]
    )
    assert finish(collected).entities == ()
    collected.promote_terms(["salt tithe"])
    (entity,) = finish(collected).entities
    assert (entity.key, entity.chunks) == ("salt tithe", (0, 3))


def test_renaming_moves_everything_and_ends_in_circles() -> None:
    collected = merge(
        [
            (0, Extraction(relations=(RelationMention("UN", "Ada", "hired"),))),
            (1, Extraction(entities=(EntityMention("United Nations", "organization", "a body"),))),
        ]
    )
    collected.rename({"un": "united nations", "united nations": "un"})
    found = finish(collected)
    assert [entity.key for entity in found.entities] == ["ada", "un"]
    assert found.entities[1].chunks == (0, 1)
    assert found.relations[0].chunks == (0,)

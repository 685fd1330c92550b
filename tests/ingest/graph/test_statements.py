from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ingest.support import Spans

import stratagraph as sg
from stratagraph.ingest.graph.lists import Lists
from stratagraph.ingest.graph.statements import described_by_units, entity_vectors, locate, means
from stratagraph.testing import FakeEmbedder

METHODS = ["noderag", "archrag", "hirag"]
TEXTS = {
    "a": "Hathe is a port.\nGreta Coil founded the Hathe Courant in 1888. She sold it to Perrow & Sons.",
    "b": "Perrow & Sons  printed maps. Greta Coil bought the Span in 1902.",
    "c": "The Span opened in 1871. It joins Hathe and Perrow.",
    "d": "Corin Vale painted the Span. Greta Coil paid him in maps.",
    "e": "Maps of Hathe were printed by Corin Vale. Perrow has a museum of maps.",
}


def documents(ids: str) -> list[sg.Document]:
    return [sg.Document(each, TEXTS[each], {}) for each in ids]


def graph_of(index: sg.Index) -> dict[str, Any]:
    arrays = index._folder.snapshot().part("graph").arrays
    wanted = {"units.vectors", "units.keys", "mentions.codes", "mentions.keys", "vectors"}
    return {name: np.array(arrays[name]) for name in arrays.keys() & wanted}


@pytest.fixture
def spans() -> Spans:
    return Spans()


def test_statements_are_found_whatever_the_blank_space():
    text = "One two.  Three\nfour. One two. Five"
    assert locate(text, ["One two.", "Three four.", "One two.", "Six"]) == {
        "One two.": (22, 30),
        "Three four.": (10, 21),
    }
    assert locate("", ["a"]) == {}


def test_means_are_unit_vectors_of_groups():
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], np.float16)
    found = means(vectors, Lists(np.array([0, 2, 2, 4, 5]), np.array([0, 1, 0, 2, 1])))
    np.testing.assert_allclose(found, [[0.5**0.5] * 2, [0, 0], [0, 0], [0, 1]], rtol=1e-6)
    assert means(vectors, Lists(np.zeros(1, np.int64), np.zeros(0, np.int64))).shape == (0, 2)


def test_names_tell_entities_of_the_same_sentence_apart():
    units = np.tile(np.array([[1, 0, 0, 0]], np.float32), (3, 1))
    codes = np.packbits(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]], bool), axis=1)
    first, second, without = entity_vectors(units, codes, np.array([5, 6, 0], np.uint64))
    assert 0.8 < first @ second < 0.99
    np.testing.assert_array_equal(without, units[0])
    assert not entity_vectors(np.zeros((1, 4), np.float32), codes[:1], np.array([5], np.uint64)).any()


def test_what_only_units_say():
    units = ["Greta Coil founded the Courant.", "She sold it."]
    assert described_by_units([], units)
    assert described_by_units(["She sold it.", "Greta Coil founded"], units)
    assert described_by_units(["Greta Coil founded the Courant. Then she left."], units)
    assert not described_by_units(["A publisher."], units)
    assert not described_by_units([], [])


def test_each_passage_is_embedded_once_and_nothing_else(spans, tmp_path):
    with sg.build_index(
        documents("abcd"), METHODS, path=tmp_path / "i", embedder=spans, progress=False
    ) as index:
        assert sorted(spans.passages) == sorted(TEXTS[each] for each in "abcd")
        names = len(spans.alone)
        assert all(len(text.split()) < 4 for text in spans.alone)  # names that no sentence has
        spans.passages.clear()
        index.insert(documents("e"))
        assert spans.passages == [TEXTS["e"]]
        assert len(spans.alone) <= names + 1
        assert index.last_report.stages["embed chunks"].embedded_texts == 1


def test_the_first_passage_that_states_something_gives_its_vector(spans, tmp_path):
    same = "Greta Coil founded the Hathe Courant in 1888."
    first, second = sg.Document("x", f"Long ago. {same}", {}), sg.Document("y", f"{same} So they say.", {})
    with (
        sg.build_index([second], "noderag", path=tmp_path / "i", embedder=spans, progress=False) as index,
        sg.build_index(
            [first, second], "noderag", path=tmp_path / "j", embedder=spans, progress=False
        ) as both,
    ):
        alone = graph_of(index)
        index.insert([first])
        np.testing.assert_array_equal(graph_of(index)["units.keys"], graph_of(both)["units.keys"])
        np.testing.assert_array_equal(graph_of(index)["units.vectors"], graph_of(both)["units.vectors"])
        index.delete(["x"])
        np.testing.assert_array_equal(graph_of(index)["units.vectors"], alone["units.vectors"])


def test_a_method_that_is_added_embeds_passages_for_their_statements(spans, tmp_path):
    other = Spans()
    with (
        sg.build_index(
            documents("abcd"), "lshtree", path=tmp_path / "i", embedder=spans, progress=False
        ) as index,
        sg.build_index(
            documents("abcd"), ["lshtree", "archrag"], path=tmp_path / "j", embedder=other, progress=False
        ) as whole,
    ):
        assert spans.passages == []
        index.add_method("archrag")
        assert sorted(spans.passages) == sorted(TEXTS[each] for each in "abcd")
        np.testing.assert_array_equal(graph_of(index)["vectors"], graph_of(whole)["vectors"])


def test_without_parts_distinct_units_are_embedded(tmp_path):
    embedder = FakeEmbedder(32)
    with sg.build_index(
        documents("abcd"), METHODS, path=tmp_path / "i", embedder=embedder, progress=False
    ) as index:
        units = index._folder.snapshot().part("graph").arrays["units.vectors"]
        assert 0 < index.last_report.stages["embed semantic units"].embedded_texts <= len(units)
        estimate = index.estimate(documents("e"))
        index.insert(documents("e"))
        stages = index.last_report.stages
        assert estimate.embedded_texts == sum(stage.embedded_texts for stage in stages.values())
        assert estimate.embedded_tokens == sum(stage.embedded_tokens for stage in stages.values()) > 0


def test_a_name_that_only_a_new_passage_makes_known_is_that_of_its_first_mention(spans):
    """A name at the front of one sentence alone is not taken for one; said within another, it is."""
    fillers = [sg.Document(f"f{at}", f"The {at}th ferry left late in {1900 + at}.") for at in range(30)]
    older = [*fillers, sg.Document("m", "Lind sold the old boat.")]
    new = sg.Document("n", "We saw Lind at the harbour.")
    with (
        sg.build_index(older, "archrag", embedder=spans, progress=False) as index,
        sg.build_index([*older, new], "archrag", embedder=Spans(), progress=False) as whole,
    ):
        assert not graph_of(index)["mentions.keys"].any()
        spans.passages.clear()
        index.insert([new])
        assert sorted(spans.passages) == ["Lind sold the old boat.", new.text]
        for name, array in graph_of(whole).items():
            np.testing.assert_array_equal(graph_of(index)[name], array, err_msg=name)

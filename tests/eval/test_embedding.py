"""One embedder and one split for all that is compared."""

from __future__ import annotations

import numpy as np

import stratagraph as sg
from stratagraph.eval import Dataset, Question, Ranker, evaluate
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.rankers import Workbench
from stratagraph.testing import FakeEmbedder, MemoryVectors


def test_passages_are_those_of_an_index() -> None:
    documents = tuple(
        sg.Document(key, " ".join([f"{key} stands on Orrin."] * 30)) for key in ("hill", "tower")
    )
    config, seen = {"chunking": {"size": 40, "overlap": 5}}, list[str]()

    class Looking(Ranker):
        name = "looking"

        def prepare(self, bench: Workbench) -> None:
            super().prepare(bench)
            seen.extend(chunk.text for chunk in bench.chunks)

        def rank(self, question: str, k: int) -> list[sg.eval.Passage]:
            return []

    data = Dataset("x", documents, (Question("q", "Where?", ("Orrin",), ("hill",)),))
    evaluate(data, [Looking()], config=config, embedder=FakeEmbedder(8), reference="", resamples=1)
    with sg.build_index(documents, embedder=FakeEmbedder(8), config=config, progress=False) as index:
        assert seen == [chunk.text for chunks in index.chunks().values() for chunk in chunks]
    assert len(seen) > 2


def test_the_embedder_is_asked_once_per_text_and_what_is_kept_lasts() -> None:
    passages, questions = ["one", "two", "one"], [f"what is {number}?" for number in range(30)]
    kept = MemoryVectors()
    shared = SharedEmbedder(inner := FakeEmbedder(16), kept)
    shared.learn(passages, questions)
    assert shared.name == inner.name
    assert (sum(inner.requests), shared.embedded) == (2, 2)
    vectors = shared.documents(passages)
    assert sum(inner.requests) == 2
    assert np.allclose(shared.question(questions[25]), inner.embed_query(questions[25]), atol=1e-6)

    again = SharedEmbedder(other := FakeEmbedder(16), kept)
    again.learn(passages, questions)
    assert np.array_equal(again.documents(passages), vectors)
    assert (sum(other.requests), again.embedded) == (0, 0)

    another = SharedEmbedder(FakeEmbedder(8), kept)
    another.learn(passages, questions)
    assert another.documents(passages).shape == (3, 8)

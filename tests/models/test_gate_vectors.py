from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from stratagraph.errors import EmbedderError, ModelError
from stratagraph.models.budget import Limits
from stratagraph.models.concurrency import Services
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryVectors, ServiceError
from tests.models.tasks import Pauses, Recorder, all_free, texts


def gate(embedder: object, **settings: Any) -> ModelGate:
    return ModelGate(None, embedder, **{"sleep": Pauses(), "limits": Limits(embed_batch=8), **settings})


class Bad:
    """Returns whatever it is told for texts that hold `bad`, else a fixed vector."""

    name = "bad"

    def __init__(self, fault: Any, dimension: int = 3) -> None:
        self.fault = fault
        self.good = [1.0] * dimension

    def embed_documents(self, given: list[str]) -> list[Any]:
        return [self.fault if "bad" in text else self.good for text in given]

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


async def test_unit_rows_in_order_each_distinct_text_once() -> None:
    embedder, progress = FakeEmbedder(16), Recorder()
    through = gate(embedder, progress=progress)
    wanted = [*texts(30), *texts(10)]
    vectors = await through.embed("chunks", wanted)
    assert vectors.shape == (40, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-3)
    np.testing.assert_array_equal(vectors[:10], vectors[30:])
    np.testing.assert_allclose(vectors[7], embedder.embed_query(wanted[7]), atol=1e-3)
    assert sum(embedder.requests) == 30
    assert max(embedder.requests) == 8
    assert through.dimension == 16
    assert through.ledger.stages["chunks"].embedded_texts == 30
    assert progress.done("chunks") == 40
    assert (await through.embed("chunks", [])).shape == (0, 16)


class Spans(FakeEmbedder):
    """Vectors of parts of texts too; whoever embeds a text by itself is counted apart."""

    def __init__(self, dimension: int = 16) -> None:
        super().__init__(dimension)
        self.passages: list[str] = []

    def embed_spans(self, given: list[str], spans: list[Any]) -> tuple[Any, Any]:
        self.passages += given  # one without parts may be embedded as any text
        parts = [text[start:end] for text, own in zip(given, spans, strict=True) for start, end in own]
        return self.vectors(given), self.vectors(parts)

    def vectors(self, given: list[str]) -> list[Any]:
        return [self.embed_query(text) for text in given]


async def test_parts_come_with_their_texts_from_one_pass() -> None:
    embedder, kept = Spans(), MemoryVectors()
    through = gate(embedder, vectors=kept)
    assert through.offers_spans
    assert not gate(FakeEmbedder()).offers_spans
    given = ["one two three", "four", "one two three"]
    spans = [[(0, 3), (4, 7)], [], [(0, 3), (4, 7)]]
    vectors, parts = await through.embed_spans("chunks", given, spans)
    assert vectors.shape == (3, 16)
    assert [each.shape for each in parts] == [(2, 16), (0, 16), (2, 16)]
    np.testing.assert_allclose(parts[0][1], embedder.embed_query("two"), atol=1e-3)
    np.testing.assert_array_equal(parts[0], parts[2])
    assert embedder.passages.count("one two three") == 1
    assert through.ledger.stages["chunks"].embedded_texts == 2

    again = gate(embedder, vectors=kept)
    resumed, inner = await again.embed_spans("chunks", given, spans)
    np.testing.assert_array_equal(resumed, vectors)
    np.testing.assert_array_equal(inner[0], parts[0])
    assert embedder.passages.count("one two three") == 1
    assert (await again.embed_spans("chunks", [], []))[0].shape == (0, 16)
    await again.embed_spans("chunks", given[:1], [[(8, 13)]])
    assert embedder.passages[-1] == given[0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([[1.0, 0.0]], "texts and of their parts"),
        (([[1.0, 0.0]], []), "0 vectors for 1 texts"),
        (([[1.0, 0.0]], [[1.0]]), "dimensions"),
    ],
)
async def test_parts_are_checked(returned: Any, message: str) -> None:
    class Faulty(Spans):
        def embed_spans(self, given: list[str], spans: list[Any]) -> Any:
            return returned

    with pytest.raises(EmbedderError, match=message):
        await gate(Faulty()).embed_spans("chunks", ["one two"], [[(0, 3)]])


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ([1.0, 1.0], "2 dimensions, where earlier vectors have 3"),
        ([], r"shape \(0,\)"),
        ([[1.0], [2.0], [3.0]], r"shape \(3, 1\)"),
        (None, ""),
        ([1.0] * 4, "4 dimensions, where earlier vectors have 3"),
        ("vector", "not a vector of numbers"),
    ],
)
async def test_what_is_no_vector_is_named(fault: Any, what: str) -> None:
    wanted = [f"text {n}" for n in range(20)]
    wanted[13] = "a bad text " + "that goes on " * 20
    with pytest.raises(EmbedderError, match=rf"{what}.* item 13: 'a bad text that goes on .{{36}}\.\.\.'"):
        await gate(Bad(fault)).embed("chunks", wanted)
    with pytest.raises(EmbedderError, match="the question"):
        await gate(Bad(fault), dimension=3).embed_query("bad")


class Refusing(FakeEmbedder):
    """Refuses requests with a text that holds `bad`, or all."""

    def __init__(self, status: int, word: str = "bad") -> None:
        super().__init__(16)
        self.status, self.word = status, word
        self.asked: list[list[str]] = []

    def embed_documents(self, given: list[str]) -> list[list[float]]:
        self.asked.append(given)
        if any(self.word in text for text in given):
            raise ServiceError(self.status)
        return super().embed_documents(given)


@pytest.mark.parametrize("at", [0, 13, 19])
@pytest.mark.parametrize("status", [400, 413, 422, 500, 503])
async def test_a_refused_batch_is_halved_until_the_text_at_fault_is_known(status: int, at: int) -> None:
    embedder = Refusing(status)
    wanted = [f"text {n}" for n in range(20)]
    wanted[at] = "bad"
    through = gate(embedder, limits=Limits(embed_batch=8, retries=1))
    vectors = await through.embed("chunks", wanted)
    assert np.flatnonzero(~vectors.any(axis=1)).tolist() == [at]
    (failure,) = through.failures
    assert failure.item == "'bad'"
    assert str(status) in failure.reason
    refused = [len(given) for given in embedder.asked if "bad" in given]
    assert refused == sorted(refused, reverse=True)
    assert len(set(refused)) <= 4
    assert len(refused) == len(set(refused)) * (2 if status >= 500 else 1)


@pytest.mark.parametrize(("status", "requests"), [(401, 2), (404, 2), (429, 3)])
async def test_other_refusals_concern_no_text(status: int, requests: int) -> None:
    embedder = Refusing(status)
    through = gate(embedder, limits=Limits(embed_batch=8, retries=1))
    with pytest.raises((EmbedderError, ModelError)):
        await through.embed("chunks", ["good", "one", "two", "bad"])
    assert len(embedder.asked) == requests
    assert through.failures == []


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_no_text_is_at_fault_while_none_has_a_vector(status: int) -> None:
    embedder = Refusing(status, word="")
    with pytest.raises((EmbedderError, ModelError)):
        await gate(embedder, limits=Limits(embed_batch=8, retries=0)).embed("chunks", texts(20))
    assert [len(given) for given in embedder.asked] == [1, 1]
    with pytest.raises((EmbedderError, ModelError)):
        await gate(embedder, limits=Limits(retries=0), dimension=16).embed("chunks", texts(20))
    assert [len(given) for given in embedder.asked[2:]] == [20, 1]


async def test_a_wrong_count_is_named() -> None:
    class Short(FakeEmbedder):
        def embed_documents(self, given: list[str]) -> list[list[float]]:
            return super().embed_documents(given)[: max(1, len(given) - 1)]

    with pytest.raises(EmbedderError, match=r"returned 7 vectors for 8 texts \(item 1 to item 8"):
        await gate(Short()).embed("chunks", texts(9))


async def test_large_and_small_entries_get_unit_length() -> None:
    class Extreme(Bad):
        def embed_documents(self, given: list[str]) -> list[list[float]]:
            return [[3e30, 4e30] if "big" in text else [3e-30, 4e-30] for text in given]

    vectors = await gate(Extreme(None)).embed("chunks", ["big", "small"])
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.6, 0.8]], rtol=1e-3)


async def test_the_journal_spares_what_was_computed() -> None:
    journal, embedder = MemoryVectors(), FakeEmbedder(16)
    first = await gate(embedder, vectors=journal).embed("chunks", texts(20))
    again = await gate(embedder, vectors=journal).embed("chunks", texts(25))
    np.testing.assert_array_equal(first, again[:20])
    assert sum(embedder.requests) == 25
    other = FakeEmbedder(16, name="other")
    await gate(other, vectors=journal).embed("chunks", texts(20))
    assert sum(other.requests) == 20


async def test_a_nameless_embedder_is_told_apart_by_its_dimension() -> None:
    class Nameless:
        def __init__(self, dimension: int) -> None:
            self.inner = FakeEmbedder(dimension)

        def embed_documents(self, given: list[str]) -> list[list[float]]:
            return self.inner.embed_documents(given)

    journal, small, large = MemoryVectors(), Nameless(8), Nameless(16)
    await gate(small, vectors=journal).embed("chunks", texts(20))
    assert (await gate(large, vectors=journal).embed("chunks", texts(20))).shape == (20, 16)
    await gate(small, vectors=journal).embed("chunks", texts(20))
    assert sum(small.inner.requests) == 21  # one text again, to learn the dimension


async def test_what_was_embedded_before_an_error_is_kept() -> None:
    class Expiring(FakeEmbedder):
        def embed_documents(self, given: list[str]) -> list[list[float]]:
            if len(self.requests) == 3:
                raise ServiceError(401, "expired")
            return super().embed_documents(given)

    journal, embedder = MemoryVectors(), Expiring(8)
    through = gate(embedder, vectors=journal, limits=Limits(embed_batch=8, embed_concurrency=1))
    with pytest.raises(ModelError, match="the embedder refuses every call"):
        await through.embed("chunks", texts(80))
    assert len(journal.entries) == sum(embedder.requests) > 8
    assert all_free(through)


class Twin(FakeEmbedder):
    """Both kinds of methods; only the asynchronous ones may be called."""

    now = most = 0

    async def aembed_documents(self, given: list[str]) -> list[list[float]]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.005)
        self.now -= 1
        return [self._vector(text).tolist() for text in given]

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]

    def embed_documents(self, given: list[str]) -> list[list[float]]:
        raise AssertionError("the blocking twin was used")

    embed_query = embed_documents  # type: ignore[assignment]


async def test_asynchronous_methods_are_preferred_and_gates_of_one_index_share_slots() -> None:
    limits, embedder = Limits(embed_concurrency=2, embed_batch=1), Twin(8)
    services = Services(limits)
    gates = [ModelGate(None, embedder, limits=limits, services=services) for _ in range(6)]
    await asyncio.gather(*(gate.embed("embed", texts(5)) for gate in gates))
    await asyncio.gather(*(gate.embed_query("q") for gate in gates))
    assert embedder.most == 2

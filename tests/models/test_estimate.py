from __future__ import annotations

import json

import numpy as np
import pytest

from stratagraph.models.budget import Prices
from stratagraph.models.estimate import CountingGate
from stratagraph.models.gate import Gate, ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls, ScriptedChatModel
from stratagraph.text.tokens import Estimate
from tests.models.tasks import PLACEHOLDER, TEXT, items, texts


async def recipe(gate: Gate) -> None:
    """Calls, repeated calls and embeddings, as a build makes them."""
    with gate.stage("describe", 40):
        answers = await gate.map(TEXT, [*items(30), *items(10)])
    assert None not in answers
    await gate.call(TEXT, {"text": "thing 3"}, item="again")
    await gate.call(TEXT, {"text": "one more"}, item="more")
    await gate.embed("embed", [*texts(20), *texts(5)])


async def test_an_estimate_is_what_the_build_then_costs() -> None:
    model, embedder, cache = ScriptedChatModel(PLACEHOLDER), FakeEmbedder(), MemoryCalls()
    await ModelGate(model, embedder, cache=cache).map(TEXT, items(12))

    counting = CountingGate(model, embedder, cache=cache)
    kept, calls, requests = dict(cache.entries), model.calls, list(embedder.requests)
    await recipe(counting)
    assert (cache.entries, model.calls, embedder.requests) == (kept, calls, requests)

    real = ModelGate(model, embedder, cache=cache)
    await recipe(real)
    for stage, usage in real.ledger.stages.items():
        estimated = counting.ledger.stages[stage]
        assert (estimated.calls, estimated.cached_calls) == (usage.calls, usage.cached_calls)
        assert (estimated.input_tokens, estimated.output_tokens) == (usage.input_tokens, usage.output_tokens)
        assert estimated.embedded_texts == usage.embedded_texts
        assert estimated.embedded_tokens == usage.embedded_tokens
    assert real.ledger.stages["describe"].cached_calls == 23
    assert real.ledger.stages["embed"].embedded_texts == counting.estimate().embedded_texts == 20
    assert counting.estimate().embedded_tokens == sum(map(Estimate(), texts(20)))


async def test_vectors_are_repeatable_and_of_the_wanted_dimension() -> None:
    first = await CountingGate(None, FakeEmbedder(), dimension=48).embed("embed", texts(50))
    second = await CountingGate(None, FakeEmbedder(), dimension=48).embed("embed", texts(50))
    assert first.shape == (50, 48)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-3)


async def test_presentation() -> None:
    counting = CountingGate(ScriptedChatModel(), FakeEmbedder())
    await recipe(counting)
    estimate = counting.estimate(Prices(1_000.0, 2_000.0))
    assert (estimate.calls, estimate.output_tokens) == (31, 5 * 31)
    assert estimate.cost == pytest.approx((estimate.input_tokens * 1_000 + 5 * 31 * 2_000) / 1e6)
    table = str(estimate).splitlines()
    assert " ".join(table[0].split()) == "stage calls cached tokens in tokens out embedded tokens"
    assert [line.split()[0] for line in table] == ["stage", "describe", "embed", "total", "cost:"]
    assert len({len(line) for line in table[:-1]}) == 1
    assert json.loads(json.dumps(estimate.to_dict()))["stages"]["describe"]["calls"] == 31
    assert "unknown" in str(counting.estimate())
    assert counting.estimate().to_dict()["cost"] is None

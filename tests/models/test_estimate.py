from __future__ import annotations

import json

import pytest

from stratagraph.models.budget import Prices
from stratagraph.models.estimate import CountingGate
from stratagraph.models.gate import Gate
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from tests.models.tasks import TEXT, items, texts


async def recipe(gate: Gate) -> None:
    """Calls, repeated calls and embeddings, as a build makes them."""
    with gate.stage("describe", 40):
        answers = await gate.map(TEXT, [*items(30), *items(10)])
    assert None not in answers
    await gate.call(TEXT, {"text": "thing 3"}, item="again")
    await gate.call(TEXT, {"text": "one more"}, item="more")
    await gate.embed("embed", [*texts(20), *texts(5)])


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

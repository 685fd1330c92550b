from __future__ import annotations

import io

from stratarag.models.gate import ModelGate
from stratarag.models.ledger import Ledger
from stratarag.progress import NoProgress, TqdmProgress
from stratarag.records import Usage
from stratarag.testing import ScriptedChatModel
from tests.models.tasks import TEXT, items


async def test_bars_show_stages() -> None:
    out = io.StringIO()
    gate = ModelGate(ScriptedChatModel("fine"), None, progress=TqdmProgress(out))
    with gate.stage("describe", 8):
        await gate.map(TEXT, items(8))
    assert "describe" in out.getvalue()
    assert "8/8" in out.getvalue()


def test_a_stage_may_come_again_or_not_at_all() -> None:
    progress = TqdmProgress(io.StringIO())
    for quiet in (progress, NoProgress()):
        quiet.advance("never begun")
        quiet.start("twice", None)
        quiet.start("twice", 3)
        quiet.advance("twice", 2)
        quiet.finish("twice")
        quiet.finish("twice")


def test_the_ledger_sums_by_stage() -> None:
    ledger = Ledger()
    ledger.add("b", Usage(calls=1, seconds=0.5))
    ledger.add("a", Usage(cached_calls=2))
    ledger.add("b", Usage(calls=2, input_tokens=7))
    assert list(ledger.stages) == ["b", "a"]
    assert ledger.stages["b"] == Usage(calls=3, input_tokens=7, seconds=0.5)
    assert ledger.total == Usage(calls=3, cached_calls=2, input_tokens=7, seconds=0.5)

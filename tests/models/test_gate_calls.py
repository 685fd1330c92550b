from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from pydantic import BaseModel

from stratagraph.errors import BudgetExceeded, CallFailed, ModelError, ParseFailed, TooManyFailures
from stratagraph.models.budget import Budget, Limits
from stratagraph.models.gate import ModelGate
from stratagraph.models.messages import Completion
from stratagraph.models.structured import json_as
from stratagraph.models.task import StageModels, Task
from stratagraph.testing import BlockingChatModel, MemoryCalls, ScriptedChatModel, ServiceError
from tests.models.tasks import ECHO, FACT, TEXT, Fact, Pauses, Recorder, all_free, items

GOOD = '{"subject": "a", "score": 2}'


def gate(model: object, **settings: object) -> ModelGate:
    return ModelGate(model, None, **{"cache": MemoryCalls(), "sleep": Pauses(), **settings})  # type: ignore[arg-type]


async def freed(through: ModelGate) -> None:
    """Wait until nothing is under way any more."""
    async with asyncio.timeout(60):
        while not all_free(through):
            await asyncio.sleep(0.01)


async def test_an_answer_is_kept_and_not_asked_for_again() -> None:
    model, cache = ScriptedChatModel(GOOD), MemoryCalls()
    for _ in range(2):
        through = gate(model, cache=cache)
        assert await through.call(FACT, {"text": "x"}, item="i", sources=("c1",)) == Fact(
            subject="a", score=2
        )
    assert model.calls == 1
    assert list(cache.sources.values()) == [("c1",)]
    assert through.ledger.total.cached_calls == 1
    assert through.ledger.total.calls == 0


async def test_one_repair_then_failure() -> None:
    model = ScriptedChatModel(["nonsense", GOOD])
    through = gate(model)
    assert (await through.call(FACT, {"text": "x"}, item="i")).subject == "a"
    assert "nonsense" in model.prompts[1]
    assert "no JSON" in model.prompts[1]
    assert model.prompts[0] in model.prompts[1]
    assert through.ledger.stages["fact"].calls == 2
    await through.call(FACT, {"text": "x"}, item="i")  # kept under the first question
    assert model.calls == 2

    model, cache = ScriptedChatModel(["nonsense", '{"subject": 1}']), MemoryCalls()
    with pytest.raises(ParseFailed, match=r"fact of 'i': .*score: Field required.*no JSON"):
        await gate(model, cache=cache).call(FACT, {"text": "x"}, item="i")
    assert model.calls == 2
    assert cache.entries == {}


async def test_a_kept_answer_that_no_longer_parses_is_asked_for_again() -> None:
    cache = MemoryCalls()
    await gate(ScriptedChatModel(GOOD), cache=cache).call(FACT, {"text": "x"}, item="i")
    cache.entries = dict.fromkeys(cache.entries, "of an older form")
    model = ScriptedChatModel(GOOD)
    await gate(model, cache=cache).call(FACT, {"text": "x"}, item="i")
    assert model.calls == 1
    assert list(cache.entries.values()) == [GOOD]


async def test_identical_calls_under_way_are_one_call() -> None:
    model = ScriptedChatModel(GOOD, latency=0.01)
    through = gate(model)
    facts = await asyncio.gather(*(through.call(FACT, {"text": "x"}, item=str(n)) for n in range(20)))
    assert model.calls == 1
    assert len({id(fact) for fact in facts}) == 20
    assert through.ledger.total.cached_calls == 19


async def test_one_of_several_waiting_for_a_call_may_be_cancelled() -> None:
    model = ScriptedChatModel(GOOD, latency=0.02)
    through = gate(model)
    first, second = (asyncio.create_task(through.call(FACT, {"text": "x"}, item=n)) for n in "ab")
    await asyncio.sleep(0.005)
    first.cancel()
    assert (await second).subject == "a"
    assert model.calls == 1
    assert all_free(through)


class Facts(BaseModel):
    facts: list[Fact]


LIST = Task("facts", ECHO, json_as(Facts), lambda values: Facts(facts=[]), schema=Facts)
WHOLE = '{"facts": [{"subject": "a", "score": 1}, {"subject": "b", "score": 2}]}'


@pytest.mark.parametrize(("start", "length"), [(0, len(WHOLE) - 2), (len('{"facts": '), len(WHOLE) - 30)])
async def test_json_without_its_end_is_asked_for_again_and_listed(start: int, length: int) -> None:
    """Some servers say `stop` where they mean `length`."""
    answer = Completion(WHOLE[start:length], finish_reason="stop")
    cache, model = (
        MemoryCalls(),
        ScriptedChatModel(lambda prompt: WHOLE if "stops before" in prompt else answer),
    )
    mended = gate(model, cache=cache)
    assert len((await mended.call(LIST, {"text": "x"}, item="i")).facts) == 2
    assert (model.calls, len(cache.entries), mended.failures) == (2, 1, [])

    cache, model = MemoryCalls(), ScriptedChatModel(lambda prompt: answer)
    through = gate(model, cache=cache, max_failures=0.0)
    found = await through.map(LIST, items(5))
    assert all(each is not None and each.facts for each in found)
    assert [each.item for each in through.failures] == [f"item-{n}" for n in range(5)]
    assert "incomplete" in through.failures[0].reason
    assert cache.entries == {}


@pytest.mark.parametrize(
    "answer", [WHOLE, WHOLE[:-1], f"Here it is [1]: {WHOLE}", f"```json\n{WHOLE}\n```", f"{WHOLE} (see [1)"]
)
async def test_json_with_its_end_is_asked_for_once(answer: str) -> None:
    model = ScriptedChatModel(lambda prompt: answer)
    through = gate(model)
    assert len((await through.call(LIST, {"text": "x"}, item="i")).facts) == 2
    assert (model.calls, through.failures) == (1, [])


async def test_a_blocking_request_that_is_late_keeps_its_slot_and_its_answer() -> None:
    model, cache = BlockingChatModel(GOOD, latency=0.4), MemoryCalls()
    limits = Limits(timeout=0.05, concurrency=3, grace=2)
    through = gate(model, cache=cache, limits=limits)
    with pytest.raises(TooManyFailures, match="cannot be stopped"):
        await through.map(FACT, items(6))
    assert model.most_at_once <= 3
    await freed(through)
    assert len(cache.entries) == model.calls <= 6


async def test_units_that_are_not_required_never_end_an_operation() -> None:
    through = gate(ScriptedChatModel("prose"))
    assert await through.map(FACT, items(8), required=False) == [None] * 8
    assert len(through.failures) == 8


async def test_a_model_per_stage() -> None:
    a, b, c = (ScriptedChatModel(GOOD, name=name) for name in "abc")
    through = gate(StageModels({"extract": a, "answer": b, "default": c}))
    for name, model in (("extract", a), ("answer", b), ("describe", c), ("archrag/filter", b)):
        before = model.calls
        await through.call(replace(FACT, name=name), {"text": name}, item="i")
        assert model.calls == before + 1
    with pytest.raises(ValueError, match="unknown stages of llm: summary"):
        StageModels({"summary": a, "default": a})
    with pytest.raises(ValueError, match="no model for summarize"):
        StageModels({"extract": a, "answer": a})


async def test_without_a_model() -> None:
    through = gate(None)
    assert not through.has_llm
    with pytest.raises(ModelError, match=r"'describe' needs a language model.*llm="):
        await through.call(TEXT, {"text": "x"}, item="i")


async def test_models_of_other_shapes() -> None:
    class Plain:
        def complete(self, prompt: str) -> str:
            return "plain"

    class Response:
        text = "of a response"

    class Framework:
        model_name = "some-model"

        async def acomplete(self, prompt: str, **keywords: object) -> Response:
            assert keywords == {"schema": None}
            return Response()

    class Odd:
        def complete(self, prompt: str) -> int:
            return 3

    assert await gate(Plain()).call(TEXT, {"text": "x"}, item="i") == "plain"
    assert await gate(Framework()).call(TEXT, {"text": "x"}, item="i") == "of a response"
    with pytest.raises(CallFailed, match="returned int"):
        await gate(Odd()).call(TEXT, {"text": "x"}, item="i")
    with pytest.raises(TypeError, match="neither complete"):
        gate(object())


async def test_map_keeps_order_and_its_limits() -> None:
    model, progress = ScriptedChatModel(lambda prompt: prompt, latency=0.003), Recorder()
    through = gate(model, limits=Limits(concurrency=4), progress=progress)
    with through.stage("describing", 60):
        answers = await through.map(TEXT, items(60))
    assert answers == [f"Say something about thing {n}." for n in range(60)]
    assert model.most_at_once == 4
    assert progress.told[0] == ("start", "describing", 60)
    assert progress.told[-1] == ("finish", "describing")
    assert progress.done("describing") == 60
    usage = through.ledger.stages["describing"]
    assert (usage.calls, list(through.ledger.stages)) == (60, ["describing"])
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert usage.seconds > 0
    assert through.prompts_used == {"echo": TEXT.prompt.fingerprint}
    assert await through.map(TEXT, []) == []


async def test_a_failed_unit_is_listed_and_the_others_go_on() -> None:
    model = ScriptedChatModel(lambda prompt: "" if "thing 3." in prompt else "fine")
    through = gate(model)
    answers = await through.map(TEXT, items(10))
    assert answers.count("fine") == 9
    assert answers[3] is None
    (failure,) = through.failures
    assert (failure.stage, failure.item) == ("describe", "item-3")
    assert "empty" in failure.reason


async def test_too_many_failures_end_a_stage_early() -> None:
    model = ScriptedChatModel("")
    through = gate(model, limits=Limits(concurrency=2))
    with pytest.raises(TooManyFailures, match=r"of 500 units failed.*item-0, item-1.*empty"):
        await through.map(TEXT, items(500))
    assert model.calls < 2 * 110
    assert all_free(through)


async def test_a_budget_of_calls_is_used_up_and_no_more() -> None:
    model, cache = ScriptedChatModel("fine", latency=0.002), MemoryCalls()
    for expected in (7, 14, 20):
        through = gate(model, cache=cache, budget=Budget(calls=7))
        if expected < 20:
            with pytest.raises(BudgetExceeded) as caught:
                await through.map(TEXT, items(20))
            message = str(caught.value)
            assert f"budget of calls=7 is reached at stage 'describe', {expected} of 20 done" in message
            assert "spent: 7 calls" in message
            assert "the same command resumes" in message
            assert "Budget(calls=...)" in message
        else:
            assert await through.map(TEXT, items(20)) == ["fine"] * 20
        assert model.calls == len(cache.entries) == expected
        assert all_free(through)


async def test_a_repair_counts_against_the_budget() -> None:
    model = ScriptedChatModel("")
    with pytest.raises(BudgetExceeded):
        await gate(model, budget=Budget(calls=1)).call(TEXT, {"text": "x"}, item="i")
    assert model.calls == 1


async def test_after_a_refusal_no_call_begins_and_what_is_out_is_kept() -> None:
    class Expiring(ScriptedChatModel):
        async def acomplete(self, prompt: str, *, schema: type[object] | None = None) -> str:
            answer = await super().acomplete(prompt, schema=schema)
            if "thing 5." in prompt:
                raise ServiceError(401, "expired")
            await asyncio.sleep(0.03)
            return answer

    model, cache = Expiring("fine", latency=0.01), MemoryCalls()
    through = gate(model, cache=cache, limits=Limits(concurrency=8))
    with pytest.raises(ModelError, match="expired"):
        await through.map(TEXT, items(100))
    assert model.calls < 20
    assert len(cache.entries) == model.calls - 1
    assert all_free(through)


async def test_cancellation_keeps_the_answers_that_are_on_their_way() -> None:
    model, cache = ScriptedChatModel("fine", latency=0.05), MemoryCalls()
    through = gate(model, cache=cache, limits=Limits(concurrency=5))
    work = asyncio.create_task(through.map(TEXT, items(100)))
    while model.calls < 5 and not work.done():
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert model.calls == len(cache.entries) == through.ledger.total.calls == 5
    assert all_free(through)


async def test_cancellation_does_not_wait_for_ever() -> None:
    model = ScriptedChatModel(faults=["stall"], cycle=True)
    through = gate(model, limits=Limits(grace=0.05))
    work = asyncio.create_task(through.map(TEXT, items(30)))
    await asyncio.sleep(0.02)
    work.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await work
    assert all_free(through)


async def test_a_cancelled_pause_sends_nothing_more() -> None:
    model = ScriptedChatModel(faults=["rate_limit"], cycle=True)
    through = gate(model, sleep=asyncio.sleep, limits=Limits(retries=50, longest_wait=60))
    work = asyncio.create_task(through.call(TEXT, {"text": "x"}, item="i"))
    await asyncio.sleep(0.02)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    calls = model.calls
    await asyncio.sleep(0.05)
    assert model.calls == calls
    assert all_free(through)


async def test_no_slot_is_lost_in_a_thousand_bad_calls() -> None:
    faults = [None, "rate_limit", ValueError("odd"), "garbage", "timeout", "auth", "empty", "server_error"]
    model = ScriptedChatModel(GOOD, latency=0.001, faults=faults, cycle=True)
    through = gate(model, limits=Limits(concurrency=9, retries=1, timeout=0.5))
    chance = random.Random(3)
    calls = [asyncio.create_task(through.call(FACT, item.values, item=item.item)) for item in items(1_000)]
    for call in calls:
        if chance.random() < 0.3:
            asyncio.get_running_loop().call_later(chance.random() / 4, call.cancel)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    kinds = {type(each) for each in outcomes}
    assert kinds == {Fact, CallFailed, ParseFailed, ModelError, asyncio.CancelledError}
    await freed(through)


async def test_a_stream_that_is_left_early_frees_its_slot() -> None:
    through = gate(ScriptedChatModel("one two three"))
    pieces = through.stream(TEXT.prompt, {"text": "x"}, stage="answer")
    assert await anext(pieces) == "one"
    await pieces.aclose()  # type: ignore[attr-defined]
    assert all_free(through)
    assert through.ledger.stages["answer"].calls == 1


async def test_a_model_that_never_answers_ends_even_a_small_operation() -> None:
    model = ScriptedChatModel(faults=[ValueError("api_key must be set")], cycle=True)
    with pytest.raises(TooManyFailures, match="api_key must be set"):
        await gate(model, limits=Limits(retries=0)).map(TEXT, items(2))
    answering = gate(ScriptedChatModel(faults=["empty"], cycle=True))
    assert await answering.map(TEXT, items(2)) == [None, None]

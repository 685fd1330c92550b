"""What a build tells of itself: lines of progress, spans, and a log that quotes no text."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.models import tracing
from stratagraph.models.gate import ModelGate
from stratagraph.operations.progress import LineProgress
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import Caller, CountingModel
from tests.models.tasks import TEXT

SECRET = "Zyxophane"
DOCUMENTS = [
    sg.Document(f"doc-{n}", f"{SECRET} number {n} was repaired in May {1900 + n}.") for n in range(8)
]
QUESTION = f"When was {SECRET} number 3 repaired?"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Spans that have ended, in the order of their ends."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("stratagraph"))
    yield exporter.get_finished_spans
    provider.shutdown()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def ancestors(span: Any, spans: Any) -> list[str]:
    """The names of the spans around one, from the inside."""
    by_id = {each.context.span_id: each for each in spans}
    found = []
    while span.parent is not None:
        span = by_id[span.parent.span_id]
        found.append(span.name)
    return found


def test_operations_stages_and_calls(spans: Any, call: Caller) -> None:
    config = {"extraction": {"mode": "llm", "form": "full"}}
    index = call.build(DOCUMENTS, llm=CountingModel(), config=config)
    call(index, "answer", QUESTION)
    found = spans()
    named: dict[str, list[Any]] = {}
    for each in found:
        named.setdefault(each.name, []).append(each)
    (build,), (answer,) = named["stratagraph build"], named["stratagraph answer"]
    assert build.attributes["stratagraph.documents"] == 8
    assert answer.attributes["stratagraph.method"] == "walk"
    asked = named["chat contract-model"]
    extraction = [each for each in asked if each.attributes["stratagraph.task"] == "extract"]
    assert len(extraction) == 8
    assert ancestors(extraction[0], found) == ["stratagraph stage extract", "stratagraph build"]
    (stage,) = named["stratagraph stage extract"]
    assert (stage.attributes["stratagraph.calls"], stage.attributes["stratagraph.units"]) == (8, 8)
    (written,) = [each for each in asked if each.attributes["stratagraph.task"] == "answer"]
    assert ancestors(written, found) == ["stratagraph stage answer", "stratagraph answer"]
    embedded = [each for each in found if each.name.startswith("embeddings ")]
    assert sum(each.attributes["stratagraph.texts"] for each in embedded) > 8
    assert ancestors(named["stratagraph retrieve"][0], found) == ["stratagraph answer"]


def test_no_span_quotes_a_text(spans: Any) -> None:
    model = ScriptedChatModel(faults=[ValueError(SECRET)], cycle=True)
    index = sg.build_index(
        DOCUMENTS, llm=CountingModel(), embedder=FakeEmbedder(), config={"max_failures": 1.0}, progress=False
    )
    with pytest.warns(RuntimeWarning, match="could not answer"):
        index.answer(QUESTION, llm=model)
    assert "".join(index.stream(QUESTION))
    found = spans()
    assert all(SECRET not in json.dumps(json.loads(each.to_json())) for each in found)
    failed = [each for each in found if each.name == "chat scripted"]
    assert failed[0].attributes["error.type"] == "ValueError"
    assert not failed[0].status.is_ok
    assert not failed[0].events


async def test_a_stream_that_is_given_up_ends_its_spans(spans: Any) -> None:
    index = await sg.abuild_index(DOCUMENTS, embedder=FakeEmbedder(), progress=False)
    pieces = index.astream(QUESTION, llm=ScriptedChatModel())
    await anext(pieces)
    await asyncio.create_task(pieces.aclose())  # in another context than it began in
    assert {"stratagraph stream", "chat scripted"} <= {each.name for each in spans()}


def test_tokens_of_a_real_client(spans: Any) -> None:
    pytest.importorskip("openai")
    from stratagraph.models.named import as_chat_model
    from tests.clients.server import ModelServer

    with ModelServer(write=lambda prompt: "fine") as server:
        gate = ModelGate(as_chat_model(f"openai:m@{server.openai}"), None)
        assert asyncio.run(gate.call(TEXT, {"text": "it"}, item="one")) == "fine"
    (chat,) = spans()
    assert chat.attributes["gen_ai.usage.input_tokens"] == server.input_tokens
    assert chat.attributes["gen_ai.usage.output_tokens"] == server.output_tokens
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat.attributes["server.address"] == "127.0.0.1"
    assert chat.attributes["gen_ai.request.model"] == "m"


def test_without_the_package_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    tracing._tracer.cache_clear()
    try:
        index = sg.build_index(DOCUMENTS, embedder=FakeEmbedder(), progress=False)
        assert len(index.retrieve(QUESTION, 3)) == 3
        assert tracing._tracer() is None
    finally:
        tracing._tracer.cache_clear()


def test_the_log_names_documents_and_quotes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def written(prompt: str) -> str:
        return f"I'm sorry, but I can't help with {SECRET}." if "number 3" in prompt else "{}"

    caplog.set_level(logging.WARNING, "stratagraph")
    index = sg.build_index(
        DOCUMENTS,
        llm=CountingModel(written),
        embedder=FakeEmbedder(),
        config={"max_failures": 1.0, "extraction": {"mode": "llm"}},
        progress=False,
    )
    assert index.last_report is not None
    failures = [each for each in index.last_report.failures if each.stage == "extract"]
    assert {each.documents for each in failures} >= {("doc-3",)}
    assert "extract: a unit failed (doc-3): its answer cannot be read" in caplog.text
    assert "build: 8 units failed, of documents doc-0, doc-1" in caplog.text
    assert SECRET not in caplog.text


def test_the_log_tells_stages_retries_and_repairs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stratagraph")
    model = ScriptedChatModel(lambda prompt: "{]", faults=["server_error"])
    config = {"extraction": {"mode": "llm"}}
    sg.build_index(DOCUMENTS[:1], llm=model, embedder=FakeEmbedder(), config=config, progress=False)
    for line in (
        "extract: begins (1 units)",
        "extract: ends after",
        "attempt 1: ServiceError",
        "asking again",
    ):
        assert line in caplog.text


class Terminal(io.StringIO):
    """Says that somebody looks at it."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("stratagraph.operations.progress.time.monotonic", lambda: now[0])
    out = Terminal()
    progress = LineProgress(out)
    progress.start("extract", 4000)
    for now[0] in (0.05, 10.0, 20.0):
        progress.advance("extract", 1000)
    progress.start("embed", None)
    now[0] = 25.0
    progress.advance("embed", 7)
    progress.finish("extract")
    progress.finish("embed")
    shown = out.getvalue().split("\r")
    assert shown[1].strip() == "extract: 2,000 of 4,000 (50 %), 200/s, 10 s left"
    assert shown[2].strip() == "extract: 3,000 of 4,000 (75 %), 150/s, 6.7 s left"
    assert shown[3].strip() == "embed ..."
    assert shown[4].strip() == "embed: 7, 1.4/s"
    assert shown[5].endswith("\n")
    assert out.getvalue().count("\n") == 2
    assert all(len(part.rstrip("\n")) < 80 for part in shown)


def test_a_long_stage_is_told_of_in_a_log_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("stratagraph.operations.progress.time.monotonic", lambda: now[0])
    out = io.StringIO()
    progress = LineProgress(out)
    progress.start("extract", 7200)
    for second in range(1, 31):
        now[0] = float(second)
        progress.advance("extract")
    progress.finish("extract")
    told = out.getvalue().splitlines()
    assert len(told) == 4
    assert told[0] == "extract: 10 of 7,200 (0 %), 1.0/s, 1 h 59 min left"
    assert told[-1] == "extract: 30 in 30 s"
    assert "\r" not in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_stages_share_one_line_in_a_notebook() -> None:
    kernel = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    progress = LineProgress(out := kernel())
    for stage, count in (("read", 3), ("publish", 0)):
        progress.start(stage, count or None)
        progress.advance(stage, count)
        progress.finish(stage)
    assert "\n" not in out.getvalue()
    shown = [line.split(":")[0].strip() for line in out.getvalue().split("\r")[1:]]
    assert shown == ["read", "publish ...", "publish"]


def test_a_build_without_a_model_shows_what_it_works_at() -> None:
    import stratagraph as sg

    out = Terminal()
    documents = [f"Ada Lund wrote letter {number} to Bremen." for number in range(40)]
    with sg.build_index(documents, embedder=sg.HashingEmbedder(), progress=LineProgress(out)):
        pass
    shown = [part.strip() for part in out.getvalue().split("\r")]
    assert {"merge ...", "graph ...", "store ...", "publish ..."} <= set(shown)
    assert any(part.startswith("extract: 40 in ") for part in shown)
    *_, last, cleared, rest = out.getvalue().split("\r")
    assert (last.strip(), cleared.strip(), rest) == ("publish ...", "", "")

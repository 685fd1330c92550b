"""The keys under which answers and vectors are kept, as literals.

A changed key means that every paid answer is paid again: change these on purpose only.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from stratagraph.models.gate import ModelGate, Prompt, Task
from stratagraph.models.identity import embedder_name, identity_of_model
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.models.providers import OpenAIChatModel, OpenAIEmbedder
from stratagraph.models.structured import json_as, plain_text, read_json
from stratagraph.testing import FakeEmbedder, MemoryCalls, MemoryVectors, ScriptedChatModel
from stratagraph.types.protocols import Spans
from tests.models.tasks import FACT, TEXT

TEMPLATE = 'You read texts.\n{{ role "user" }}\nRead this.\n<text>\n{{text}}\n</text>'
BLOCKS = Prompt("ask/blocks", TEMPLATE)
CLOSING = "a </text> that closes"


class Finding(BaseModel):
    """One finding."""

    summary: str = Field(description="one sentence")
    rating: float | None = Field(default=None, ge=0, le=10)


class Report(BaseModel):
    title: str = Field(min_length=1, alias="name")
    kind: str = "plain"
    findings: list[Finding] = []
    tags: tuple[str, ...] = ()


def read_object(value: Any, repaired: bool) -> Any:
    return value if isinstance(value, dict) else None


BLOCKS_TEXT = Task("blocks", BLOCKS, plain_text, lambda values: "x")
REPORT = Task("report", BLOCKS, json_as(Report), lambda values: Report(name="x"), schema=Report)
LOOSE: Task[Any] = Task("loose", BLOCKS, lambda answer: read_json(answer, read_object), lambda values: {})

JSON = '{"name": "a", "findings": [{"summary": "b", "rating": 3}]}'
FORMS: list[tuple[Task[Any], str, str, str]] = [
    (TEXT, "words", "thing 0", "2de2a699ddaaa8a1572069c6ee29752d"),
    (FACT, '{"subject": "a", "score": 1}', "thing 0", "4d3c2ea61d1bfccf21328db06eb5af58"),
    (BLOCKS_TEXT, "words", "thing 0", "be3e86c1b9490f7507fb6a99eaef84b8"),
    (BLOCKS_TEXT, "words", CLOSING, "444b28f1705a330203d7f7c5ce697e52"),
    (REPORT, JSON, "thing 0", "99e61abaffc13e398c6dad5da5541c90"),
    (LOOSE, JSON, "thing 0", "7e12ebfa4b73c7e6faec2330c02d845f"),
]


async def kept(llm: object, task: Task[Any], text: str, **keywords: Any) -> list[str]:
    """The keys in the cache after one call."""
    cache = MemoryCalls()
    await ModelGate(llm, None, cache=cache, **keywords).call(task, {"text": text}, item="i")
    return list(cache.entries)


@pytest.mark.parametrize(("task", "answer", "text", "key"), FORMS)
async def test_every_form_of_answer(task: Task[Any], answer: str, text: str, key: str) -> None:
    assert await kept(ScriptedChatModel(answer), task, text) == [key]


async def test_a_template_of_the_user() -> None:
    own = {"ask/blocks": "Mine: {{text}}"}
    keys = await kept(ScriptedChatModel("words"), BLOCKS_TEXT, "thing 0", prompts=own)
    assert keys == ["03089e655e58c4d970e3d6f2d556e359"]


async def test_a_server_and_its_settings() -> None:
    class Served(ScriptedChatModel):
        address = "http://127.0.0.1:8000/v1"
        settings = {"temperature": 0.5, "seed": 1}  # noqa: RUF012

    assert await kept(Served("words"), TEXT, "thing 0") == ["c850f9ef573bc40f20570a9ad38ef7b0"]


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        (
            "openai:gpt-4o-mini",
            'gpt-4o-mini {"server": "https://api.openai.com/v1", "settings": {"temperature": 0.0}}',
        ),
        (
            "openai:m@http://127.0.0.1:8000/v1",
            'm {"server": "http://127.0.0.1:8000/v1", "settings": {"temperature": 0.0}}',
        ),
        (
            "ollama:llama3.1",
            'llama3.1 {"server": "http://127.0.0.1:11434", '
            '"settings": {"num_ctx": 8192, "temperature": 0.0}}',
        ),
    ],
)
def test_chat_models_by_name(name: str, identity: str) -> None:
    assert identity_of_model(as_chat_model(name)) == identity


def test_settings_of_a_chat_model() -> None:
    model = OpenAIChatModel(
        "m",
        base_url="http://127.0.0.1:8000/v1",
        temperature=None,
        max_completion_tokens=9,
        seed=3,
        stop=["x"],
        extra_body={"min_p": 0.1, "user": "u"},
    )
    assert identity_of_model(model) == (
        'm {"server": "http://127.0.0.1:8000/v1", "settings": '
        '{"extra_body": {"min_p": 0.1}, "max_tokens": 9, "seed": 3, "stop": ["x"]}}'
    )


class Nameless:
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return FakeEmbedder(8).embed_documents(texts)


class WithParts(FakeEmbedder):
    def embed_spans(self, texts: list[str], spans: list[Spans]) -> tuple[Any, Any]:
        parts = [text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own]
        return self.embed_documents(texts), self.embed_documents(parts)


async def test_vectors() -> None:
    for embedder, key in (
        (FakeEmbedder(8), "e7791130db27ce85bd31e69a13417449"),
        (Nameless(), "3e7deaf8ee54c2f97ccd4aab2815ca94"),
    ):
        vectors = MemoryVectors()
        await ModelGate(None, embedder, vectors=vectors).embed("stage", ["thing 0"])
        assert list(vectors.entries) == [key]
    vectors = MemoryVectors()
    gate = ModelGate(None, WithParts(8, name="parts"), vectors=vectors)
    await gate.embed_spans("stage", ["thing 0"], [((0, 5), (6, 7))])
    assert list(vectors.entries) == [
        "c53291cc3ae0e24f73498c49ef689006",
        "767ca0fc2d6e6d7993eb5c9a0039bf55",
        "88691bd2a2a9fb32faf6bcb3e12f2e0a",
    ]


def test_names_of_embedders() -> None:
    by_name = {name: embedder_name(as_embedder(name), 8) for name in ("openai:e", "ollama:f", "hashing")}
    assert by_name == {"openai:e": "e", "ollama:f": "f", "hashing": "hashing-2048"}
    assert embedder_name(OpenAIEmbedder("e", dimensions=256), 256) == "e-256"
    assert embedder_name(Nameless(), 8) == "Nameless-8"

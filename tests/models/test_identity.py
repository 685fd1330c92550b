"""Models by name, what the key of a cached answer depends on, and what makes two embedders the same."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from stratagraph import _sync
from stratagraph.errors import MissingExtra
from stratagraph.models.gate import ModelGate
from stratagraph.models.identity import (
    embedder_name,
    identity_of_model,
    normalised_address,
    sampling_settings,
)
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.models.providers import OpenAIChatModel
from stratagraph.store.calls import SqliteCalls
from stratagraph.testing import FakeEmbedder
from tests.clients.server import ModelServer
from tests.models.tasks import TEXT


async def test_an_answer_of_one_server_is_not_given_for_another(tmp_path: Any) -> None:
    async def asked(server: ModelServer) -> str:
        cache = SqliteCalls(tmp_path / "calls.sqlite")  # opened anew, as after a restart
        try:
            llm = as_chat_model(f"openai:m@{server.openai}")
            return str(await ModelGate(llm, None, cache=cache).call(TEXT, {"text": "x"}, item="i"))
        finally:
            cache.close()

    with (
        ModelServer(write=lambda prompt: "from the first") as first,
        ModelServer(write=lambda prompt: "from the second") as second,
    ):
        assert await asked(first) == "from the first"
        assert await asked(second) == "from the second"
        assert await asked(first) == "from the first"
        assert (first.requests, second.requests) == (1, 1)


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("HTTP://LocalHost:80/v1/", "http://localhost/v1"),
        ("https://me:secret@api.example.com:443/v1", "https://api.example.com/v1"),
        ("https://api.example.com/v1?api_key=secret&team=a#x", "https://api.example.com/v1?team=a"),
        ("localhost:11434", "http://localhost:11434"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_has_one_spelling_and_no_secret(url: str, same: str) -> None:
    assert normalised_address(url) == same


class Answers(BaseModel):
    text: str


CHANGES: list[dict[str, Any]] = [
    {"temperature": 0.5},
    {"top_p": 0.9},
    {"seed": 1},
    {"max_tokens": 10},
    {"stop": ["x"]},
    {"frequency_penalty": 0.1},
    {"presence_penalty": 0.1},
    {"logit_bias": {"1": 2}},
    {"response_format": {"type": "json_object"}},
    {"response_format": Answers},
    {"reasoning_effort": "low"},
    {"extra_body": {"min_p": 0.1}},
    {"model_kwargs": {"min_p": 0.1}},
    {"additional_kwargs": {"min_p": 0.1}},
    {"model_version": "0613"},
    {"azure_deployment": "other"},
    {"base_url": "http://127.0.0.1:9/v1"},
    {"openai_api_base": "http://127.0.0.1:9/v2"},
    {"api_base": "http://127.0.0.1:9/v3"},
    {"endpoint": "http://127.0.0.1:9/v4"},
]
NO_CHANGES: list[dict[str, Any]] = [
    {"api_key": "sk-1"},
    {"openai_api_key": SecretStr("sk-1")},
    {"organization": "o"},
    {"timeout": 3.0},
    {"max_retries": 3},
    {"default_headers": {"X": "y"}},
    {"streaming": True},
    {"extra_body": {"user": "me", "api_key": "sk"}},
]


def test_every_setting_that_changes_an_answer_changes_the_key() -> None:
    plain = identity_of_model(SimpleNamespace(model="m"))
    changed = [identity_of_model(SimpleNamespace(model="m", **change)) for change in CHANGES]
    assert len({plain, *changed}) == len(CHANGES) + 1


@pytest.mark.parametrize("change", NO_CHANGES)
def test_account_and_transport_change_no_key(change: dict[str, Any]) -> None:
    assert identity_of_model(SimpleNamespace(model="m", **change)) == "m"
    assert sampling_settings(change) == {}


def test_a_refused_temperature_changes_no_key() -> None:
    model = OpenAIChatModel("m", base_url="http://127.0.0.1:9/v1")
    before = identity_of_model(model)
    assert model.drop_temperature()
    assert identity_of_model(model) == before


def test_a_password_in_an_address_is_shown_nowhere() -> None:
    model = as_chat_model("openai:m@http://me:secret@127.0.0.1:9/v1")
    assert "secret" not in identity_of_model(model) + model.address + str(model.given_name)


def test_an_embedder_on_another_port_is_the_same() -> None:
    names = {embedder_name(as_embedder(f"openai:e@http://127.0.0.1:{port}/v1"), 8) for port in (8000, 8001)}
    assert names == {"e"}
    assert embedder_name(FakeEmbedder(8), 8) != embedder_name(FakeEmbedder(16), 16)


class TestFrameworks:
    """The frameworks' own models; the settings are where these keep them."""

    def test_langchain(self) -> None:
        openai = pytest.importorskip("langchain_openai")
        prompts = pytest.importorskip("langchain_core.prompts")

        def chat(**changed: Any) -> Any:
            return openai.ChatOpenAI(**{"model": "m", "api_key": "sk-1", **changed})

        azure = {"azure_endpoint": "https://a.openai.azure.com", "api_version": "2024-06-01"}
        models = [
            chat(),
            chat(base_url="http://127.0.0.1:9/v1"),
            chat(temperature=0.5),
            chat(model_kwargs={"logit_bias": {"1": 2}}),
            chat(extra_body={"min_p": 0.1}),
            chat().bind(stop=["x"]),
            chat().bind(tools=[{"type": "function", "function": {"name": "f"}}]),
            openai.AzureChatOpenAI(model="m", api_key="k", azure_deployment="d", **azure),
            openai.AzureChatOpenAI(model="m", api_key="k", azure_deployment="e", **azure),
            prompts.ChatPromptTemplate.from_template("a {text}") | chat(),
            prompts.ChatPromptTemplate.from_template("b {text}") | chat(),
            prompts.ChatPromptTemplate.from_template("b {text}") | chat(base_url="http://127.0.0.1:9/v1"),
            chat().with_fallbacks([chat(model="n")]),
        ]
        assert len({identity_of_model(as_chat_model(each)) for each in models}) == len(models)
        for same in (chat(api_key="sk-2"), chat(timeout=3), chat().bind(user="me"), chat(organization="o")):
            assert identity_of_model(as_chat_model(same)) == identity_of_model(as_chat_model(chat()))
        assert identity_of_model(as_chat_model(chat())) == identity_of_model(as_chat_model("openai:m"))

    def test_langchain_where_the_server_is_in_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        openai = pytest.importorskip("langchain_openai")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        for model in (openai.ChatOpenAI(model="m", api_key="sk-1"), "openai:m"):
            assert "http://127.0.0.1:9/v1" in identity_of_model(as_chat_model(model))

    def test_ollama(self) -> None:
        ollama = pytest.importorskip("langchain_ollama")
        models = [ollama.ChatOllama(model="m", **each) for each in ({}, {"base_url": "http://127.0.0.1:9"})]
        assert len({identity_of_model(as_chat_model(each)) for each in models}) == 2

    def test_llama_index(self) -> None:
        like = pytest.importorskip("llama_index.llms.openai_like").OpenAILike
        base = {"model": "m", "api_base": "http://127.0.0.1:8/v1", "api_key": "k"}
        changes: list[dict[str, Any]] = [
            {},
            {"api_base": "http://127.0.0.1:9/v1"},
            {"temperature": 0.5},
            {"max_tokens": 10},
            {"additional_kwargs": {"seed": 1}},
            {"additional_kwargs": {"extra_body": {"min_p": 0.1}}},
            {"reasoning_effort": "low"},
        ]
        models = [as_chat_model(like(**{**base, **change})) for change in changes]
        assert len({identity_of_model(each) for each in models}) == len(models)
        other = as_chat_model(like(**{**base, "api_key": "other", "timeout": 3.0}))
        assert identity_of_model(other) == identity_of_model(models[0])


@pytest.mark.parametrize(
    ("provider", "address"),
    [
        ("openai", "127.0.0.1:9/v1"),
        ("ollama", "localhost"),
        ("langchain:openai", "ftp://h"),
        ("openai", "//h"),
    ],
)
def test_an_address_without_its_scheme_is_no_part_of_the_name(provider: str, address: str) -> None:
    """Else the documents would go to the provider's own servers."""
    for make in (as_chat_model, as_embedder):
        with pytest.raises(ValueError, match=r"does not begin with http:// or https://.*write it as"):
            make(f"{provider}:model@{address}")


@pytest.mark.parametrize("name", ["gpt-4o-mini", "other:x", "openai:", "", ":x"])
def test_unknown_names_say_what_is_known(name: str) -> None:
    for make in (as_chat_model, as_embedder):
        with pytest.raises(ValueError, match=r"known provider \(openai, ollama, langchain\)"):
            make(name)


def test_names_of_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    pytest.importorskip("langchain")
    pytest.importorskip("langchain_openai")
    with ModelServer(write=lambda prompt: "fine") as server:
        gate = ModelGate(
            as_chat_model(f"langchain:openai:m@{server.openai}"),
            as_embedder(f"langchain:ollama:e@{server.ollama}"),
        )
        assert _sync.run(gate.call(TEXT, {"text": "it"}, item="one")) == "fine"
        assert len(_sync.run(gate.embed("embed", ["one", "two"]))) == 2
        assert server.bodies[0]["model"] == "m"
        assert server.bodies[0]["temperature"] == 0
        assert sum(server.embedded) == 2


def test_what_langchain_does_not_know_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain")
    for make, what in ((as_chat_model, "llm"), (as_embedder, "embedder")):
        with pytest.raises(ValueError, match=f"{what}='langchain:nobody:x': .*nobody"):
            make("langchain:nobody:x")
        with pytest.raises(ImportError, match=r"pip install .?langchain-cohere"):
            make("langchain:cohere:x")
        with pytest.raises(ImportError):  # a version is part of the name, and no address
            make("langchain:google_vertexai:claude@20250514")
    monkeypatch.setitem(sys.modules, "langchain", None)
    with pytest.raises(MissingExtra, match=r"pip install langchain$"):
        as_chat_model("langchain:openai:m")

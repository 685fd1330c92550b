"""Models by name: what is refused, before anything is sent anywhere."""

from __future__ import annotations

import sys

import pytest

from stratagraph import _sync
from stratagraph.errors import MissingExtra
from stratagraph.models.gate import ModelGate
from stratagraph.models.named import as_chat_model, as_embedder
from tests.clients.server import ModelServer
from tests.models.tasks import TEXT


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

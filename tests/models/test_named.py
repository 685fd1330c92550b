"""Models by name: what is refused, before anything is sent anywhere."""

from __future__ import annotations

import pytest

from stratarag.models.hashing import HashingEmbedder
from stratarag.models.named import as_chat_model, as_embedder


@pytest.mark.parametrize("address", ["127.0.0.1:9/v1", "localhost", "ftp://host/v1", "//host"])
@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_an_address_without_its_scheme_is_no_part_of_the_name(provider: str, address: str) -> None:
    """Else the documents would go to the provider's own servers."""
    for make in (as_chat_model, as_embedder):
        with pytest.raises(ValueError, match=r"does not begin with http:// or https://.*write it as"):
            make(f"{provider}:model@{address}")


@pytest.mark.parametrize("name", ["gpt-4o-mini", "other:x", "openai:", "", ":x"])
def test_unknown_names_say_what_is_known(name: str) -> None:
    for make in (as_chat_model, as_embedder):
        with pytest.raises(ValueError, match=r"known provider \(openai, ollama\)"):
            make(name)


def test_local_embedders_have_names() -> None:
    assert isinstance(as_embedder("hashing"), HashingEmbedder)

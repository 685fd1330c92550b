"""What the tests of both frameworks share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def fresh_settings() -> Iterator[None]:
    """Nothing is set in LlamaIndex; whoever wakes a default imports OpenAI, which is not there."""
    from llama_index.core import Settings

    before = Settings._llm, Settings._embed_model
    Settings._llm = Settings._embed_model = None
    yield
    Settings._llm, Settings._embed_model = before


@pytest.fixture
def mcp_client() -> Any:
    """The client of the MCP SDK's second major version."""
    pytest.importorskip("mcp.server.mcpserver", reason="the SDK is of its first major version")
    from mcp import Client

    return Client

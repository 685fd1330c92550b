"""An agent with the first major version of the SDK, which `langchain-mcp-adapters` needs.

Skipped with the second one; a job of the workflow `tests` installs the first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
import pytest

mcp = pytest.importorskip("mcp")
if hasattr(mcp, "Client"):
    pytest.skip("the SDK is of its second major version", allow_module_level=True)

# ruff: noqa: E402
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from starlette.testclient import TestClient

import stratagraph as sg
from stratagraph.mcp import create_server, http_app
from stratagraph.server import Settings

TOKEN = "a token that is long enough"


async def test_tools_over_standard_input(folder: Path) -> None:
    start = "from stratagraph.cli.main import main; main()"
    arguments = ["-c", start, "mcp", str(folder), "--embedder", "hashing", "--write"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        about = await session.initialize()
        assert about.serverInfo.version == sg.__version__
        tools = (await session.list_tools()).tools
        writing = {tool.name for tool in tools if tool.annotations and not tool.annotations.readOnlyHint}
        assert writing == {"add_document", "delete_documents"}
        found = await session.call_tool("search", {"question": "Who steered the ferry?", "k": 1})
        assert found.structuredContent
        assert found.structuredContent["hits"][0]["documents"] == ["ferry.txt"]
        refused = await session.call_tool("search", {"question": "Who?", "wher": {}})
        assert refused.isError
        assert "no argument 'wher'" in refused.content[0].text
        resources = (await session.list_resources()).resources
        ferry = next(each for each in resources if each.name == "ferry.txt")
        assert (await session.read_resource(ferry.uri)).contents[0].text.startswith("Mara Quill")
        added = await session.call_tool("add_document", {"id": "new", "text": "Bo sails."})
        assert added.structuredContent
        assert added.structuredContent["added"] == ["new"]
        gone = await session.call_tool("delete_documents", {"ids": ["new"]})
        assert gone.structuredContent
        assert gone.structuredContent["deleted"] == ["new"]


def test_http_asks_for_its_token(folder: Path) -> None:
    server = create_server(folder, lambda: sg.open_index(folder, embedder=sg.HashingEmbedder()))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}
    with TestClient(http_app(server, Settings(token=TOKEN)), base_url="http://127.0.0.1:8766") as client:
        assert client.post("/mcp", json=body).status_code == httpx.codes.UNAUTHORIZED
        assert "list_documents" in client.post("/mcp", json=body, headers=headers).text

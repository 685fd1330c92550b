"""An agent with the first major version of the SDK: run with that version before others on the path.

usage: python first_major.py INDEX
"""

import asyncio
import os
import sys
from importlib.metadata import version

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from starlette.testclient import TestClient

import stratagraph as sg
from stratagraph.mcp import create_server, http_app
from stratagraph.server import Settings

TOKEN = "a token that is long enough"


async def over_standard_input(folder: str) -> None:
    start = "from stratagraph.cli.main import main; main()"
    arguments = ["-c", start, "mcp", folder, "--embedder", "hashing", "--write"]
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


def over_http(folder: str) -> None:
    server = create_server(folder, lambda: sg.open_index(folder, embedder=sg.HashingEmbedder()))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}
    with TestClient(http_app(server, Settings(token=TOKEN)), base_url="http://127.0.0.1:8766") as client:
        assert client.post("/mcp", json=body).status_code == httpx.codes.UNAUTHORIZED
        assert "list_documents" in client.post("/mcp", json=body, headers=headers).text


assert version("mcp").startswith("1."), version("mcp")
asyncio.run(over_standard_input(sys.argv[1]))
over_http(sys.argv[1])
print("as with the second")

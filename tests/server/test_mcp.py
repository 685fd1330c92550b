"""An index as tools, asked by the SDK's own client: in this process, over standard input, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg

pytest.importorskip("mcp.server.mcpserver")
pytest.importorskip("fastapi")

from click.testing import CliRunner
from mcp import Client, MCPError, StdioServerParameters
from starlette.testclient import TestClient

from stratagraph.cli.main import main
from stratagraph.mcp import create_server, http_app
from stratagraph.server import Settings
from stratagraph.store.folder import IndexFolder
from tests.server.conftest import DOCUMENTS, serving

QUESTION = "Who steered the ferry from Ostra to Bremen?"
COMMAND = [sys.executable, "-c", "from stratagraph.cli.main import main; main()", "mcp"]


def opened(folder: Path, **options: Any) -> Any:
    return create_server(folder, lambda: sg.open_index(folder, embedder=sg.HashingEmbedder()), **options)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


READING = {"search", "answer", "read_passage", "read_document", "list_documents", "explain"}
WRITING = {"add_document", "delete_documents"}


async def check(client: Client, tools: set[str] = READING) -> None:
    """The way an agent goes: what tools there are, a search, what stands around a hit, an answer."""
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == tools
    assert all(tool.description for tool in listed)
    assert {tool.name for tool in listed if tool.annotations.read_only_hint} == READING
    found = await called(client, "search", question=QUESTION, k=3)
    best = found["hits"][0]
    assert (best["documents"], best["number"], len(found["hits"])) == (["ferry.txt"], 1, 3)
    assert best["why"]
    reading = await called(client, "read_passage", passage=best["passages"][0])
    assert (reading["document"], reading["passages"][0]["text"]) == ("ferry.txt", best["text"])
    answer = await called(client, "answer", question=QUESTION)
    assert "Mara Quill" in answer["text"]
    assert f"[{answer['sources'][0]['number']}]" in answer["text"]
    listed = await called(client, "list_documents", text="lamps")
    assert [each["id"] for each in listed["documents"]] == ["lamps.txt"]
    told = await called(client, "explain", question=QUESTION)
    assert {"Ostra", "Bremen"} <= set(told["named"])
    assert any({each["source"], each["target"]} == {"Mara Quill", "Ostra"} for each in told["relations"])


async def test_tools_within_the_process(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        await check(client)


async def test_errors_are_told_to_the_agent(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        for tool, arguments, said in (
            ("search", {"question": QUESTION, "k": 0}, "k"),
            ("search", {"question": QUESTION, "method": "archrag"}, "archrag"),
            ("read_passage", {"passage": "nowhere"}, "nowhere"),
            ("read_document", {"document": "nowhere"}, "nowhere"),
            ("add_document", {"id": "a", "text": "b"}, "add_document"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert said in result.content[0].text


async def test_documents_are_resources(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        listed = (await client.list_resources()).resources
        assert {each.name for each in listed} == {each.id for each in DOCUMENTS}
        for each in DOCUMENTS:
            address = next(str(found.uri) for found in listed if found.name == each.id)
            (content,) = (await client.read_resource(address)).contents
            assert " ".join(content.text.split()) == " ".join(each.text.split())
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "stratagraph://documents/{id}"
        for wrong in ("stratagraph://documents/nowhere", "file:///etc/passwd"):
            with pytest.raises(MCPError, match=wrong.rpartition("/")[2]):
                await client.read_resource(wrong)


async def test_documents_are_added_replaced_and_deleted_where_that_is_allowed(folder: Path) -> None:
    async with Client(opened(folder, write=True)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["add_document"].annotations.destructive_hint
        new = {"id": "seal", "text": "Ottoline Vane fed a seal at Skerry Point.", "metadata": {"year": 1892}}
        assert (await called(client, "add_document", **new))["added"] == ["seal"]
        assert (await called(client, "add_document", **new))["unchanged"] == ["seal"]
        asked = {"question": "Who fed a seal?", "where": {"year": 1892}, "k": 1}
        assert (await called(client, "search", **asked))["hits"][0]["documents"] == ["seal"]
        new["text"] = "Ottoline Vane fed two seals."
        assert (await called(client, "add_document", **new))["updated"] == ["seal"]
        assert (await called(client, "delete_documents", ids=["seal"]))["deleted"] == ["seal"]
        assert (await called(client, "search", **asked))["hits"] == []


async def test_a_change_that_cannot_be_made_says_why_and_makes_none(folder: Path) -> None:
    async with Client(opened(folder, write=True)) as client:
        for tool, arguments, said in (
            ("add_document", {"id": "a", "text": "  "}, "the text of document 'a' is blank"),
            ("add_document", {"id": "", "text": "b"}, "id"),
            ("add_document", {"id": " ", "text": "b"}, "the id of document ' ' is blank"),
            ("add_document", {"id": "a", "text": "b", "meta": {}}, "no argument 'meta'"),
            ("add_document", {"id": "a", "text": "b" * 1_000_001}, "text"),
            ("delete_documents", {"ids": ["ferry.txt", "nowhere"]}, "there is no document 'nowhere'"),
            ("delete_documents", {"ids": []}, "ids"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, arguments
            assert said in result.content[0].text
            assert (await called(client, "list_documents"))["total"] == len(DOCUMENTS)


async def test_tools_over_standard_input(folder: Path) -> None:
    arguments = [*COMMAND[1:], str(folder), "--embedder", "hashing", "--write"]
    async with Client(StdioServerParameters(command=COMMAND[0], args=arguments)) as client:
        await check(client, READING | WRITING)
        assert (await called(client, "add_document", id="a", text="Bo sails."))["added"] == ["a"]
    with sg.open_index(folder, embedder=sg.HashingEmbedder()) as index:
        assert index.chunks("a")


def test_the_registry_s_entry_starts_this_server(folder: Path) -> None:
    root = Path(__file__).parents[2]
    entry = json.loads((root / "server.json").read_text("utf-8"))
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == sg.__version__
    assert f"mcp-name: {entry['name']}" in (root / "README.md").read_text("utf-8")
    values = [each.get("value", str(folder)) for each in package["packageArguments"]]
    assert values == ["mcp", str(folder)]
    assert package["identifier"] == "stratagraph"
    (extras,) = [each["value"] for each in package["runtimeArguments"] if each["name"] == "--with"]
    assert extras == "stratagraph[mcp,local]"


async def test_an_index_of_the_local_model_names_what_serves_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    sg.build_index(["Mara Quill steered."], path=tmp_path / "idx", embedder="minilm", progress=False).close()
    without = f"import sys; sys.modules['onnxruntime'] = None; {COMMAND[2]}"
    arguments = ["-c", without, "mcp", str(tmp_path / "idx")]
    async with Client(StdioServerParameters(command=COMMAND[0], args=arguments)) as client:
        result = await client.call_tool("search", {"question": "Who steered?"})
    assert result.is_error
    assert "pip install 'stratagraph[mcp,local]'" in result.content[0].text
    assert "uvx --with 'stratagraph[mcp,local]' stratagraph mcp INDEX" in result.content[0].text


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    command = [*COMMAND, str(folder), "--embedder", "hashing", "--http", "--port", "0"]
    with serving(command, "MCP: ") as address:
        yield address


async def test_tools_over_http(address: str) -> None:
    async with Client(address) as client:
        await check(client)


async def test_http_asks_for_its_token(folder: Path) -> None:
    app = http_app(opened(folder), Settings(token="a token that is long enough"))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with TestClient(app, base_url="http://127.0.0.1:8766") as client:
        assert client.post("/mcp", json=body).status_code == 401
        assert client.post("/mcp", json=body, headers={"host": "evil.example.com"}).status_code == 421
        foreign = {"origin": "http://evil.example.com", "authorization": "Bearer a token that is long enough"}
        assert client.post("/mcp", json=body, headers=foreign).status_code == 403


async def test_http_takes_no_idle_streams_and_the_longest_text_and_hides_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 200_000  # with its escapes it is more than other requests may have
    monkeypatch.setattr("stratagraph.mcp.LONGEST", longest)
    headers = {"accept": "application/json, text/event-stream", "origin": "http://evil.example.com"}

    def request(tool: str, **arguments: Any) -> dict[str, Any]:
        return {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }

    with TestClient(
        http_app(opened(folder, write=True), Settings()), base_url="http://127.0.0.1:8766"
    ) as client:
        refused = client.get("/mcp", headers=headers)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        del headers["origin"]
        assert client.delete("/mcp", headers=headers).status_code == 405
        long = ("\u0442\u0438\u0445\u043e " * longest)[:longest]
        added = client.post("/mcp", json=request("add_document", id="long", text=long), headers=headers)
        assert "'long'" not in added.text
        assert '"added":["long"]' in added.text.replace(" ", "").replace("\\", "")
        too_large = client.post("/mcp", content=b"x" * (14 * longest), headers=headers)
        assert too_large.status_code == 413
        assert "--max-upload" not in too_large.text
        (folder / "CURRENT").write_text("9")
        broken = client.post("/mcp", json=request("add_document", id="b", text="b"), headers=headers)
        assert "isError" in broken.text
        assert str(folder) not in broken.text


async def test_metadata_and_titles_are_bounded(folder: Path) -> None:
    async with Client(opened(folder, write=True)) as client:
        for metadata in ({"title": "Z" * 100_000}, {str(at): at for at in range(5_000)}):
            refused = await client.call_tool(
                "add_document", {"id": "m", "text": "A seal.", "metadata": metadata}
            )
            assert refused.is_error
            assert "may have 20,000: nothing was added" in refused.content[0].text
        wide = {"title": "Seals " * 500, **{f"field {at}": "value " * 10 for at in range(100)}}
        await called(client, "add_document", id="m", text="Ottoline Vane fed a seal.", metadata=wide)
        (hit,) = (await called(client, "search", question="Who fed a seal?", k=1))["hits"]
        (entry,) = (await called(client, "list_documents", text="seals"))["documents"]
        for shown in (hit, entry):
            assert len(shown["title"]) <= 201
            assert len(json.dumps(shown["metadata"])) < 3_000
            assert "more fields" in list(shown["metadata"].values())[-1]


async def test_what_replaces_a_document_keeps_its_metadata_unless_it_brings_other(folder: Path) -> None:
    async with Client(opened(folder, write=True)) as client:
        seal = {"id": "seal", "text": "Ottoline Vane fed a seal."}
        await called(client, "add_document", **seal, metadata={"tenant": "a"})
        assert (await called(client, "add_document", **seal))["unchanged"] == ["seal"]
        await called(client, "add_document", id="seal", text="Ottoline Vane fed two seals.")
        asked = {"question": "Who fed seals?", "where": {"tenant": "a"}, "k": 1}
        assert (await called(client, "search", **asked))["hits"][0]["documents"] == ["seal"]
        await called(client, "add_document", **seal, metadata={})
        found = await called(client, "search", **asked)
        assert found["hits"] == []
        assert "list_documents shows which fields" in found["note"]


async def test_a_change_waits_for_another_process_and_tells_nothing_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratagraph.mcp._PATIENCE", 1.0)
    ours, theirs = opened(folder, write=True), opened(folder, write=True)
    async with Client(ours) as one, Client(theirs) as other:
        adding = [
            called(at, "add_document", id=f"{n} {who}", text=f"Person {n} swims.")
            for n in range(3)
            for who, at in (("a", one), ("b", other))
        ]
        assert all(each["added"] for each in await asyncio.gather(*adding))
        with IndexFolder.open(folder).writer("insert"):
            refused = await one.call_tool("add_document", {"id": "late", "text": "Bo sails."})
    assert refused.is_error
    said = refused.content[0].text
    assert "Locked: another process changed the documents" in said
    assert not any(word in said for word in (str(folder), str(os.getpid())))


async def test_the_text_of_a_resource_is_that_of_its_document(folder: Path) -> None:
    texts = {"long": "x" * 20_000, "lines": "One line.\n\nAnother one.\n" * 900}
    async with Client(opened(folder, write=True)) as client:
        for name, text in texts.items():
            await called(client, "add_document", id=name, text=text)
            (content,) = (await client.read_resource(f"stratagraph://documents/{name}")).contents
            assert content.text.strip() == text.strip()


async def test_an_index_that_does_not_open_is_an_error_of_each_request(tmp_path: Path) -> None:
    async with Client(opened(tmp_path / "nowhere")) as client:
        result = await client.call_tool("search", {"question": QUESTION})
        assert result.is_error
        assert "nowhere" in result.content[0].text
        with pytest.raises(MCPError, match="nowhere") as caught:
            await client.list_resources()
        assert caught.value.code == -32603


def test_options_that_the_mode_has_no_use_for_are_refused(folder: Path) -> None:
    for given in (
        ("--port", "9"),
        ("--host", "1.2.3.4"),
        ("--allow-host", "x"),
        ("--json",),
        ("--max-calls", "3"),
    ):
        done = CliRunner().invoke(main, ["mcp", str(folder), *given])
        assert done.exit_code == 2, given
        assert given[0] in done.stderr
        assert "give --" in done.stderr


def test_a_folder_without_an_index_is_told_at_the_start(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["mcp", str(tmp_path / "nowhere")])
    assert "there is no index at" in done.stderr


async def test_a_blank_question_has_an_empty_result(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        found = await called(client, "search", question="  ")
        assert (found["hits"], found["note"]) == ([], "the question is blank")
        assert (await called(client, "answer", question=""))["sources"] == []


def test_a_missing_package_is_an_error_through_the_protocol(folder: Path) -> None:
    missing = "import sys; sys.modules['mcp'] = None; from stratagraph.cli.main import main; main()"
    request = '{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}\n'
    done = subprocess.run(
        [sys.executable, "-c", missing, "mcp", str(folder)], input=request, capture_output=True, text=True
    )
    reply = json.loads(done.stdout.splitlines()[0])
    assert reply["id"] == 7
    assert "pip install 'stratagraph[mcp]'" in reply["error"]["message"]
    (line,) = done.stderr.strip().splitlines()
    assert line.endswith("is not installed. Install it with: pip install 'stratagraph[mcp]'")
    assert done.returncode == 1


async def test_tools_take_no_other_arguments(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        for arguments in (
            {"llm": "openai:m@http://127.0.0.1:9/v1"},
            {"where": {"year": {"$in": list(range(2000))}}},
            {"k": 10**9},
        ):
            assert (await client.call_tool("search", {"question": QUESTION, **arguments})).is_error


async def test_a_misspelt_filter_is_an_error(folder: Path) -> None:
    async with Client(opened(folder)) as client:
        for tool in ("search", "answer", "explain"):
            given = {"question": QUESTION, "filter": {"year": 1891}}
            result = await client.call_tool(tool, given)
            assert result.is_error
            assert f"{tool} has no argument 'filter'; it has question, " in str(result.content)

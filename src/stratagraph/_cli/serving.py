"""`stratagraph serve`: an index in a browser, and as an API; `stratagraph mcp`: as an agent's tools."""

from __future__ import annotations

import json
import sys
import webbrowser
from typing import Any

import click

import stratagraph as sg
from stratagraph._cli.options import (
    budget,
    budget_options,
    cache_dir_option,
    cache_option,
    index_argument,
    models_options,
)
from stratagraph._cli.output import Output, command

_MIB = 2**20

access_options = [
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--token", envvar="STRATAGRAPH_TOKEN", help="What clients must bring; made if it is needed."
    ),
    click.option("--allow-host", "hosts", multiple=True, help="A name under which it is asked. Repeatable."),
    click.option("--allow-origin", "origins", multiple=True, help="A site whose pages may ask. Repeatable."),
]


@click.command()
@index_argument
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@click.option("--read-only", is_flag=True, help="No adding and deleting.")
@click.option(
    "--max-upload", default=64, show_default=True, type=click.IntRange(1), help="MiB of a document."
)
@click.option("--rate", default=100.0, show_default=True, help="Requests a second of a client.")
@click.option("--answers", default=60.0, show_default=True, help="Answers a minute of a client.")
@click.option("--open/--no-open", "browse", default=False, help="Open the page in a browser.")
@models_options
@budget_options
@cache_option
@cache_dir_option
@command
def serve(
    index: str,
    host: str,
    port: int,
    token: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    read_only: bool,
    max_upload: int,
    rate: float,
    answers: float,
    browse: bool,
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    cache_dir: str | None,
    output: Output,
) -> None:
    """Show INDEX in a browser: ask, read, look around, add and delete documents. Also a REST API.

    Listens on this machine alone unless --host says otherwise; then every request needs a token.
    """
    from stratagraph import server

    spend = budget(max_calls, max_tokens)
    settings = server.Settings(
        server.checked_token(host, token), hosts, origins, read_only, max_upload * _MIB, rate, answers
    )
    app = server.create_app(
        index,
        lambda progress: sg.open_index(
            index, llm, embedder, budget=spend, cache=cache, progress=progress, cache_dir=cache_dir
        ),
        settings,
    )

    def started(address: str) -> None:
        shown = address if settings.token is None else f"{address}#token={settings.token}"
        addresses = {"url": shown, "api": f"{address}api/openapi.json"}
        output.show(addresses, lambda: iter([f"page: {shown}", f"API:  {addresses['api']}", "Ctrl-C stops."]))
        if browse:
            webbrowser.open(shown)

    server.run(app, host, port, started=started)


@click.command()
@index_argument
@click.option("--http", is_flag=True, help="Speak HTTP, path /mcp, instead of standard input and output.")
@click.option("--port", default=8766, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@models_options
@budget_options
@cache_option
@command
def mcp(
    index: str,
    http: bool,
    host: str,
    port: int,
    token: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    llm: Any,
    embedder: Any,
    max_calls: int | None,
    max_tokens: int | None,
    cache: str | None,
    output: Output,
) -> None:
    """Give INDEX to an agent as tools (Model Context Protocol): search, answer, read, list, explain."""
    try:
        from stratagraph import mcp as tools
    except sg.errors.MissingExtra as error:
        if not http:
            _answer_by_hand(str(error))
        raise
    from stratagraph import server

    spend = budget(max_calls, max_tokens)
    made = tools.create_server(index, lambda: sg.open_index(index, llm, embedder, budget=spend, cache=cache))
    if not http:
        made.run("stdio")
        return
    settings = server.Settings(server.checked_token(host, token), hosts, origins)

    def started(address: str) -> None:
        addresses = {"url": f"{address}mcp", "token": settings.token}
        lines = [f"MCP: {addresses['url']}"] + ([f"token: {settings.token}"] if settings.token else [])
        output.show(addresses, lambda: iter([*lines, "Ctrl-C stops."]))

    server.run(tools.http_app(made, settings), host, port, started=started)


def _answer_by_hand(message: str) -> None:
    """Answer an agent's first request with an error, in JSON-RPC, where the protocol's package is missing."""
    request = json.loads(sys.stdin.readline() or "{}")
    error = {"code": -32603, "message": message}
    click.echo(json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "error": error}))


for option in reversed(access_options):
    serve, mcp = option(serve), option(mcp)

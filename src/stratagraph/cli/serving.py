"""`stratagraph serve | mcp`: an index as a web page and API, or as tools of an agent."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import stratagraph as sg
from stratagraph.cli.options import (
    Decorator,
    WrongOption,
    cache_dir_option,
    index_argument,
    open_options,
    together,
)
from stratagraph.cli.output import Output, command

_MIB = 2**20

_access_options = together(
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--token", envvar="STRATAGRAPH_TOKEN", help="Token that clients must send; generated if needed."
    ),
    click.option("--allow-host", "hosts", multiple=True, help="Allowed Host header; may be repeated."),
    click.option(
        "--allow-origin", "origins", multiple=True, help="Allowed origin of web pages; may be repeated."
    ),
)


def _port_option(port: int) -> Decorator:
    help_ = "Port; 0 chooses a free one."
    return click.option("--port", default=port, show_default=True, type=click.IntRange(0, 65535), help=help_)


@click.command()
@index_argument
@_port_option(8765)
@click.option("--read-only", is_flag=True, help="Forbid adding and deleting documents.")
@click.option(
    "--max-upload",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum size of a document, in MiB.",
)
@click.option("--rate", default=100.0, show_default=True, help="Requests per second and client.")
@click.option("--answers", default=60.0, show_default=True, help="Answers per minute and client.")
@click.option("--open/--no-open", "browse", default=False, help="Open the page in a browser.")
@_access_options
@open_options
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
    models: dict[str, Any],
    cache_dir: str | None,
    output: Output,
) -> None:
    """Serve INDEX as a web page and a REST API: ask, browse, add and delete documents.

    It listens on this machine only, unless --host is given; then every request needs a token.
    """
    from stratagraph import server

    settings = server.Settings(
        server.checked_token(host, token), hosts, origins, read_only, max_upload * _MIB, rate, answers
    )
    app = server.create_app(
        index,
        lambda progress: sg.open_index(index, **models, progress=progress, cache_dir=cache_dir),
        settings,
    )

    def started(address: str) -> None:
        shown = address if settings.token is None else f"{address}#token={settings.token}"
        addresses = {"url": shown, "api": f"{address}api/openapi.json"}
        output.show(addresses, lambda: [f"page: {shown}", f"API:  {addresses['api']}", "Ctrl-C stops."])
        if browse:
            webbrowser.open(shown)

    server.run(app, host, port, started=started)


@click.command()
@index_argument
@click.option("--write", is_flag=True, help="Also give tools that add and delete documents.")
@click.option("--http", is_flag=True, help="Use HTTP at the path /mcp instead of standard input and output.")
@_port_option(8766)
@_access_options
@open_options
@command
def mcp(
    index: str,
    write: bool,
    http: bool,
    host: str,
    port: int,
    token: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    models: dict[str, Any],
    output: Output,
) -> None:
    """Serve INDEX to agents as tools (Model Context Protocol): search, answer, read, list, explain."""
    try:
        from stratagraph import mcp as tools
    except ImportError as error:
        if not http:  # answers the agent's first request in JSON-RPC, since a package of it is missing
            try:
                request_id = json.loads(sys.stdin.readline())["id"]
            except (ValueError, TypeError, KeyError):
                request_id = None
            failure = {"code": -32603, "message": str(error)}
            click.echo(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": failure}))
        raise
    from stratagraph import server

    if not http:  # standard input and output have no use for these
        context = click.get_current_context()
        of_http = {"host", "port", "token", "hosts", "origins"}
        for option in context.command.params:
            given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
            if output.as_json or (given and option.name in of_http):
                name = "--json" if output.as_json else option.opts[0]
                raise WrongOption(f"{name} is for --http: give --http too, or leave it out")
    if "://" not in index and not Path(index).exists():
        click.echo(f"there is no index at {index} yet; tools will say so until there is one", err=True)

    def opened() -> sg.Index:
        try:
            return sg.open_index(index, **models)
        except sg.errors.MissingExtra as error:
            if error.extra is None:
                raise
            extras = f"mcp,{error.extra}"
            started = f". If uvx starts the server: uvx --with 'stratagraph[{extras}]' stratagraph mcp INDEX"
            raise sg.errors.MissingExtra(error.what, extras, started) from error

    agent_server = tools.create_server(index, opened, write=write)
    if not http:
        agent_server.run("stdio")
        return
    settings = server.Settings(server.checked_token(host, token), hosts, origins)

    def started(address: str) -> None:
        addresses = {"url": f"{address}mcp", "token": settings.token}
        lines = [f"MCP: {addresses['url']}"] + ([f"token: {settings.token}"] if settings.token else [])
        output.show(addresses, lambda: [*lines, "Ctrl-C stops."])

    server.run(tools.http_app(agent_server, settings), host, port, started=started)

"""`stratagraph serve`: an index as a web page and a REST API.

guard       settings; the middleware: host, origin, token, rate, size; security headers
connection  time limits of a connection
state       what request handlers share: the open index, changes with their progress, costs
asking, browsing, changing      routes with their schemas: questions, contents, documents
page/       the page: HTML, style and scripts
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from stratagraph.errors import require

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp
except ModuleNotFoundError:
    require("server", "fastapi", "starlette", "uvicorn")
    raise

import stratagraph as sg
from stratagraph.server import asking, browsing, changing
from stratagraph.server.guard import Guard, Refused, Settings, checked_token, is_loopback
from stratagraph.server.state import Costs, JobProgress, Jobs, Library, State, Uploads, public
from stratagraph.types.protocols import Progress

__all__ = ["Settings", "checked_token", "create_app", "is_loopback", "run"]

Open = Callable[[Progress], sg.Index]
CONNECTIONS = 500
"""Connections and requests at the same time; more are answered with 503."""
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (sg.errors.MethodMissing, 404),
    (sg.errors.Locked, 409),
    (sg.errors.BudgetExceeded, 402),
    (sg.errors.StoreError, 503),
    (sg.errors.MissingExtra, 501),
    (sg.errors.StratagraphError, 502),
    (KeyError, 404),
    (ValueError, 422),
    (TypeError, 422),
)


def create_app(path: str | Path, open_index: Open, settings: Settings | None = None) -> FastAPI:
    """Create the application, for any ASGI server, or mounted in another application.

    Parameters
    ----------
    path
        The index folder, or a URL, whose index is read-only.
    open_index
        Opens the index with the given `Progress` and your models:
        `lambda progress: sg.open_index(path, llm, progress=progress)`.
    settings
        Who may ask, and how much. None: the defaults, without a token.
    """
    settings = settings or Settings()
    progress, costs = JobProgress(), Costs()
    library = Library(path, lambda: open_index(progress))
    if library.url is not None:
        settings = replace(settings, read_only=True)
    state = State(library, Jobs(costs, progress, library.places), costs, settings, Uploads())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(library.warm())
        yield
        await warming
        library.close()
        state.uploads.close()

    app = FastAPI(
        title="stratagraph",
        version=sg.__version__,
        description="An index: questions, contents and changes.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.server = state
    for part in (asking, browsing, changing):
        app.include_router(part.router, prefix="/api")
    for kind in (HTTPException, RequestValidationError, *(kind for kind, _ in _STATUS)):
        app.add_exception_handler(kind, _error_response)
    public = {"/"}
    for prefix, folder in (
        ("/d3", files("stratagraph.viz") / "assets" / "d3"),
        ("", files(__name__) / "page"),
    ):
        app.mount(prefix, StaticFiles(directory=str(folder), html=not prefix))
        public |= {f"{prefix}/{file.name}" for file in folder.iterdir()}
    body_bytes = {"/api/files/": settings.upload_bytes, "/api/documents": changing.DOCUMENTS_BYTES}
    app.add_middleware(Guard, settings=settings, public=public, answers=asking.ANSWERS, body_bytes=body_bytes)
    return app


async def _error_response(request: Request, error: Exception) -> JSONResponse:
    """An error as JSON, with its kind and its message."""
    if isinstance(error, Refused):
        return error.response()
    if isinstance(error, HTTPException):
        body = {"error": "Refused", "message": str(error.detail)}
        return JSONResponse(body, error.status_code, error.headers)
    if isinstance(error, RequestValidationError):
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        return JSONResponse({"error": "WrongRequest", "message": faults}, 422)
    message = public(error, request.app.state.server.library.places)
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return JSONResponse({"error": type(error).__name__, "message": message}, status)


def run(app: ASGIApp, host: str, port: int, *, started: Callable[[str], None]) -> None:
    """Serve until interrupted (Ctrl-C), then return.

    Parameters
    ----------
    app
        What `create_app` returns, or another ASGI application.
    host, port
        The address to listen on; port 0 takes a free one.
    started
        Called with the address once the server listens.
    """
    import uvicorn

    from stratagraph.server.connection import TimedProtocol

    config = uvicorn.Config(
        app,
        host,
        port,
        http=TimedProtocol,
        ws="none",
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
    )
    server = uvicorn.Server(config)

    async def main() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            shown, at = server.servers[0].sockets[0].getsockname()[:2]
            started(f"http://{f'[{shown}]' if ':' in shown else shown}:{at}/")
        await serving

    with suppress(KeyboardInterrupt):
        asyncio.run(main())

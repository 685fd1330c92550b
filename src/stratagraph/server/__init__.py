"""`stratagraph serve`: an index as one page in a browser, and as an API.

settings    who may ask, and how much
guard       what every request passes: host, origin, token, rate, size; security headers
library     the index, followed where others write to it
jobs        changes, one after the other, with progress
costs       what everything cost
state       what handlers share
views       schemas of requests and answers
asking, browsing, changing      the API: questions, contents, documents
page/       the page: HTML, style and scripts, served as they are
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from stratagraph.errors import MissingExtra

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp
except ImportError as error:
    raise MissingExtra("FastAPI or uvicorn", "server") from error

import stratagraph as sg
from stratagraph.protocols import Progress
from stratagraph.server import asking, browsing, changing
from stratagraph.server.costs import Costs
from stratagraph.server.guard import Guard
from stratagraph.server.jobs import JobProgress, Jobs, TooMany
from stratagraph.server.library import Library
from stratagraph.server.settings import Settings, checked_token, is_loopback
from stratagraph.server.state import State

__all__ = ["Settings", "checked_token", "create_app", "is_loopback", "run"]

Open = Callable[[Progress], sg.Index]
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (sg.errors.MethodMissing, 404),
    (sg.errors.Locked, 409),
    (sg.errors.BudgetExceeded, 402),
    (sg.errors.StoreError, 503),
    (sg.errors.MissingExtra, 501),
    (sg.errors.StratagraphError, 502),
    (TooMany, 429),
    (KeyError, 404),
    (ValueError, 422),
    (TypeError, 422),
)


def create_app(path: str | Path, open_index: Open, settings: Settings | None = None) -> FastAPI:
    """The application, for any ASGI server.

    Parameters
    ----------
    path
        The index folder, or a URL, whose index can only be read.
    open_index
        Opens it with the `Progress` that it is given, and with the caller's models:
        `lambda progress: sg.open_index(path, llm, progress=progress)`.
    settings
        Who may ask, and how much; None: the defaults, without a token.
    """
    settings = settings or Settings()
    progress, costs = JobProgress(), Costs()
    library = Library(path, lambda: open_index(progress))
    if library.url is not None:
        settings = replace(settings, read_only=True)
    state = State(library, Jobs(costs, progress), costs, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(library.warm())
        yield
        await warming
        library.close()

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
    for kind in (HTTPException, RequestValidationError, TooMany, KeyError, ValueError, TypeError):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(sg.errors.StratagraphError, _told)
    drawing = files("stratagraph.viz") / "assets" / "d3"
    app.mount("/d3", StaticFiles(directory=str(drawing)))
    app.mount("/", StaticFiles(directory=str(files(__name__) / "page"), html=True))
    app.add_middleware(Guard, settings=settings, uploads=changing.UPLOADS)
    return app


async def _told(_: Request, error: Exception) -> JSONResponse:
    """An error as JSON: its kind and its message."""
    if isinstance(error, HTTPException):
        body = {"error": getattr(error, "kind", "Refused"), "message": str(error.detail)}
        return JSONResponse(body, error.status_code)
    if isinstance(error, RequestValidationError):
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        return JSONResponse({"error": "WrongRequest", "message": faults}, 422)
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    return JSONResponse({"error": type(error).__name__, "message": message}, status)


def run(app: ASGIApp, host: str, port: int, *, started: Callable[[str], None]) -> None:
    """Serve until interrupted (Ctrl-C), then return; `started` is told the address once the server listens.

    Port 0 takes a free one.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("FastAPI or uvicorn", "server") from error

    config = uvicorn.Config(app, host, port, log_level="warning", server_header=False, proxy_headers=False)
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

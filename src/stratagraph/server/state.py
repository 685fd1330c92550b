"""What the handlers of requests share."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from stratagraph.server.costs import Costs
from stratagraph.server.jobs import Jobs
from stratagraph.server.library import Library
from stratagraph.server.reading import Uploads
from stratagraph.server.settings import Settings


@dataclass(frozen=True, slots=True)
class State:
    """The state of one server: index, changes, costs, guard and uploads."""

    library: Library
    jobs: Jobs
    costs: Costs
    settings: Settings
    uploads: Uploads


async def state_of(request: Request) -> State:
    """The server that a request came to; a coroutine, since others are run in threads."""
    state: State = request.app.state.server
    return state

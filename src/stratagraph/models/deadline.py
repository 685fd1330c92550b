"""How long a request may take, and what becomes of one that takes longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stratagraph.errors import CallFailed
from stratagraph.models.limiter import Slot
from stratagraph.models.log import logger
from stratagraph.models.pending import PendingCall


async def within(
    timeout: float,
    request: Awaitable[Any],
    slot: Slot,
    *,
    who: str,
    pending: PendingCall | None,
    given_up: Callable[[], None] = lambda: None,
) -> Any:
    """The result of a request, if it comes within `timeout` seconds; after half of them it is called late.

    A request that is out is paid for, and so nothing is sent in its place while it is. In the end an
    asynchronous one is cancelled, which closes its connection; a thread cannot be stopped, so that the
    callers of `pending` are let go, `given_up` is told, and the answer is recorded if it still comes.

    Raises
    ------
    TimeoutError
        The request was cancelled: another may be sent.
    CallFailed
        A thread works on, and there is no `pending` that could record its answer.
    """
    task = asyncio.ensure_future(request)
    try:
        if not (await asyncio.wait({task}, timeout=timeout / 2))[0]:
            logger.warning("%s: no answer within %g s; still waiting", who, timeout / 2)
            await asyncio.wait({task}, timeout=timeout / 2)
        if not task.done() and slot.working:
            error = CallFailed(
                f"{who}: no answer within timeout={timeout:g} s. The request cannot be stopped, and so "
                "is not repeated; give the server more time with Limits(timeout=...)"
            )
            if pending is None:
                raise error
            slot.abandoned = True
            given_up()
            pending.give_up(error)
            return await task
    except BaseException:
        await _cancel(task)
        raise
    if task.done():
        return task.result()
    await _cancel(task)
    raise TimeoutError(f"no answer within timeout={timeout:g} s")


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a request and wait until it has ended."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()

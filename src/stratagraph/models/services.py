"""What all operations of an index share, whatever they do at the same time."""

from __future__ import annotations

import asyncio

from stratagraph.models.budget import Limits, Sleep
from stratagraph.models.limiter import Limiter, Slots
from stratagraph.models.wrap import Threads


class Services:
    """The limits of an index on its models, held over all its gates at once.

    Attributes
    ----------
    limiter
        Slots and rates of the chat model.
    embed_slots
        Slots of the embedder.
    threads
        Where blocking models run.
    refused_schemas
        Model and schema of the requests that a server rejected for their schema.
    """

    def __init__(self, limits: Limits, *, sleep: Sleep = asyncio.sleep) -> None:
        self.limiter = Limiter(limits, sleep=sleep)
        self.embed_slots = Slots(limits.embed_concurrency)
        self.threads = Threads(limits)
        self.refused_schemas: set[tuple[str, str]] = set()

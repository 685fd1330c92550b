"""Where the pure stages of a build run: threads and processes of this machine, or a cluster of Ray."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from stratagraph.mapping.processes import ApartMapper, ProcessMapper
from stratagraph.mapping.ray import RayMapper
from stratagraph.mapping.threads import ThreadMapper, growing, in_order
from stratagraph.types.checks import positive
from stratagraph.types.protocols import Mapper

__all__ = ["KINDS", "as_mapper", "check_sendable", "growing", "in_order", "mapper"]

KINDS = ("threads", "processes", "ray")
_NAMED = re.compile(r"(?P<kind>ray)@(?P<address>.+)|(?P<plain>\w+)")


def mapper(
    kind: str = "threads",
    workers: int | None = None,
    *,
    address: str | None = None,
    embed: bool | None = None,
    shared_files: bool | None = None,
) -> Mapper:
    """Where a build does the work that needs no paid model, for `build_index(..., mapper=...)`.

    Files are read, names found, texts embedded and extracts written by pure functions over batches; the
    results are the same byte for byte wherever that is. Calls of a chat model, and of embedders that are not
    local, stay in the process that builds. A worker that dies is replaced and its batch done again; after the
    fourth time the build ends with `MapperError`, and the same command resumes. The mapper is a context
    manager; without one, its workers end when they are idle for a while, or with the process.

    Parameters
    ----------
    kind
        `"threads"`: here. `"processes"`: on this machine; scripts need no `if __name__ == "__main__"`, and
        nothing is forked. `"ray"`: on a cluster of Ray (extra `ray`). `"ray@ADDRESS"` names its address too.
    workers
        How many at once. None: one thread; a process for each core; for Ray, one for each of its CPUs. More
        threads than one gain nothing but where Python runs without its global lock.
    address
        Of Ray: a cluster's `"host:port"`, or `"auto"` for the one that runs on this machine. None starts one
        here, which listens on loopback alone, unless the process is connected to one already.
    embed
        Whether workers embed. None: with the embedders that come along. True: with any, which must be
        picklable, and is loaded once by each worker; on Ray, by one actor for each GPU where there are.
        False: never.
    shared_files
        For Ray: whether its workers see this machine's files under the same paths. Then they read documents
        and build whole shards (`build_shards`) where no model is paid. None: if the cluster was started here.

    Raises
    ------
    ValueError
        If there is no such kind, fewer than one worker is asked for, or an argument is not for this kind.
    MissingExtra
        If Ray, or what processes need (extra `parallel`), is not installed.
    """
    named = _NAMED.fullmatch(kind) if isinstance(kind, str) else None
    if named is not None and named["kind"]:
        if address is not None:
            raise ValueError(f"{kind!r} has an address already, and address={address!r} is another one")
        kind, address = named["kind"], named["address"]
    if kind not in KINDS:
        raise ValueError(
            f"mapper must be one of {', '.join(map(repr, KINDS))} or 'ray@ADDRESS', not {kind!r}"
        )
    if workers is not None:
        workers = positive("workers", workers)
    if embed is not None and not isinstance(embed, bool):
        raise TypeError(f"embed must be True, False or None, not {embed!r}")
    if kind == "ray":
        return RayMapper(workers, address, embed, shared_files)
    if address is not None or shared_files is not None:
        raise ValueError(f"address and shared_files are for Ray, not for {kind!r}")
    if kind == "processes":
        return ProcessMapper(workers, embed)
    if embed is not None:
        raise ValueError("embed says whether other processes embed; in threads nothing leaves this one")
    return ThreadMapper(workers)


def check_sendable(where: Mapper, function: Callable[..., Any]) -> None:
    """Raise `MapperError` at once for what cannot be pickled for the workers."""
    if isinstance(where, ApartMapper):
        where.prepare(function)


def as_mapper(given: Any) -> Mapper:
    """A mapper, by name or as an object; None is a thread of this process. TypeError for other values."""
    if given is None:
        return ThreadMapper()
    if isinstance(given, str):
        return mapper(given)
    missing = [name for name in ("workers", "apart", "submit") if not hasattr(given, name)]
    if missing:
        raise TypeError(
            f"mapper must be one of {', '.join(map(repr, KINDS))}, or what stratagraph.mapper(...) makes, "
            f"not {given!r} (it has no {missing[0]!r})"
        )
    own: Mapper = given
    return own

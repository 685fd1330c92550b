"""The logger of the package, and OpenTelemetry spans if the package of its API is installed.

    stratagraph answer                    an operation: method, k, hits
    └── stratagraph stage answer          a stage: units, calls, tokens, as in the ledger
        └── chat gpt-4o-mini            a model call: task, tokens, and how it ended

Attributes follow the semantic conventions for generative AI. No span holds a question, prompt, answer or
name.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, Any]
logger = logging.getLogger("stratagraph")
"""No handler is installed: what is shown is the application's choice."""


class Recorded:
    """A span to add attributes to, or nothing."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        """Add attributes; those that are None or empty are left out."""
        if self._span is not None:
            present = {name: value for name, value in attributes.items() if value is not None and value != ""}
            self._span.set_attributes(present)


@contextmanager
def span(
    name: str, attributes: Attributes, *, client: bool = False, nested: bool = True
) -> Iterator[Recorded]:
    """A span around a piece of work; of an error it records the class, never the message.

    `client` marks a request to another service. `nested=False` is for iterators that others advance, perhaps
    in another context.
    """
    tracer = _tracer()
    if tracer is None:
        yield Recorded(None)
        return
    from opentelemetry import trace

    kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
    opened = tracer.start_span(name, kind=kind)
    if not opened.get_span_context().is_valid:  # nobody collects spans
        yield Recorded(None)
        return
    recorded = Recorded(opened)
    recorded.set(attributes)
    try:
        quiet = {"record_exception": False, "set_status_on_exception": False}
        with trace.use_span(opened, **quiet) if nested else nullcontext():
            yield recorded
    except BaseException as error:
        recorded.set({"error.type": type(error).__qualname__})
        opened.set_status(trace.StatusCode.ERROR)
        raise
    finally:
        opened.end()


def request_attributes(operation: str, model: str, address: str = "") -> dict[str, Any]:
    """Attributes of a request before it is sent; of an address only the host."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.request.model": model,
        "server.address": urlsplit(address).hostname,
    }


@cache
def _tracer() -> Tracer | None:
    """The package's tracer; None without OpenTelemetry."""
    with _importing:
        try:
            from opentelemetry import trace
        except ImportError:
            return None
    return trace.get_tracer("stratagraph")


_importing = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child forked during the import would wait for ever for its end
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )

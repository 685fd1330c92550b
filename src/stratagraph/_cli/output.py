"""Results as JSON or as lines, errors as one line: what all commands share."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import click

from stratagraph._cli.loading import WrongOption, load_model
from stratagraph.errors import StratagraphError

EXPECTED = (StratagraphError, ValueError, TypeError, KeyError, OSError, ImportError)


def _json_default(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if not callable(getattr(value, field.name))
        }
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


SKIPPED = 3
"""Exit code of a command that did its work but for what it left out: files, or rows of an evaluation."""


class Output:
    """Where results go: JSON for machines, or lines for people.

    `skip` and `warn` take what `read_documents` says of files. It goes into the JSON of the result as
    `skipped_files` and `warnings`, and to standard error when the command is done (`close`). `resumes` tells
    whether the same command would go on where this one is stopped: commands that keep their work set it.
    """

    def __init__(self, as_json: bool, *, strict: bool = False) -> None:
        self.as_json = as_json
        self.resumes = False
        self._strict = strict
        self._heard: dict[str, dict[str, str]] = {"skipped_files": {}, "warnings": {}}
        self._left_out: dict[str, str] = {}

    def skip(self, name: str, reason: str) -> None:
        """A file that was left out."""
        self._heard["skipped_files"][name] = reason
        if self._strict:
            raise ValueError(f"{name}: {reason}; --strict reads all or nothing")

    def warn(self, name: str, reason: str) -> None:
        """A file that was read although something is wrong with it."""
        self._heard["warnings"][name] = reason

    def leave_out(self, what: str, reason: str) -> None:
        """Something that the result lacks, which says so itself."""
        self._left_out[what] = reason

    def close(self) -> None:
        """Tell, once and at the end, what was skipped or left out, and what was read with faults.

        The exit code is 3 if anything was left out.
        """
        for kind, word in (("warnings", "read with faults"), ("skipped_files", "skipped")):
            heard = self._heard[kind]
            if heard:
                click.echo(f"{word}: {len(heard)} file{'s' if len(heard) > 1 else ''}", err=True)
            for name, reason in heard.items():
                click.echo(f"  {name}: {reason}", err=True)
        for what, reason in self._left_out.items():
            click.echo(f"left out: {what}: {reason}", err=True)
        if self._heard["skipped_files"] or self._left_out:
            sys.exit(SKIPPED)

    def show(self, value: object, lines: Callable[[], Iterator[str]], *, with_files: bool = False) -> None:
        """Print a result in the form that was asked for, `with_files` together with what was skipped."""
        if not self.as_json:
            for line in lines():
                click.echo(line)
            return
        text = json.dumps(value, default=_json_default, ensure_ascii=False)
        if with_files:
            text = json.dumps(json.loads(text) | self._heard, ensure_ascii=False)
        click.echo(text)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """What all commands share: `--json`, `--debug`, models as objects, and errors as one clear line."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @wraps(function)
    def wrapped(*args: Any, as_json: bool, debug: bool, **kwargs: Any) -> None:
        output = Output(as_json, strict=kwargs.pop("strict", False))
        try:
            for kind in ("llm", "embedder"):
                if isinstance(kwargs.get(kind), str):
                    kwargs[kind] = load_model(kind, kwargs[kind])
            function(*args, output=output, **kwargs)
            output.close()
        except KeyboardInterrupt:
            click.echo("interrupted; the same command resumes" if output.resumes else "interrupted", err=True)
            sys.exit(130)
        except EXPECTED as error:
            if debug:
                raise
            _fail(error, as_json)

    return wrapped


def _fail(error: BaseException, as_json: bool) -> None:
    message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    kind = type(error).__name__
    if as_json:
        click.echo(json.dumps({"error": kind, "message": message}, ensure_ascii=False))
    click.echo(f"{kind}: {' '.join(message.split())}", err=True)
    sys.exit(2 if isinstance(error, WrongOption) else 1)

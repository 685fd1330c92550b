"""What all commands share: results as JSON or lines, errors as one line."""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

import click

import stratagraph as sg
from stratagraph.cli.options import (
    FILES_OPTIONS,
    WrongOption,
    load_config,
    load_model,
    load_reranker,
    load_where,
    moved_folders,
)
from stratagraph.errors import EXPECTED, StratagraphError, message_of
from stratagraph.ingest.loaders import FileDocuments
from stratagraph.types.protocols import Mapper

_SQLITE_SUFFIXES = ("", "-wal", "-shm", "-journal")


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
"""Exit code if files could not be read, or rows of an evaluation were left out."""
BROKEN_PIPE = 141
"""Exit code after a broken pipe, as of programs that SIGPIPE ends."""
_CONTROLS = re.compile(
    r"(?!\x1b\[(?:[01]|3[12])m)"
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, also those that reorder a line, but for the styles of the commands' own output."""


def _echo(text: str, *, err: bool = False) -> None:
    """Print with control characters escaped, so that no document can send commands to the terminal."""
    click.echo(_CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text), err=err)


class Output:
    """Prints results: JSON for machines, or lines for people.

    `skip` and `warn` collect the faults that `read_documents` reports. `close` prints them; JSON output
    contains them. A command that can be resumed sets `resumes`. `own_files` are files that the command itself
    writes or reads, which `read` leaves out. `documents` holds the result of the last `read`. `notes` are
    those of a given extraction.
    """

    def __init__(self, as_json: bool, *, strict: bool = False, **reading: Any) -> None:
        self.as_json = as_json
        self.resumes = False
        self.own_files: list[str] = []
        self.documents: FileDocuments | None = None
        self.notes: Counter[str] = Counter()
        self._reading = reading
        self._strict = strict
        self._faults: dict[str, dict[str, str]] = {"skipped_files": {}, "warnings": {}}
        self._left_out: dict[str, str] = {}

    def read(self, inputs: Sequence[str], path: str | None = None, mapper: Mapper | None = None) -> Any:
        """Read INPUTS, without the command's own files, which may lie among them."""
        own = [*self.own_files, *([] if path is None else [path])]
        excluded = [*self._reading.get("exclude", ()), *(glob.escape(os.path.realpath(each)) for each in own)]
        self.documents = sg.read_documents(
            inputs,
            **{**self._reading, "exclude": excluded, "moved": moved_folders(self._reading.get("moved", ()))},
            mapper=mapper,
            on_skip=self.skip,
            on_warning=self.warn,
        )
        return self.documents

    def skip(self, name: str, reason: str) -> None:
        """Record a file that was left out."""
        self._faults["skipped_files"][name] = reason
        if self._strict and self._failed(name):
            raise ValueError(f"{name}: {reason}; --strict reads all or nothing")

    def _failed(self, name: str) -> bool:
        return self.documents is None or name not in self.documents.left_out

    def warn(self, name: str, reason: str) -> None:
        """Record a file that was read although something is wrong with it."""
        self._faults["warnings"][name] = _in_commands(reason)

    def leave_out(self, what: str, reason: str) -> None:
        """Record something that the result lacks."""
        self._left_out[what] = reason

    def close(self) -> None:
        """Print what was skipped or left out; the exit code is 3 if something could not be read."""
        for kind, word in (("warnings", "read with faults"), ("skipped_files", "skipped")):
            faults = self._faults[kind]
            if faults:
                _echo(f"{word}: {len(faults)} file{'s' if len(faults) > 1 else ''}", err=True)
            for name, reason in faults.items():
                _echo(f"  {name}: {reason}", err=True)
        for what, reason in self._left_out.items():
            _echo(f"left out: {what}: {reason}", err=True)
        if self._left_out or any(map(self._failed, self._faults["skipped_files"])):
            sys.exit(SKIPPED)

    def show(self, value: object, lines: Callable[[], Iterable[str]]) -> None:
        """Print a result as JSON or lines; the JSON has skipped files if files were read."""
        try:
            if not self.as_json:
                for line in lines():
                    _echo(line)
                return
            text = json.dumps(value, default=_json_default, ensure_ascii=False)
            if self.documents is not None:
                text = json.dumps(json.loads(text) | self._faults, ensure_ascii=False)
            _echo(text)
        except BrokenPipeError:  # the reader, such as `head`, has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is flushed at the exit
            sys.exit(BROKEN_PIPE)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--json` and `--debug`, load the values of shared options, and print errors as one line."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @wraps(function)
    def wrapped(*args: Any, as_json: bool, debug: bool, **kwargs: Any) -> None:
        files = {name: kwargs.pop(name) for name in FILES_OPTIONS if name in kwargs}
        output = Output(as_json, **files)
        try:
            function(*args, output=output, **_loaded(kwargs, output))
            output.close()
        except KeyboardInterrupt:
            _echo("interrupted; the same command resumes" if output.resumes else "interrupted", err=True)
            sys.exit(130)
        except (*EXPECTED, ImportError) as error:
            if debug:
                raise
            message, kind = _in_commands(message_of(error)), type(error).__name__
            if as_json:
                _echo(json.dumps({"error": kind, "message": message}, ensure_ascii=False))
            _echo(f"{kind if isinstance(error, StratagraphError) else 'error'}: {message}", err=True)
            sys.exit(2 if isinstance(error, WrongOption) else 1)

    return wrapped


_LOADERS: Mapping[str, Callable[[str], Any]] = {
    "llm": partial(load_model, "llm"),
    "embedder": partial(load_model, "embedder"),
    "rerank": load_reranker,
    "where": load_where,
}


def _loaded(given: dict[str, Any], output: Output) -> dict[str, Any]:
    """Turn the raw values of shared options (`cli.options`) into models, settings and so on."""
    for name, load in _LOADERS.items():
        if isinstance(given.get(name), str):
            given[name] = load(given[name])
    if (cache := given.get("cache")) is not None:
        output.own_files += [cache + suffix for suffix in _SQLITE_SUFFIXES]
    if "llm" in given:
        given["models"] = {name: given.pop(name) for name in ("llm", "embedder", "cache") if name in given}
    if "max_calls" in given:
        calls, tokens = given.pop("max_calls"), given.pop("max_tokens")
        if given["models"]["llm"] is None and not (calls is None and tokens is None):
            option = "--max-calls" if tokens is None else "--max-tokens"
            raise WrongOption(
                f"{option} bounds what a model may cost, and there is none: give --llm, or leave it out"
            )
        budget = None if calls is None and tokens is None else sg.Budget(calls=calls, tokens=tokens)
        given["models"]["budget"] = budget
    if "chunk_size" in given:
        sizes = given.pop("chunk_size"), given.pop("chunk_overlap"), given.pop("concurrency")
        output.own_files += filter(None, [given["config"]])
        given["config"] = load_config(given["config"], *sizes)
    if (file := given.get("extraction")) is not None:
        output.own_files.append(file)
        imported = sg.read_openie(file)
        given["extraction"], output.notes = imported.extractions, Counter(imported.notes)
    if "workers" in given:
        name, workers = given["mapper"], given.pop("workers")
        if name is None and workers is not None:
            raise WrongOption("--workers goes with --mapper, as in --mapper processes --workers 4")
        given["mapper"] = None if name is None else sg.mapper(name, workers)
    return given


_COMMANDS = (
    (r", or in Python [^;]*", ""),
    (r"\b(llm|embedder)=\.\.\.", r"--\1 NAME"),
    (r"\bcache=\.\.\.", "--cache FILE"),
    (r"\b(missing_ok|prune|rebuild)=True", lambda found: f"--{found[1].replace('_', '-')}"),
    (r"\bBudget\((\w+)=\.\.\.\)", r"--max-\1"),
    (r"\bLimits\((\w+)=\.\.\.\)", r'--config FILE with {"limits": {"\1": ...}}'),
    (r"\bopen_index\(\.\.\., spacy='?([^')]*)'?\)", r"--spacy \1"),
    (r"\bindex\.add_method\('(\w+)'\)", r"stratagraph build INPUTS -o INDEX --method \1"),
    (r"\bindex\.(\w+)\([^)]*\)", r"stratagraph \1"),
    (r"""\b(method|rank|view)=["'](\w+)["']""", r"--\1 \2"),
    (r"\bfill=False\b", "--no-fill"),
    (r"\bguided_steps\b", "--guided-steps"),
    (
        r'\bguided=(True|"overview")',
        lambda found: "--guided" if found[1] == "True" else "--guided-as overview",
    ),
    (r"\bname='([^']*)'", r"--as \1"),
    (r"\bmoved=\{'([^']*)': '([^']*)'\}", r"--moved \1=\2"),
    (r"\bencoding='([^']*)'", r"--encoding \1"),
    (r"\bleave guided out\b", "give --no-guided instead"),
    (r"\ba search has no argument ('\w+'): it takes .* and with (\w+) ", r"there is no --option \1: \2 has "),
    (r"\bthat was the path of build_index", "that `stratagraph build` wrote"),
    (r"\bbuild_index\b", "stratagraph build"),
)
"""Wordings of the Python API in messages, and what the command line says instead."""


def _in_commands(message: str) -> str:
    for python, words in _COMMANDS:
        message = re.sub(python, words, message)
    return " ".join(message.split())

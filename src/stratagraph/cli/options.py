"""Options and arguments shared by several commands, and what their values mean; `command` loads them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from stratagraph.errors import described
from stratagraph.types.question import SEARCH_ARGUMENTS

_VERBS = ("complete", "acomplete", "embed_documents", "aembed_documents", "invoke", "rerank")
Function = Callable[..., None]
Decorator = Callable[[Any], Any]


def together(*options: Decorator) -> Decorator:
    """Options that several commands have, in the order of their help."""

    def decorated(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


partial_option = click.option("--partial", is_flag=True, help="Open shards even if some are missing.")
index_argument = click.argument("index", type=click.Path())
cache_dir_option = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False),
    help="Folder in which to keep the files of an INDEX behind a URL.",
)
method_option = click.option(
    "--method",
    multiple=True,
    callback=lambda _context, _option, given: (
        [name.strip() for each in given for name in each.split(",")] or None
    ),
    help="A method, or several separated by commas; may be repeated. Default: those of the index "
    "that is there; a new one is searched by the walk, which needs none.",
)
cache_option = click.option(
    "--cache", type=click.Path(dir_okay=False), help="File of model answers to share among indexes."
)
extraction_option = click.option(
    "--extraction",
    type=click.Path(dir_okay=False),
    help="Existing entities and triples by document id (OpenIE JSON lines).",
)
embedder_option = click.option(
    "--embedder",
    metavar="NAME",
    help="Embedder: minilm, hashing, openai:NAME, ollama:NAME or MODULE:NAME. Default: that of the index, or "
    "the local default.",
)
models_options = together(
    click.option(
        "--llm",
        metavar="NAME",
        help="Chat model: openai:NAME, openai:NAME@URL, ollama:NAME or MODULE:NAME. Default: no model.",
    ),
    embedder_option,
)
"""With cache and budget, where a command has these, it receives them as `models`."""
files_options = together(
    click.option(
        "--include",
        multiple=True,
        metavar="GLOB",
        help="In folders read only these files, also ones left out by default; may be repeated.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="In folders leave out these files and folders; may be repeated.",
    ),
    click.option("--strict", is_flag=True, help="Fail without changes if a file cannot be read."),
    click.option("--encoding", metavar="NAME", help="Encoding of text that is not UTF-8, such as cp1250."),
    click.option("--as", "name", metavar="NAME", help="With which ids of files in a new folder begin."),
    click.option(
        "--moved",
        multiple=True,
        metavar="OLD=NEW",
        help="Where a folder of the index is now; may be repeated.",
    ),
)
"""Which files to read, and how; `Output` keeps them."""
FILES_OPTIONS = ("strict", "include", "exclude", "encoding", "name", "moved")
inputs_argument = together(
    click.argument("inputs", nargs=-1, required=True, type=click.Path()), files_options
)
open_options = together(
    models_options,
    click.option("--max-calls", type=click.IntRange(1), help="Maximum number of model calls."),
    click.option("--max-tokens", type=click.IntRange(1), help="Maximum number of tokens."),
    cache_option,
)
mapper_options = together(
    click.option(
        "--mapper",
        metavar="NAME",
        help="Runs the work that needs no paid model: threads, processes, ray or ray@ADDRESS.",
    ),
    click.option("--workers", type=int, help="Number of threads, processes or Ray workers."),
)
"""What a command receives as `mapper`."""
config_options = together(
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        help='JSON file of settings: {"chunking": {...}, "limits": {...}, "lshtree": {...}}.',
    ),
    click.option("--chunk-size", type=click.IntRange(1), help="Maximum number of tokens in a chunk."),
    click.option("--chunk-overlap", type=click.IntRange(0), help="Tokens shared with the previous chunk."),
    click.option("--concurrency", type=click.IntRange(1), help="Maximum number of concurrent model calls."),
)
"""What a command receives as `config`."""


class WrongOption(ValueError):
    """The value of an option is invalid."""


def load_model(kind: str, value: str) -> Any:
    """The model of `--llm` or `--embedder`: a known name, or `MODULE:NAME` of an object, class or function.

    Any failure is a `WrongOption`, since importing a module runs foreign code.
    """
    from stratagraph.models.named import PROVIDERS, as_chat_model, as_embedder

    is_name = value.partition(":")[0] in PROVIDERS or ":" not in value
    try:
        return (as_chat_model if kind == "llm" else as_embedder)(value if is_name else _imported(value))
    except WrongOption as error:
        raise WrongOption(f"--{kind} {value}: {error}") from None
    except (Exception, SystemExit) as error:
        hint = "; a model of your own is MODULE:NAME" if is_name else ""
        if isinstance(error, ModuleNotFoundError) and error.name == value.partition(":")[0]:
            hint = f"; known providers are {', '.join(PROVIDERS)}, and a model of your own is MODULE:NAME"
        raise WrongOption(f"--{kind} {value}: {described(error)}{hint}") from error


def load_reranker(value: str) -> Any:
    """The reranker of `--rerank`: a known name, or `MODULE:NAME`. Any failure is a `WrongOption`."""
    from stratagraph.models.rerankers import EXAMPLES, RERANKERS, named_reranker
    from stratagraph.search.rerank import as_reranker

    is_name = value.partition(":")[0] in RERANKERS or ":" not in value
    try:
        return named_reranker(value) if is_name else as_reranker(_imported(value))
    except (Exception, SystemExit) as error:
        hint = "" if is_name else f"; known names are such as {EXAMPLES}"
        raise WrongOption(f"--rerank {value}: {described(error)}{hint}") from error


def _imported(value: str) -> Any:
    module, _, name = value.partition(":")
    if not module or not name:
        raise WrongOption("not of the form MODULE:NAME")
    if "" not in sys.path:  # the console script does not look in the working folder
        sys.path.insert(0, "")
    member = getattr(importlib.import_module(module), name)
    is_model = any(hasattr(member, verb) for verb in _VERBS)
    return member() if isinstance(member, type) or (callable(member) and not is_model) else member


def moved_folders(pairs: Sequence[str]) -> dict[str, str]:
    """Former folders and where they are now, from `OLD=NEW`."""
    folders = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise WrongOption(f"--moved {pair!r} is not of the form OLD=NEW")
        folders[old] = new
    return folders


def load_config(
    file: str | None, chunk_size: int | None, chunk_overlap: int | None, concurrency: int | None
) -> dict[str, Any] | None:
    """The settings of a JSON file, overridden by their own options; None if none is given."""
    from stratagraph.config import as_config

    values: Any = {}
    if file is not None:
        try:
            values = json.loads(Path(file).read_text("utf-8"))
        except ValueError as error:
            raise WrongOption(f"--config {file}: not JSON: {error}") from error
        if not isinstance(values, dict):
            raise WrongOption(f"--config {file}: a {type(values).__name__}, not an object")
    for part, key, value in (
        ("chunking", "size", chunk_size),
        ("chunking", "overlap", chunk_overlap),
        ("limits", "concurrency", concurrency),
    ):
        if value is not None:
            given = values.get(part, {})
            if not isinstance(given, dict):
                raise WrongOption(f"--config {file}: {part!r} is a {type(given).__name__}, not an object")
            values[part] = {**given, key: value}
    try:
        as_config(values)
    except (TypeError, ValueError) as error:
        raise WrongOption(f"settings: {error}") from error
    return values or None


def load_where(text: str) -> Any:
    """A metadata filter from JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongOption(f"--where is not JSON: {error}") from error


def load_search_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Search options from `KEY=VALUE`; a value is JSON, a list such as `0,1`, or text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise WrongOption(f"--option {pair!r} is not of the form KEY=VALUE")
        if key in ("k", *SEARCH_ARGUMENTS):
            raise WrongOption(f"--option {pair!r}: {key} has an option of its own, see --help")
        options[key] = value
        for form in (value, f"[{value}]"):
            with suppress(ValueError):
                options[key] = json.loads(form)
                break
    return options

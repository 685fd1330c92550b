"""Values of options: models, settings, search options."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stratagraph.types.question import SEARCH_ARGUMENTS

_VERBS = ("complete", "acomplete", "embed_documents", "aembed_documents", "invoke", "rerank")


class WrongOption(ValueError):
    """The value of an option is invalid."""


def load_model(kind: str, value: str) -> Any:
    """The model of `--llm` or `--embedder`: a known name, or `MODULE:NAME` of an object, class or function.

    Any failure is a `WrongOption`, since importing a module runs foreign code.
    """
    from stratagraph.models.named import PROVIDERS, as_chat_model, as_embedder

    known = value.partition(":")[0] in PROVIDERS or ":" not in value
    try:
        return (as_chat_model if kind == "llm" else as_embedder)(value if known else _imported(value))
    except WrongOption as error:
        raise WrongOption(f"--{kind} {value}: {error}") from None
    except (Exception, SystemExit) as error:
        hint = "; a model of your own is MODULE:NAME" if known else ""
        if isinstance(error, ModuleNotFoundError) and error.name == value.partition(":")[0]:
            hint = f"; known providers are {', '.join(PROVIDERS)}, and a model of your own is MODULE:NAME"
        raise WrongOption(f"--{kind} {value}: {type(error).__name__}: {error}{hint}") from error


def load_reranker(value: str) -> Any:
    """The reranker of `--rerank`: a known name, or `MODULE:NAME`. Any failure is a `WrongOption`."""
    from stratagraph.models.rerankers import EXAMPLES, RERANKERS, named_reranker
    from stratagraph.search.rerank import Reranker, SetReranker

    known = value.partition(":")[0] in RERANKERS or ":" not in value
    try:
        reranker = named_reranker(value) if known else _imported(value)
    except (Exception, SystemExit) as error:
        hint = "" if known else f"; known names are such as {EXAMPLES}"
        raise WrongOption(f"--rerank {value}: {type(error).__name__}: {error}{hint}") from error
    if not isinstance(reranker, Reranker | SetReranker):
        raise WrongOption(
            f"--rerank {value}: {reranker!r} has neither rerank(question, texts) "
            "nor choose(question, texts, k)"
        )
    return reranker


def _imported(value: str) -> Any:
    module, _, name = value.partition(":")
    if not module or not name:
        raise WrongOption("not of the form MODULE:NAME")
    if "" not in sys.path:  # the console script does not look in the working folder
        sys.path.insert(0, "")
    member = getattr(importlib.import_module(module), name)
    is_model = any(hasattr(member, verb) for verb in _VERBS)
    return member() if isinstance(member, type) or (callable(member) and not is_model) else member


def load_config(
    file: str | None, chunk_size: int | None, chunk_overlap: int | None, concurrency: int | None
) -> dict[str, Any] | None:
    """The settings of a JSON file, overridden by their own options; None if none is given."""
    from stratagraph.config import as_config

    values = {} if file is None else _json_object(file)
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


def _json_object(file: str) -> dict[str, Any]:
    try:
        values = json.loads(Path(file).read_text("utf-8"))
    except ValueError as error:
        raise WrongOption(f"--config {file}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise WrongOption(f"--config {file}: a {type(values).__name__}, not an object")
    return values


def load_where(text: str | None) -> Any:
    """A metadata filter from JSON."""
    try:
        return None if text is None else json.loads(text)
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
        options[key] = _json_or_text(value)
    return options


def _json_or_text(value: str) -> Any:
    for form in (value, f"[{value}]"):
        try:
            return json.loads(form)
        except ValueError:
            continue
    return value

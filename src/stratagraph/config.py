"""The settings of an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from stratagraph.ingest.chunk import ChunkConfig
from stratagraph.ingest.extraction.stage import ExtractionConfig
from stratagraph.methods import NAMES, get_method
from stratagraph.models.budget import Limits
from stratagraph.models.prompts import check_template, prompt_names
from stratagraph.text.tokens import NAMES as TOKENIZERS

RUNTIME = ("limits", "max_failures")
PARTS: dict[str, type[Any]] = {"chunking": ChunkConfig, "extraction": ExtractionConfig, "limits": Limits}


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of an index, validated when made.

    Parameters
    ----------
    chunking
        How documents are split into chunks.
    extraction
        How entities and relations are extracted.
    limits
        Concurrency, rates, retries and timeouts of model calls.
    max_failures
        Share of units of an operation that may fail before it raises `TooManyFailures`, between 0 and 1. Up
        to two failures raise it only if the model never answered.
    tokenizer
        Name of the token counter of builds. None is the estimate `estimate-1`, which needs nothing installed;
        contexts and prompts of questions are then counted with a vocabulary of tiktoken if one is here.
    date_key
        The metadata field that dates a document, such as `"published"`, for `as_of` and `recency` of
        searches: ISO 8601, or the number of a year. None dates nothing.
    prompts
        Templates by name, such as `"lshtree/summarize"`, that replace the defaults.
    methods
        Settings by method name; other methods use their defaults.
    """

    chunking: ChunkConfig = field(default_factory=ChunkConfig)
    extraction: ExtractionConfig = field(default_factory=ExtractionConfig)
    limits: Limits = field(default_factory=Limits)
    max_failures: float = 0.2
    tokenizer: str | None = None
    date_key: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in PARTS.items():
            if not isinstance(value := getattr(self, name), kind):
                raise TypeError(
                    f"{name} must be a {kind.__name__}, or in a mapping of settings a mapping, not {value!r}"
                )
        if not 0 <= self.max_failures <= 1:
            raise ValueError(f"max_failures must be between 0 and 1, not {self.max_failures}")
        if self.tokenizer is not None and self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer must be one of {', '.join(TOKENIZERS)}, not {self.tokenizer!r}")
        if self.date_key is not None and (
            not isinstance(self.date_key, str) or not self.date_key or self.date_key.startswith("$")
        ):
            raise TypeError(f"date_key must be the name of a metadata field, not {self.date_key!r}")
        unknown = sorted(set(self.prompts) - set(prompt_names()))
        if unknown:
            raise ValueError(f"there is no prompt {unknown[0]!r}; there are {', '.join(prompt_names())}")
        for name, template in self.prompts.items():
            check_template(name, template)
            typed = self.extraction.relation_types and name == self.extraction.prompt
            if typed and "{{relation_types}}" not in template:
                raise ValueError(
                    f"prompt {name!r} has no place for the relation_types of the extraction: put "
                    "{{relation_types}} where it tells the rules, or leave out one of them"
                )
        methods: dict[str, Any] = {}
        for name, value in self.methods.items():
            kind = get_method(name).config_type
            if isinstance(value, Mapping):
                methods[name] = construct(kind, value, name)
            elif isinstance(value, kind):
                methods[name] = value
            else:
                raise TypeError(f"the config of {name} must be a {kind.__name__}, not {type(value).__name__}")
        object.__setattr__(self, "methods", methods)

    def method(self, name: str) -> Any:
        """Settings of a method."""
        return self.methods.get(name) or get_method(name).config_type()

    def to_dict(self, methods: Iterable[str] = ()) -> dict[str, Any]:
        """The settings that shape an index with these methods, in JSON types, defaults included.

        How models are called (`RUNTIME`) is left out.
        """
        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in RUNTIME}
        plain["methods"] = {name: asdict(self.method(name)) for name in sorted({*self.methods, *methods})}
        native: dict[str, Any] = json.loads(json.dumps(plain, default=asdict))
        return native


def as_config(config: Any, base: Config | None = None) -> Config:
    """Make a `Config` of a `Config`, a method's settings, a mapping of fields, or None.

    A mapping may have method names beside the fields: `{"lshtree": {"max_cluster": 20}}`. Settings that it
    does not name are those of `base`, or the defaults; a `Config` names all.

    Raises
    ------
    TypeError, ValueError
        If a setting is unknown or invalid; the message names it.
    """
    base = base or Config()
    if config is None:
        return base
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return _from_mapping(dict(config), base)
    for name in NAMES:
        if isinstance(config, get_method(name).config_type):
            return replace(base, methods={**base.methods, name: config})
    raise TypeError(f"config must be a Config, a method's config or a mapping, not {type(config).__name__}")


def _from_mapping(values: dict[str, Any], base: Config) -> Config:
    methods = dict(values.pop("methods", {}))
    methods |= {name: values.pop(name) for name in NAMES if name in values}
    for name, own in methods.items():
        if name in base.methods and isinstance(own, Mapping):
            methods[name] = {**_fields(base.methods[name]), **own}
    for key, kind in PARTS.items():
        if isinstance(values.get(key), Mapping):
            values[key] = construct(kind, {**_fields(getattr(base, key)), **values[key]}, key)
    values["methods"] = {**base.methods, **methods}
    return construct(Config, {**_fields(base), **values}, "config")  # type: ignore[no-any-return]


def _fields(settings: Any) -> dict[str, Any]:
    return {item.name: getattr(settings, item.name) for item in fields(settings)}


class UnknownSetting(TypeError):
    """A key of a config is none of its settings."""


def construct(kind: type[Any], values: Mapping[str, Any], what: str) -> Any:
    """`kind(**values)`. An `UnknownSetting` names an unknown key and lists those there are."""
    names = [item.name for item in fields(kind)]
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise UnknownSetting(f"{what} has no setting {unknown[0]!r}; it has {', '.join(names)}")
    return kind(**values)

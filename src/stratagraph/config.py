"""Everything that can be set about an index, as one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from stratagraph.methods import NAMES, get_method
from stratagraph.models.budget import Limits
from stratagraph.pipeline.chunk import ChunkConfig
from stratagraph.pipeline.extraction.stage import ExtractionConfig
from stratagraph.pipeline.prompts import check_template, prompt_names
from stratagraph.pipeline.tokens import NAMES as TOKENIZERS

RUNTIME = ("limits", "max_failures")
PARTS: dict[str, type[Any]] = {"chunking": ChunkConfig, "extraction": ExtractionConfig, "limits": Limits}


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of an index; each part is a frozen value that checks itself.

    Parameters
    ----------
    chunking
        How documents are split.
    extraction
        How entities and relations are found.
    limits
        Concurrency, rates, retries and time-outs of model calls.
    max_failures
        Share of an operation's units that may fail before it ends in `TooManyFailures`; up to two failures
        end it only if the model has not answered at all.
    tokenizer
        What counts tokens; None takes the best that is there (see `pipeline.tokens`).
    prompts
        Templates by name (`"lshtree/summarize"`) that replace ours.
    methods
        Settings by method name; a method that is not in it has its defaults.
    """

    chunking: ChunkConfig = field(default_factory=ChunkConfig)
    extraction: ExtractionConfig = field(default_factory=ExtractionConfig)
    limits: Limits = field(default_factory=Limits)
    max_failures: float = 0.2
    tokenizer: str | None = None
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
        unknown = sorted(set(self.prompts) - set(prompt_names()))
        if unknown:
            raise ValueError(f"there is no prompt {unknown[0]!r}; there are {', '.join(prompt_names())}")
        for name, template in self.prompts.items():
            check_template(name, template)
        given = {name: _method_config(name, value) for name, value in self.methods.items()}
        object.__setattr__(self, "methods", given)

    def method(self, name: str) -> Any:
        """The settings of a method."""
        return self.methods.get(name) or get_method(name).config_type()

    def to_dict(self) -> dict[str, Any]:
        """What shapes an index, JSON-native; how models are called (`RUNTIME`) is not part of it."""
        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in RUNTIME}
        plain["methods"] = {name: asdict(value) for name, value in self.methods.items()}
        native: dict[str, Any] = json.loads(json.dumps(plain, default=asdict))
        return native


def as_config(config: Any) -> Config:
    """A `Config` from what callers give: one, a method's own settings, a mapping of fields, or None.

    In a mapping, a method's name may stand beside the fields: `{"lshtree": {"max_cluster": 20}}`.

    Raises
    ------
    TypeError, ValueError
        If a field is unknown or a value is not valid; the message names it.
    """
    if config is None:
        return Config()
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return _from_mapping(dict(config))
    for name in NAMES:
        if isinstance(config, get_method(name).config_type):
            return Config(methods={name: config})
    raise TypeError(f"config must be a Config, a method's config or a mapping, not {type(config).__name__}")


def _from_mapping(values: dict[str, Any]) -> Config:
    methods = dict(values.pop("methods", {}))
    methods |= {name: values.pop(name) for name in NAMES if name in values}
    for key, kind in PARTS.items():
        if isinstance(values.get(key), Mapping):
            values[key] = construct(kind, values[key], key)
    return construct(Config, values | {"methods": methods}, "config")  # type: ignore[no-any-return]


def _method_config(name: str, value: Any) -> Any:
    kind = get_method(name).config_type
    if isinstance(value, Mapping):
        return construct(kind, value, name)
    if not isinstance(value, kind):
        raise TypeError(f"the config of {name} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def construct(kind: type[Any], values: Mapping[str, Any], what: str) -> Any:
    """`kind(**values)` with an error that names unknown keys and lists the known ones."""
    known = [item.name for item in fields(kind)]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise TypeError(f"{what} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return kind(**values)

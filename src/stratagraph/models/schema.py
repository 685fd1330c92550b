"""JSON schemas as they are sent to a model."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

_KEPT = ("type", "enum", "const", "anyOf", "items", "properties", "description")


@lru_cache(maxsize=256)
def _written(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    sent = _cleaned(schema, schema.get("$defs", {}), of_class=True)
    return json.dumps({"title": model.__name__, **sent})


def sent_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model in the subset that strict modes of all servers accept; a new object.

    References are inlined, all fields are required, no others are allowed. Defaults, lengths, ranges and
    docstrings of classes are left out.
    """
    schema: dict[str, Any] = json.loads(_written(model))
    return schema


def schema_text(model: type[BaseModel] | None) -> str:
    """The schema as text, for counting its tokens."""
    return "" if model is None else _written(model)


def response_format(model: type[BaseModel]) -> dict[str, Any]:
    """The `response_format` of OpenAI's chat completions for a schema."""
    schema = sent_schema(model)
    name = schema.pop("title")
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def _cleaned(schema: Any, definitions: dict[str, Any], *, of_class: bool = False) -> dict[str, Any]:
    """A part of a schema; `of_class` where its description is a docstring."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        described = {key: schema[key] for key in ("description",) if key in schema}
        return {**_cleaned(target, definitions, of_class=True), **described}
    kept = {key: schema[key] for key in _KEPT if key in schema}
    if of_class:
        kept.pop("description", None)
    if "anyOf" in kept:
        kept["anyOf"] = [_cleaned(each, definitions) for each in kept["anyOf"]]
    if "items" in kept:
        kept["items"] = _cleaned(kept["items"], definitions)
    if "properties" in kept:
        kept["properties"] = {name: _cleaned(each, definitions) for name, each in kept["properties"].items()}
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept

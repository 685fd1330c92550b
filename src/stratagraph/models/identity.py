"""How the cache of calls knows a model, and how an index knows its embedder.

The key of an answer holds the model's name, the address of its server, and every setting that can change an
answer. It holds no account: keys, users and organisations are left out. Options of the transport (timeouts,
retries, headers, callbacks) are left out too.

An index knows an embedder by its model's name and the requested length of vector, not by its server. The same
model makes the same vectors on another host or port, so the index opens there too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import BaseModel

_MODEL_NAMES = ("name", "model_name", "model", "model_id")
_ADDRESSES = (
    *("address", "azure_endpoint", "openai_api_base", "api_base", "base_url", "anthropic_api_url"),
    *("endpoint", "endpoint_url", "inference_server_url", "api_url"),
)
_CLIENTS = ("root_client", "client", "_client")
_PORTS = {"http": 80, "https": 443}
_SAME_SETTING = {
    "azure_deployment": "deployment",
    "deployment_name": "deployment",
    "engine": "deployment",
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "num_predict": "max_tokens",
    "openai_api_version": "api_version",
    "stop_sequences": "stop",
    "thinking": "reasoning",
}
"""Settings that libraries call by several names."""
_SETTINGS = """
    adapter_id additional_kwargs api_version betas deployment effort extra_body format frequency_penalty
    generate_kwargs generation_config grammar guardrails include_thoughts length_penalty logit_bias
    max_length max_tokens min_p mirostat mirostat_eta mirostat_tau model_kwargs model_version num_beams
    num_ctx options pipeline_kwargs presence_penalty query_wrapper_prompt reasoning reasoning_effort
    reasoning_format repeat_last_n repeat_penalty repetition_penalty response_format response_mime_type
    response_schema revision safety_settings seed stop stop_token_ids strict system system_prompt template
    temperature tfs_z thinking_budget thinking_level tool_choice tools top_a top_k top_p typical_p
    use_responses_api verbosity
"""
"""The attributes of models that change their answers; mappings among them are taken whole."""
_NO_SETTING = re.compile(
    r".*(?:api_?key|secret|password|credential|authorization|access_token|auth_token|headers?|cookies?"
    r"|timeout|callbacks?|client|prox(?:y|ies))"
    r"|key|token|auth|sig|signature|account|user|user_id|tenant_id|organi[sz]ation|org_id|project|project_id"
    r"|safety_identifier|metadata|tags|config|verbose|stream|streaming|stream_options|stream_usage|store"
    r"|max_retries|keep_alive|prompt_cache_key|service_tier|verify|extra_query|logprobs|top_logprobs",
    re.IGNORECASE,
)
"""Settings that identify the caller or concern the transport, and so change no answer."""
_PLACE_IN_MEMORY = re.compile(r" at 0x[0-9a-f]+")


def _given_name(model: object) -> str | None:
    for attribute in _MODEL_NAMES:
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return value
    value = getattr(getattr(model, "metadata", None), "model_name", None)
    return value if isinstance(value, str) and value else None


def model_name(model: object) -> str:
    """A model's `name`, `model_name` or `model`, else its class."""
    return _given_name(model) or type(model).__qualname__


def identity_of_model(model: object) -> str:
    """What a model's answers depend on besides the prompt: its name, its server and its settings."""
    settings = getattr(model, "settings", None)
    settings = sampling_settings(settings if isinstance(settings, Mapping) else model)
    server = server_address(model)
    about = {**({"server": server} if server else {}), **({"settings": settings} if settings else {})}
    return f"{model_name(model)} {json.dumps(about, sort_keys=True)}" if about else model_name(model)


def normalised_address(url: str) -> str:
    """A server's address in one spelling, without a user, a password or a token in it."""
    parts = urlsplit(url.strip() if "://" in url else f"http://{url.strip()}")
    host = (parts.hostname or "").rstrip(".")
    with suppress(ValueError):  # the port is no number
        if parts.port not in (None, _PORTS.get(parts.scheme)):
            host = f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"
    parameters = sorted(
        (name, value) for name, value in parse_qsl(parts.query) if not _NO_SETTING.fullmatch(name)
    )
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}{query}"


def server_address(model: object) -> str:
    """The normalised address of a model's server; empty where the model names none."""
    for name in _ADDRESSES:
        if address := _address(getattr(model, name, None)):
            return address
    for name in _CLIENTS:
        with suppress(Exception):  # a client made on demand may lack its key
            client: Any = getattr(model, name, None)
            for holder in (client, getattr(client, "_client", None)):
                if address := _address(getattr(holder, "base_url", None)):
                    return address
    return ""


def _address(value: object) -> str:
    if isinstance(value, str) or type(value).__name__.casefold().endswith("url"):
        return normalised_address(str(value)) if str(value).strip() else ""
    return ""


def sampling_settings(*holders: Any) -> dict[str, Any]:
    """The settings on which answers depend, by one name each, as plain values.

    `holders` are models, whose attributes in `_SETTINGS` count, and mappings of request arguments, in which
    everything counts except `_NO_SETTING`. A later holder overrides an earlier one.
    """
    given: dict[str, Any] = {}
    for holder in holders:
        if isinstance(holder, Mapping):
            settings = {str(name): _plain(value) for name, value in holder.items() if value is not None}
        else:
            settings = {
                name: _attribute(getattr(holder, name, None)) for name in (*_SETTINGS.split(), *_SAME_SETTING)
            }
        for name, value in settings.items():
            if value not in (None, "", [], {}) and not _NO_SETTING.fullmatch(name):
                given[_SAME_SETTING.get(name, name)] = value
    return given


def _attribute(value: Any) -> Any:
    """A model's attribute as a plain value; None for methods and other objects."""
    is_value = isinstance(value, str | int | float | list | tuple | set | frozenset | Mapping | BaseModel)
    is_schema = isinstance(value, type) and issubclass(value, BaseModel)
    return _plain(value) if is_value or is_schema else None


def _plain(value: Any) -> Any:
    """A value that JSON can write, the same in every process."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {
            str(name): _plain(each) for name, each in value.items() if not _NO_SETTING.fullmatch(str(name))
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(each) for each in value), key=repr)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump())
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    return _PLACE_IN_MEMORY.sub("", repr(value))


def is_named(embedder: object) -> bool:
    """Whether an embedder says which one it is."""
    return _given_name(embedder) is not None


def declared_dimension(embedder: object) -> int | None:
    """The dimension of an embedder's vectors, where it says so before it has made any."""
    sizes = [getattr(embedder, name, None) for name in ("dimension", "dimensions")]
    return next((each for each in sizes if isinstance(each, int) and each > 0), None)


def embedder_name(embedder: object, dimension: int | None) -> str:
    """How an index knows an embedder: two with the same name are the same embedder.

    The name is the embedder's `name`, or its model's name with the requested `dimensions`, or its class and
    dimension. The server's address, the account and the batch size do not count: the same model on another
    host or port is the same embedder. An Azure deployment stands for a model that was not named.
    """
    name = getattr(embedder, "name", None)
    if isinstance(name, str) and name:
        return name
    model = _given_name(embedder)
    if model is None:
        return f"{type(embedder).__qualname__}-{dimension}"
    deployment = getattr(embedder, "deployment", None)
    if isinstance(deployment, str) and "model" not in getattr(embedder, "model_fields_set", ("model",)):
        model = deployment
    wanted = getattr(embedder, "dimensions", None)
    return f"{model}-{wanted}" if isinstance(wanted, int) and not isinstance(wanted, bool) else model

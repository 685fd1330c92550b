"""The settings of a model on which its answers depend, by one name each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = {
    "frequency_penalty": "frequency_penalty",
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "min_p": "min_p",
    "mirostat": "mirostat",
    "num_ctx": "num_ctx",
    "num_predict": "max_tokens",
    "presence_penalty": "presence_penalty",
    "reasoning": "reasoning",
    "reasoning_effort": "reasoning_effort",
    "repeat_penalty": "repeat_penalty",
    "seed": "seed",
    "stop": "stop",
    "temperature": "temperature",
    "thinking": "reasoning",
    "top_k": "top_k",
    "top_p": "top_p",
}


def sampling_settings(*holders: Any) -> dict[str, Any]:
    """Those settings that are set, of objects or mappings; of two holders the later one counts."""
    found: dict[str, Any] = {}
    for holder in holders:
        for name, ours in _NAMES.items():
            value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
            if isinstance(value, str | int | float | list | tuple | dict) and value != "":
                found[ours] = value
    return found

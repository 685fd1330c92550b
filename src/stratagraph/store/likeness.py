"""What shards must have in common to be read as one index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stratagraph.errors import ShardMismatch
from stratagraph.store.manifest import Manifest
from stratagraph.store.snapshot import Snapshot

_SAME = ("methods", "embedder", "dimension", "tokenizer", "config")
"""What of a manifest all shards must share."""


def require_alike(names: Sequence[str], parts: Sequence[Snapshot], *, adding: bool) -> tuple[str, ...]:
    """The methods of all shards; `ShardMismatch` if the shards differ.

    While a method is being added (`adding`), shards may differ in methods, and those that all have count.
    """
    manifests = [part.manifest for part in parts]
    methods = _common(manifests) if adding else tuple(manifests[0].methods)
    compared = [_with(each, methods) for each in manifests] if adding and methods else manifests
    found = next(differences(list(zip(names, compared, strict=True))), None)
    if found is not None:
        advice = (
            "A new method, or new settings of one, reached only some: give it to each of the others alone, "
            "as in open_index(SHARD).add_method(...)"
            if adding
            else "Build that shard again with the settings of the others"
        )
        raise ShardMismatch(f"{found}. {advice}")
    return methods


def _common(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """The methods that all shards have, with the same settings, in the order of the first."""
    return tuple(
        name
        for name in manifests[0].methods
        if all(name in each.methods for each in manifests)
        and all(_own(each).get(name) == _own(manifests[0]).get(name) for each in manifests)
    )


def _own(manifest: Manifest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = manifest.config.get("methods", {})
    return found


def _with(manifest: Manifest, methods: Sequence[str]) -> Manifest:
    """A manifest with these methods only."""
    settings = {name: own for name, own in _own(manifest).items() if name in methods}
    return replace(manifest, methods=tuple(methods), config={**manifest.config, "methods": settings})


def differences(manifests: Sequence[tuple[str, Manifest]]) -> Iterator[str]:
    """Differences from the first shard, one line each."""
    for name, manifest in manifests[1:]:
        first, known = manifests[0]
        for what in _SAME:
            own, other = getattr(manifest, what), getattr(known, what)
            if own != other:
                where, own, other = _narrowed(what, own, other)
                yield f"{name} differs from {first} in {where}: {_short(own)}, not {_short(other)}"


def _narrowed(name: str, own: Any, other: Any) -> tuple[str, Any, Any]:
    """The innermost setting that differs, by its dotted name, and both values."""
    while isinstance(own, Mapping) and isinstance(other, Mapping):
        differing = [key for key in {**other, **own} if own.get(key) != other.get(key)]
        name, own, other = f"{name}.{differing[0]}", own.get(differing[0]), other.get(differing[0])
    return name, own, other


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."

"""The content of `shards.json`: how documents are spread over shards, and the unfinished operation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from stratagraph.errors import Damaged
from stratagraph.store.manifest import FORMAT, FORMAT_KEY, json_object
from stratagraph.types.records import Metadata, content_key

MOST = 100_000
"""Shards of a folder at most."""
BUILD, COPY, ADD_METHOD = "build", "copy", "add method"
"""Operations that the list tells of until they have ended."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard: its folder, its value of the metadata key, and whether it was built."""

    folder: str
    value: str | None = None
    built: bool = False

    def __str__(self) -> str:
        return self.folder if self.value is None else f"{self.folder} ({self.value!r})"


@dataclass(frozen=True, slots=True)
class Spread:
    """How documents are spread over shards: by the hash of their id, or by a metadata key.

    `unfinished` is an operation on all shards that is running or was stopped. `deleting` holds keys of the
    ids that a running or stopped delete removes, so that the same delete can be repeated. `owed` holds keys
    of the ids of an unfinished first build.
    """

    shards: tuple[Shard, ...]
    by: str | None = None
    unfinished: str | None = None
    deleting: tuple[int, ...] = ()
    owed: tuple[int, ...] = ()

    @classmethod
    def over(cls, count: int) -> Spread:
        """So many shards, by the hash of a document's id."""
        return cls(tuple(Shard(f"shard-{number:04d}") for number in range(count)))

    def shard_of(self, identity: str) -> int:
        """The shard of a document, where its id decides."""
        return content_key(identity) % len(self.shards)

    def owner(self, identity: str, metadata: Metadata) -> int | None:
        """The shard of a document; None if no shard has its value."""
        return self.shard_of(identity) if self.by is None else self.valued(str(metadata.get(self.by)))

    def valued(self, value: str) -> int | None:
        """The shard of a value of the key, if there is one."""
        return next((at for at, each in enumerate(self.shards) if each.value == value), None)

    def with_value(self, value: str) -> Spread:
        """One more shard, for a value of the key."""
        return replace(self, shards=(*self.shards, Shard(f"shard-{len(self.shards):04d}", value)))

    def to_json(self) -> str:
        """The text of `shards.json`."""
        shards = [asdict(each) for each in self.shards]
        fields = {"by": self.by, "unfinished": self.unfinished, "deleting": self.deleting, "owed": self.owed}
        content = {FORMAT_KEY: FORMAT, **fields, "shards": shards}
        return json.dumps(content, indent=1)

    @classmethod
    def of(cls, raw: bytes, path: Path) -> Spread:
        """The list of shards in the bytes of a file; `Damaged` or `FormatMismatch` if it is not valid."""
        content = json_object(raw, path, str(path.parent), "build --shards N", "build_shards")
        try:
            shards = tuple(Shard(**each) for each in content["shards"])
            keys = tuple(content["deleting"]), tuple(content["owed"])
            spread = cls(shards, content["by"], content["unfinished"], *keys)
            spread._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Damaged(f"{path}: not a list of shards ({error!r})") from error
        return spread

    def _check(self) -> None:
        if not (self.by is None) <= len(self.shards) <= MOST or not isinstance(self.by, str | None):
            raise ValueError(f"{len(self.shards)} shards by {self.by!r}")
        if self.unfinished not in (None, BUILD, COPY, ADD_METHOD):
            raise ValueError(f"the unfinished operation {self.unfinished!r}")
        if any(type(key) is not int for key in (*self.deleting, *self.owed)):
            raise ValueError(f"the keys {self.deleting!r} and {self.owed!r} of ids")
        for at, each in enumerate(self.shards):
            if each.folder != f"shard-{at:04d}" or type(each.built) is not bool:
                raise ValueError(f"shard {at} cannot be {each!r}")
            if isinstance(each.value, str) != (self.by is not None):
                raise ValueError(f"shard {at} has the value {each.value!r}")
        if self.by is not None and len({each.value for each in self.shards}) < len(self.shards):
            raise ValueError("two shards have one value")


def description(spread: Spread) -> str:
    """How many shards there are, or what makes them."""
    return f"shards by {spread.by!r}" if spread.by is not None else f"{len(spread.shards)} shards"


def unfinished_notice(spread: Spread) -> str:
    """The record of an unfinished operation on all shards."""
    if spread.unfinished == ADD_METHOD:
        return "a method is being added, or that was stopped before all shards had it; add it again"
    what = "build of shards" if spread.unfinished == BUILD else "copy of shards"
    return f"a {what} is under way or was stopped before its end; do the same again, which finishes it"

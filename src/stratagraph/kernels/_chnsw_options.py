"""What a C-HNSW index was told when it was built, kept with its arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from stratagraph.errors import Damaged, FormatTooNew
from stratagraph.kernels._chnsw_layer import Array, Kind

Metric = Literal["ip", "cosine", "l2"]
Mode = Literal["fast", "paper"]

FORMAT = 4
_FORMATS = (1, 2, 3, FORMAT)  # the first knows no `pool` and no sketches, two no `changes`, three no origin
LEAST_EF, MOST_EF = 10, 100_000
SCANNED: dict[Kind, int] = {"int8": 256, "float16": 128, "float32": 64}
"""Nodes that are scanned sooner than a graph is searched: as many as make 256 bytes for each dimension."""
SKETCHED = 8 * 2**20
"""Bytes of a layer's float codes from which sketches pay; fewer are read as fast as bounds are computed."""
METRICS = {"ip": 0, "cosine": 0, "l2": 1}
KINDS = {"float32": 0, "float16": 1, "int8": 2}


class Stats(NamedTuple):
    """What searches and builds have cost since the index was made or opened (0 in numpy)."""

    queries: int
    distances: int
    """Scores computed from codes."""
    reranked: int
    """Scores computed again in float32."""
    hops: int
    """Nodes whose links were followed."""
    sketched: int
    """Bounds computed from sketches."""


@dataclass(frozen=True)
class Options:
    """How an index is built; see `CHNSW.build`."""

    metric: Metric = "ip"
    codes: Kind = "int8"
    keep_vectors: bool = True
    links: int = 16
    ef_construction: int = 96
    scan_limit: int = SCANNED["int8"]
    breadth: int = 10
    recall: float = 0.98
    mode: Mode = "fast"
    seed: int = 0
    pool: int | None = None

    def __post_init__(self) -> None:
        for name, value, known in [
            ("metric", self.metric, METRICS),
            ("codes", self.codes, KINDS),
            ("mode", self.mode, ("fast", "paper")),
        ]:
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        for name, number, least, most in [
            ("links", self.links, 2, 512),
            ("ef_construction", self.ef_construction, 1, 100_000),
            ("scan_limit", self.scan_limit, 0, 2**31),
            ("breadth", self.breadth, 1, 10_000),
            ("seed", self.seed, 0, 2**63),
            ("ef", 1 if self.pool is None else self.pool, 1, MOST_EF),
        ]:
            if type(number) is not int or not least <= number <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, not {number!r}")
        if type(self.keep_vectors) is not bool:
            raise ValueError(f"keep_vectors must be a boolean, not {self.keep_vectors!r}")
        if not isinstance(self.recall, float | int) or not 0 < self.recall <= 1:
            raise ValueError(f"recall must be above 0 and at most 1, not {self.recall!r}")


def written(options: Options, dimension: int, ef: list[int], changes: list[int | None]) -> Array:
    """Options as an array of bytes; the format before the last is that of an index without an origin."""
    version = FORMAT if options.metric == "l2" else FORMAT - 1
    told = {"dimension": dimension, "ef": ef, "changes": changes, "format": version}
    values = {**asdict(options), **told}
    return np.frombuffer(json.dumps(values, sort_keys=True).encode(), dtype=np.uint8)


def read_options(arrays: Mapping[str, Array]) -> tuple[Options, int, list[int], list[int | None], int]:
    """Options, dimension, `ef` and changes of each layer, and the format, of what `written` made."""
    if "options" not in arrays:
        raise Damaged("array 'options' is missing: these are not the arrays of a C-HNSW index")
    try:
        read: dict[str, Any] = json.loads(bytes(arrays["options"]))
        version, dimension, ef = read.pop("format"), read.pop("dimension"), read.pop("ef")
        if isinstance(version, int) and version > FORMAT:
            raise FormatTooNew(
                f"the index has format {version}; this version of stratagraph reads up to {FORMAT}"
            )
        changes = read.pop("changes", [0] * len(ef) if isinstance(ef, list) else 0)
        options = Options(**read)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"array 'options' cannot be read: {error}") from error
    numbers = [dimension, *ef] if isinstance(ef, list) and 0 < len(ef) < 10_000 else [0]
    if version not in _FORMATS or not all(type(each) is int and 0 < each < 2**20 for each in numbers):
        raise Damaged(f"array 'options' holds format {version!r}, dimension {dimension!r} and ef {ef!r}")
    known = isinstance(changes, list) and len(changes) == len(ef)
    if not known or not all(each is None or (type(each) is int and 0 <= each < 2**62) for each in changes):
        raise Damaged(f"array 'options' holds changes {changes!r} of {len(ef)} layers")
    return options, dimension, ef, changes, version

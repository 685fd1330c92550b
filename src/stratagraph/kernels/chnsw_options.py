"""Options of a C-HNSW index and their stored form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from stratagraph.errors import Damaged, FormatMismatch
from stratagraph.kernels.chnsw_layer import Array, Kind

Mode = Literal["fast", "paper"]

FORMAT = 1
LEAST_EF, MOST_EF = 10, 100_000
SCANNED: dict[Kind, int] = {"int8": 256, "float32": 64}
"""Largest layers that are scanned in less time than a graph is searched: their codes take as many bytes."""


class Stats(NamedTuple):
    """Work since the index was built or opened."""

    queries: int
    distances: int
    """Scores computed from codes."""
    reranked: int
    """Scores computed again from the float32 vectors."""
    hops: int
    """Nodes whose links were followed."""


@dataclass(frozen=True)
class Options:
    """How an index is built.

    Parameters
    ----------
    codes
        What is searched: `int8` (one scale per vector) or `float32`.
    keep_vectors
        Keep the float32 vectors to score results again; False loses a little recall.
    links
        How many links a new node sets (M in the paper). A node keeps at most twice as many.
    ef_construction
        How many candidates these links are chosen from.
    scan_limit
        A layer with at most so many nodes is scanned whole. -1 stands for 256 with int8 codes, and for 64
        with float32.
    breadth
        Best nodes of a layer whose children are entries into the next (ERRATA A8).
    recall
        Recall@10 that the default `ef` of each layer reaches on a sample of blended nodes.
    mode
        `paper` is Alg. 2 and Alg. 3 with ERRATA A5 to A7: nearest neighbours are linked, one inter-layer link
        is the entry, nothing is scanned.
    seed
        Of the order of insertion.
    ef
        The default `ef` of all layers, for up to 10 results; then nothing is measured.
    """

    codes: Kind = "int8"
    keep_vectors: bool = True
    links: int = 16
    ef_construction: int = 96
    scan_limit: int = -1
    breadth: int = 10
    recall: float = 0.98
    mode: Mode = "fast"
    seed: int = 0
    ef: int | None = None

    def __post_init__(self) -> None:
        if self.scan_limit == -1:
            object.__setattr__(self, "scan_limit", SCANNED.get(self.codes, 0))
        for name, value, allowed in (("codes", self.codes, [*SCANNED]), ("mode", self.mode, get_args(Mode))):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        for name, number, least, most in [
            ("links", self.links, 2, 512),
            ("ef_construction", self.ef_construction, 1, 100_000),
            ("scan_limit", self.scan_limit, 0, 2**31),
            ("breadth", self.breadth, 1, 10_000),
            ("seed", self.seed, 0, 2**63),
            ("ef", 1 if self.ef is None else self.ef, 1, MOST_EF),
        ]:
            if type(number) is not int or not least <= number <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, not {number!r}")
        if type(self.keep_vectors) is not bool:
            raise ValueError(f"keep_vectors must be a boolean, not {self.keep_vectors!r}")
        if not isinstance(self.recall, float | int) or not 0 < self.recall <= 1:
            raise ValueError(f"recall must be above 0 and at most 1, not {self.recall!r}")


def written(options: Options, dimension: int, ef: list[int], changes: list[int]) -> Array:
    """Options, dimension, and the `ef` and changes of each layer, as JSON in an array of bytes."""
    values = {"format": FORMAT, "dimension": dimension, "ef": ef, "changes": changes}
    values |= {"options": asdict(options)}
    return np.frombuffer(json.dumps(values, sort_keys=True).encode(), dtype=np.uint8)


def read_options(arrays: Mapping[str, Array]) -> tuple[Options, int, list[int], list[int]]:
    """What `written` was given, from the array named `options`."""
    if "options" not in arrays:
        raise Damaged("array 'options' is missing: these are not the arrays of a C-HNSW index")
    try:
        read: dict[str, Any] = json.loads(bytes(arrays["options"]))
        version = read["format"]
        if type(version) is int and version != FORMAT:
            raise FormatMismatch(f"the index has format {version}; this version reads format {FORMAT}")
        dimension, ef, changes = read["dimension"], read["ef"], read["changes"]
        options = Options(**read["options"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"array 'options' cannot be read: {error}") from error
    numbers = [dimension, *ef] if isinstance(ef, list) and 0 < len(ef) < 10_000 else [0]
    if version != FORMAT or not all(type(each) is int and 0 < each < 2**20 for each in numbers):
        raise Damaged(f"array 'options' holds format {version!r}, dimension {dimension!r} and ef {ef!r}")
    fits = isinstance(changes, list) and len(changes) == len(ef)
    if not fits or not all(type(each) is int and 0 <= each < 2**62 for each in changes):
        raise Damaged(f"array 'options' holds changes {changes!r} of {len(ef)} layers")
    return options, dimension, ef, changes

"""Settings and search options of methods: what makes no sense is named."""

from __future__ import annotations

from typing import Any

import pytest

from stratagraph.methods.archrag import ArchRAGConfig, ArchRAGOptions
from stratagraph.methods.hirag import HiRAGConfig, HiRAGOptions
from stratagraph.methods.lshtree import LSHTreeConfig, LSHTreeOptions
from stratagraph.methods.noderag import NodeRAGConfig, NodeRAGOptions

OUT_OF_RANGE: list[tuple[Any, dict[str, Any], str]] = [
    (ArchRAGConfig, {"clustering": "louvain"}, "there is no clustering"),
    (ArchRAGConfig, {"augmentation": "custom:"}, "there is no augmentation"),
    (ArchRAGConfig, {"max_community": 1}, "max_community"),
    (ArchRAGConfig, {"quantile": 1.5}, "quantile"),
    (ArchRAGConfig, {"resolution": 0}, "resolution"),
    (ArchRAGConfig, {"added_neighbours": 0}, "added_neighbours"),
    (ArchRAGConfig, {"quality": "CPM"}, "clustering='leidenalg'"),
    (ArchRAGConfig, {"clustering": "leidenalg", "quality": "best"}, "quality must be one of modularity"),
    (
        ArchRAGConfig,
        {"clustering": "leidenalg", "quality": "surprise", "resolution": 2.0},
        "surprise has no resolution",
    ),
    (ArchRAGConfig, {"mode": "printed"}, "mode"),
    (ArchRAGConfig, {"codes": "int4"}, "codes"),
    (ArchRAGConfig, {"ef": 0}, "ef"),
    (ArchRAGOptions, {"levels": ()}, "levels is empty"),
    (ArchRAGOptions, {"k_per_level": 0}, "k_per_level"),
    (ArchRAGOptions, {"mode": "both"}, "mode"),
    (ArchRAGOptions, {"mode": "direct", "merge": "paper"}, "has no effect"),
    (HiRAGConfig, {"cluster_size": 1}, "cluster_size"),
    (HiRAGConfig, {"max_cluster": 4}, "max_cluster"),
    (HiRAGConfig, {"threshold": 0.0}, "threshold"),
    (HiRAGConfig, {"report_form": "long"}, "report_form"),
    (HiRAGConfig, {"meta_types": [""]}, "meta_types"),
    (HiRAGOptions, {"mode": "all"}, "mode"),
    (HiRAGOptions, {"entities": 0}, "entities"),
    (HiRAGOptions, {"quotas": (0, 0, 0)}, "quotas"),
    (LSHTreeConfig, {"min_cluster": 4, "max_cluster": 6}, r"2 \* min_cluster - 1"),
    (LSHTreeOptions, {"levels": (-1,)}, "level"),
    (LSHTreeOptions, {"k_per_level": 0, "mode": "per_level"}, "k_per_level"),
    (LSHTreeOptions, {"mode": "all"}, "mode"),
    (NodeRAGConfig, {"links": 1}, "links"),
    (NodeRAGConfig, {"statements": 0}, "statements"),
    (NodeRAGOptions, {"mode": "deep"}, "mode must be"),
    (NodeRAGOptions, {"restart": 1.0}, "between 0 and 1"),
    (NodeRAGOptions, {"steps": -1}, "steps must be"),
    (NodeRAGOptions, {"entry_types": ("N",)}, "'N'"),
    (NodeRAGOptions, {"limits": {"O": 3}}, "'O'"),
    (NodeRAGOptions, {"limits": {"T": -3}}, "limit of T"),
    (NodeRAGOptions, {"types": ()}, "types is empty"),
]
OF_ANOTHER_TYPE: list[tuple[Any, dict[str, Any], str]] = [
    (ArchRAGConfig, {"min_shrink": float("nan")}, "min_shrink"),
    (ArchRAGOptions, {"relations": 1}, "relations"),
    (HiRAGConfig, {"meta_types": "place"}, "meta_types"),
    (HiRAGConfig, {"seed": True}, "seed"),
    (HiRAGOptions, {"communities": 1.5}, "communities"),
    (HiRAGOptions, {"quotas": (1, 1)}, "quotas"),
    (LSHTreeOptions, {"levels": (1.7,)}, "level"),
    (LSHTreeOptions, {"levels": "1"}, "level"),
    (LSHTreeOptions, {"k_per_level": True, "mode": "per_level"}, "k_per_level"),
    (NodeRAGOptions, {"steps": 2.5}, "steps must be a whole number"),
    (NodeRAGOptions, {"names": 1}, "names"),
]


@pytest.mark.parametrize(
    ("error", "kind", "wrong", "message"),
    [*((ValueError, *each) for each in OUT_OF_RANGE), *((TypeError, *each) for each in OF_ANOTHER_TYPE)],
)
def test_what_makes_no_sense_is_named(
    error: type[Exception], kind: Any, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(error, match=message):
        kind(**wrong)

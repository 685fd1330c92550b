"""LSH tree: Scalable Graph-based RAG via Locality-Sensitive Hashing (with ERRATA L1-L5).

===========================  ====================================================================
paper                        here
===========================  ====================================================================
4.1 hyperplanes, hash        `kernels.lsh.hyperplanes`, `kernels.lsh.hash_codes`
4.2 rearranging, grouping    `kernels.buckets.group`; under updates `kernels.buckets.place`
4.2 multi-phased building    `build.build`: hash, group, summarise, embed, repeat
4.2 parallel retrieving      `search.TreeSearcher`: top-k over all levels, or per level
===========================  ====================================================================
"""

from __future__ import annotations

from stratagraph.methods.base import Method
from stratagraph.methods.lshtree.build import build
from stratagraph.methods.lshtree.config import LSHTreeConfig, LSHTreeOptions
from stratagraph.methods.lshtree.search import TreeSearcher, check_arrays

METHOD = Method(
    "lshtree",
    LSHTreeOptions,
    config_type=LSHTreeConfig,
    build=build,
    check=check_arrays,
    open=TreeSearcher,
    needs_graph=False,
    cosines=True,
    themes={"summary": 1.0},
)

__all__ = ["METHOD", "LSHTreeConfig", "LSHTreeOptions"]

"""ArchRAG: Attributed Community-based Hierarchical Retrieval-Augmented Generation (with ERRATA A1-A8).

===================================  ========================================================
paper                                here
===================================  ========================================================
Alg. 1, the loop                     `build.build`
Alg. 1, lines 3-6                    `levels.partition` (any augmentation with any clustering)
Alg. 1, line 7                       `levels.write_communities`, `methods.reports`
Alg. 1, line 9                       `levels.partition`
3.1.3, Alg. 3 C-HNSW                 `build.index_arrays`, `kernels.chnsw`
3.2.1, Alg. 2 hierarchical search    `search.HierarchySearcher`, `kernels.chnsw`
3.2.1, relations among entities      `search.Relations`
3.2.2, Eq. 3 and 4                   `compose.compose`
===================================  ========================================================

Beyond the paper: one ranking of all levels (`ranking`), and updates that keep communities which did not
change (`levels.WarmStart`).
"""

from __future__ import annotations

from stratagraph.methods.archrag.build import build
from stratagraph.methods.archrag.clustering import register_augmentation, register_clustering
from stratagraph.methods.archrag.compose import compose
from stratagraph.methods.archrag.config import KINDS, THEMES, ArchRAGConfig, ArchRAGOptions
from stratagraph.methods.archrag.search import HierarchySearcher, check_arrays
from stratagraph.methods.base import Method

METHOD = Method(
    "archrag",
    ArchRAGOptions,
    config_type=ArchRAGConfig,
    build=build,
    check=check_arrays,
    open=HierarchySearcher,
    compose=compose,
    answer_k=30,
    kinds=KINDS,
    themes=THEMES,
    needs_vectors=True,
)

__all__ = ["METHOD", "ArchRAGConfig", "ArchRAGOptions", "register_augmentation", "register_clustering"]

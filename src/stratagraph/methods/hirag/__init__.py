"""HiRAG: retrieval-augmented generation with hierarchical knowledge (with ERRATA H1-H5).

=====================================  ==================================================================
paper                                  here
=====================================  ==================================================================
4.1 Gaussian mixtures (eq. 8)          `kernels.mixture.soft_clusters`; kept under updates by `clusters`
4.1 summary entities, meta types       `naming`: by the model, or from its central members; `prompts`
4.1 HiIndex (Alg. 1)                   `build.build_layers`
4.1 communities, reports               `communities.build_communities`, `methods.reports`
4.2 HiRetrieval (Alg. 2)               `search.BridgeSearcher`
4.2 reasoning paths (eq. 14-16)        `bridge.LayeredGraph`, `kernels.paths`
4.2 three-level context                `compose.compose`
5.3 w/o bridge                         `HiRAGOptions.mode`
5.4 cluster sparsity (eq. 17)          `kernels.mixture.sparsity`
=====================================  ==================================================================
"""

from __future__ import annotations

from stratagraph.methods.base import Method
from stratagraph.methods.hirag.build import build
from stratagraph.methods.hirag.config import KINDS, THEMES, HiRAGConfig, HiRAGOptions
from stratagraph.methods.hirag.search import BridgeSearcher, check_arrays, compose

METHOD = Method(
    "hirag",
    HiRAGOptions,
    config_type=HiRAGConfig,
    build=build,
    check=check_arrays,
    open=BridgeSearcher,
    compose=compose,
    answer_k=40,
    kinds=KINDS,
    themes=THEMES,
    needs_vectors=True,
)

__all__ = ["METHOD", "HiRAGConfig", "HiRAGOptions"]

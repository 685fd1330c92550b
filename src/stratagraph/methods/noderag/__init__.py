"""NodeRAG: graph RAG over a heterograph of seven types of nodes (with ERRATA N1-N8).

==============================  =============================================================
paper                           here
==============================  =============================================================
2.1 heterograph                 `heterograph`: types, numbering, edges by kind, Table 4
2.2 graph decomposition         `ingest.extraction.stage`, `ingest.graph.stage`; `heterograph.decomposition`
2.3 important entities, Alg. 1  `attributes.important_entities`, `kernels.centrality`
2.3 attributes                  `attributes`
2.3 communities                 `elements.detect_communities`, `kernels.leiden`
2.3 high-level elements, titles `elements`
2.3 semantic matching, Alg. 2   `kernels.spherical_kmeans`, `heterograph.matches`
2.4 text insertion              `heterograph.text_edges`
2.4 embedding                   `build`: T, S, A and H
2.4 HNSW semantic edges         `heterograph.semantic_links`
2.5 dual search                 `search.DualSearch`
2.5 shallow PPR, cross nodes    `search`, `kernels.ppr`
2.5 filter, retrieval           `search.HeterographSearcher`
==============================  =============================================================
"""

from __future__ import annotations

from functools import partial

from stratagraph.methods.base import Method
from stratagraph.methods.noderag.build import build
from stratagraph.methods.noderag.config import KINDS, THEMES, NodeRAGConfig, NodeRAGOptions
from stratagraph.methods.noderag.search import HeterographSearcher, check_arrays
from stratagraph.models.prompts import load_prompt
from stratagraph.search.answer import compose

METHOD = Method(
    "noderag",
    NodeRAGOptions,
    config_type=NodeRAGConfig,
    build=build,
    check=check_arrays,
    open=HeterographSearcher,
    compose=partial(compose, prompt=load_prompt("stratagraph.methods.noderag", "answer")),
    answer_k=30,
    kinds=KINDS,
    themes=THEMES,
    needs_units=True,
)

__all__ = ["METHOD", "NodeRAGConfig", "NodeRAGOptions"]

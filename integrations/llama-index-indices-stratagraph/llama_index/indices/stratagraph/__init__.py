"""`llama_index_stratagraph` under LlamaIndex's namespace."""

from llama_index_stratagraph import (
    ArchRAGIndex,
    CoreSynthesizer,
    HiRAGIndex,
    LSHTreeIndex,
    NodeRAGIndex,
    StrataRetriever,
    StrataVectorStore,
    WalkIndex,
    to_property_graph,
)

__all__ = [
    "ArchRAGIndex",
    "CoreSynthesizer",
    "HiRAGIndex",
    "LSHTreeIndex",
    "NodeRAGIndex",
    "StrataRetriever",
    "StrataVectorStore",
    "WalkIndex",
    "to_property_graph",
]

"""stratarag under LlamaIndex's own namespace; `llama_index_stratarag` is the same."""

from llama_index_stratarag import (
    ArchRAGIndex,
    CoreSynthesizer,
    HiRAGIndex,
    LSHTreeIndex,
    NodeRAGIndex,
    StrataRetriever,
    to_property_graph,
)

__all__ = [
    "ArchRAGIndex",
    "CoreSynthesizer",
    "HiRAGIndex",
    "LSHTreeIndex",
    "NodeRAGIndex",
    "StrataRetriever",
    "to_property_graph",
]

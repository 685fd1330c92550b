"""stratagraph under LlamaIndex's own namespace; `llama_index_stratagraph` is the same."""

from llama_index_stratagraph import (
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

"""stratagraph for LlamaIndex: an index class for each way of searching, over stratagraph's index folders."""

from __future__ import annotations

from stratagraph.errors import MissingExtra

try:
    from llama_index_stratagraph._export import to_property_graph
    from llama_index_stratagraph.indices import (
        ArchRAGIndex,
        HiRAGIndex,
        LSHTreeIndex,
        NodeRAGIndex,
        WalkIndex,
    )
    from llama_index_stratagraph.retriever import StrataRetriever
    from llama_index_stratagraph.synthesizer import CoreSynthesizer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "llama_index":
        raise
    raise MissingExtra("llama-index-core", "llama-index") from error

__all__ = [
    "ArchRAGIndex",
    "CoreSynthesizer",
    "HiRAGIndex",
    "LSHTreeIndex",
    "NodeRAGIndex",
    "StrataRetriever",
    "WalkIndex",
    "to_property_graph",
]

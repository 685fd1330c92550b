"""stratagraph for LlamaIndex: an index class for each way of searching, over stratagraph's index folders.

The index classes are known to `load_index_from_storage`; they are imported when one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratagraph._lazy import lazy_names
from stratagraph.errors import require

if TYPE_CHECKING:
    from llama_index_stratagraph._export import to_property_graph as to_property_graph
    from llama_index_stratagraph.indices import ArchRAGIndex as ArchRAGIndex
    from llama_index_stratagraph.indices import HiRAGIndex as HiRAGIndex
    from llama_index_stratagraph.indices import LSHTreeIndex as LSHTreeIndex
    from llama_index_stratagraph.indices import NodeRAGIndex as NodeRAGIndex
    from llama_index_stratagraph.indices import WalkIndex as WalkIndex
    from llama_index_stratagraph.retriever import StrataRetriever as StrataRetriever
    from llama_index_stratagraph.synthesizer import CoreSynthesizer as CoreSynthesizer
    from llama_index_stratagraph.vector_store import StrataVectorStore as StrataVectorStore

require("llama-index", "llama_index.core")

from llama_index_stratagraph import _persist  # noqa: E402, F401 - registers the index classes

if not TYPE_CHECKING:  # a type checker takes the names imported above
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "llama_index_stratagraph._export": "to_property_graph",
            "llama_index_stratagraph.indices": "ArchRAGIndex HiRAGIndex LSHTreeIndex NodeRAGIndex WalkIndex",
            "llama_index_stratagraph.retriever": "StrataRetriever",
            "llama_index_stratagraph.synthesizer": "CoreSynthesizer",
            "llama_index_stratagraph.vector_store": "StrataVectorStore",
        },
    )

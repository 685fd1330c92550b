"""stratarag for LlamaIndex: an index class per method, over the index folders that the core writes."""

from __future__ import annotations

from llama_index_stratarag.indices import LSHTreeIndex
from llama_index_stratarag.retriever import StrataRetriever
from llama_index_stratarag.synthesizer import CoreSynthesizer

__all__ = ["CoreSynthesizer", "LSHTreeIndex", "StrataRetriever"]

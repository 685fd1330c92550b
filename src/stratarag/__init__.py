"""Graph RAG methods as drop-in parts for LangChain and LlamaIndex, over one core that knows neither.

>>> import stratarag as sr
>>> index = sr.build_index(["Ada wrote the letter.", "The letter is in Bremen."], progress=False)
>>> index.retrieve("Where is the letter?", k=1).hits[0].text
'The letter is in Bremen.'

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stratarag import batch as batch
    from stratarag import errors as errors
    from stratarag._mapping import mapper as mapper
    from stratarag._search_options import SearchOption as SearchOption
    from stratarag._search_options import check_search_options as check_search_options
    from stratarag._search_options import search_options as search_options
    from stratarag.api import abuild_index as abuild_index
    from stratarag.api import abuild_shards as abuild_shards
    from stratarag.api import aestimate as aestimate
    from stratarag.api import aopen_index as aopen_index
    from stratarag.api import build_index as build_index
    from stratarag.api import build_shards as build_shards
    from stratarag.api import estimate as estimate
    from stratarag.api import open_index as open_index
    from stratarag.config import Config as Config
    from stratarag.importing import Imported as Imported
    from stratarag.importing import from_graph_documents as from_graph_documents
    from stratarag.importing import from_property_graph as from_property_graph
    from stratarag.importing import read_extraction as read_extraction
    from stratarag.importing import read_graphrag as read_graphrag
    from stratarag.importing import read_openie as read_openie
    from stratarag.index import Index as Index
    from stratarag.loaders import read_documents as read_documents
    from stratarag.methods.archrag import register_augmentation as register_augmentation
    from stratarag.methods.archrag import register_clustering as register_clustering
    from stratarag.methods.lshtree import LSHTreeConfig as LSHTreeConfig
    from stratarag.models.budget import Budget as Budget
    from stratarag.models.budget import Limits as Limits
    from stratarag.models.budget import Prices as Prices
    from stratarag.models.estimate import Estimate as Estimate
    from stratarag.models.local import HashingEmbedder as HashingEmbedder
    from stratarag.models.local import MiniLMEmbedder as MiniLMEmbedder
    from stratarag.models.local import OnnxEmbedder as OnnxEmbedder
    from stratarag.pipeline.chunk import ChunkConfig as ChunkConfig
    from stratarag.pipeline.extraction.stage import ExtractionConfig as ExtractionConfig
    from stratarag.records import BuildReport as BuildReport
    from stratarag.records import Chunk as Chunk
    from stratarag.records import Document as Document
    from stratarag.records import EntityMention as EntityMention
    from stratarag.records import Extraction as Extraction
    from stratarag.records import Failure as Failure
    from stratarag.records import GraphEntity as GraphEntity
    from stratarag.records import GraphRelation as GraphRelation
    from stratarag.records import GraphUnit as GraphUnit
    from stratarag.records import Level as Level
    from stratarag.records import Listed as Listed
    from stratarag.records import Listing as Listing
    from stratarag.records import MethodNode as MethodNode
    from stratarag.records import RelationMention as RelationMention
    from stratarag.records import Section as Section
    from stratarag.records import SemanticUnit as SemanticUnit
    from stratarag.records import StreamedDocument as StreamedDocument
    from stratarag.records import Usage as Usage
    from stratarag.results import Answer as Answer
    from stratarag.results import AnswerStream as AnswerStream
    from stratarag.results import Citation as Citation
    from stratarag.results import Context as Context
    from stratarag.results import Hit as Hit
    from stratarag.results import Picture as Picture
    from stratarag.results import Retrieval as Retrieval

_HOMES = {
    "stratarag._mapping": ("mapper",),
    "stratarag.config": ("Config",),
    "stratarag.importing": (
        "Imported",
        "from_graph_documents",
        "from_property_graph",
        "read_extraction",
        "read_graphrag",
        "read_openie",
    ),
    "stratarag.index": ("Index",),
    "stratarag.api": (
        "abuild_index",
        "abuild_shards",
        "aestimate",
        "aopen_index",
        "build_index",
        "build_shards",
        "estimate",
        "open_index",
    ),
    "stratarag.methods.archrag": ("register_augmentation", "register_clustering"),
    "stratarag.methods.lshtree": ("LSHTreeConfig",),
    "stratarag.models.estimate": ("Estimate",),
    "stratarag.models.budget": ("Budget", "Limits", "Prices"),
    "stratarag.models.local": ("HashingEmbedder", "MiniLMEmbedder", "OnnxEmbedder"),
    "stratarag.pipeline.chunk": ("ChunkConfig",),
    "stratarag.results": ("Answer", "AnswerStream", "Citation", "Context", "Hit", "Picture", "Retrieval"),
    "stratarag.pipeline.extraction.stage": ("ExtractionConfig",),
    "stratarag.loaders": ("read_documents",),
    "stratarag._search_options": ("SearchOption", "check_search_options", "search_options"),
    "stratarag.records": (
        "BuildReport",
        "Chunk",
        "Document",
        "EntityMention",
        "Extraction",
        "Failure",
        "GraphEntity",
        "GraphRelation",
        "GraphUnit",
        "Level",
        "Listed",
        "Listing",
        "MethodNode",
        "RelationMention",
        "Section",
        "SemanticUnit",
        "StreamedDocument",
        "Usage",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "AnswerStream",
    "Budget",
    "BuildReport",
    "Chunk",
    "ChunkConfig",
    "Citation",
    "Config",
    "Context",
    "Document",
    "EntityMention",
    "Estimate",
    "Extraction",
    "ExtractionConfig",
    "Failure",
    "GraphEntity",
    "GraphRelation",
    "GraphUnit",
    "HashingEmbedder",
    "Hit",
    "Imported",
    "Index",
    "LSHTreeConfig",
    "Level",
    "Limits",
    "Listed",
    "Listing",
    "MethodNode",
    "MiniLMEmbedder",
    "OnnxEmbedder",
    "Picture",
    "Prices",
    "RelationMention",
    "Retrieval",
    "SearchOption",
    "Section",
    "SemanticUnit",
    "StreamedDocument",
    "Usage",
    "abuild_index",
    "abuild_shards",
    "aestimate",
    "aopen_index",
    "batch",
    "build_index",
    "build_shards",
    "check_search_options",
    "errors",
    "estimate",
    "from_graph_documents",
    "from_property_graph",
    "mapper",
    "open_index",
    "read_documents",
    "read_extraction",
    "read_graphrag",
    "read_openie",
    "register_augmentation",
    "register_clustering",
    "search_options",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in ("batch", "errors"):
        return import_module(f"stratarag.{name}")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'stratarag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

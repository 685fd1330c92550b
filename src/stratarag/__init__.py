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
    from stratarag import errors as errors
    from stratarag.config import Config as Config
    from stratarag.importing import Imported as Imported
    from stratarag.importing import from_graph_documents as from_graph_documents
    from stratarag.importing import from_property_graph as from_property_graph
    from stratarag.importing import read_extraction as read_extraction
    from stratarag.importing import read_graphrag as read_graphrag
    from stratarag.importing import read_openie as read_openie
    from stratarag.index import Index as Index
    from stratarag.methods.archrag import register_augmentation as register_augmentation
    from stratarag.methods.archrag import register_clustering as register_clustering
    from stratarag.methods.lshtree import LSHTreeConfig as LSHTreeConfig
    from stratarag.models.estimate import Estimate as Estimate
    from stratarag.models.limits import Budget as Budget
    from stratarag.models.limits import Limits as Limits
    from stratarag.models.limits import Prices as Prices
    from stratarag.models.local import HashingEmbedder as HashingEmbedder
    from stratarag.models.local import MiniLMEmbedder as MiniLMEmbedder
    from stratarag.models.local import OnnxEmbedder as OnnxEmbedder
    from stratarag.opening import abuild_index as abuild_index
    from stratarag.opening import aestimate as aestimate
    from stratarag.opening import aopen_index as aopen_index
    from stratarag.opening import build_index as build_index
    from stratarag.opening import estimate as estimate
    from stratarag.opening import open_index as open_index
    from stratarag.picture import Picture as Picture
    from stratarag.pipeline.answer import Answer as Answer
    from stratarag.pipeline.chunk import ChunkConfig as ChunkConfig
    from stratarag.pipeline.context import Citation as Citation
    from stratarag.pipeline.context import Context as Context
    from stratarag.pipeline.context import Retrieval as Retrieval
    from stratarag.pipeline.extract import ExtractionConfig as ExtractionConfig
    from stratarag.reading import read_documents as read_documents
    from stratarag.records import BuildReport as BuildReport
    from stratarag.records import Chunk as Chunk
    from stratarag.records import Document as Document
    from stratarag.records import EntityMention as EntityMention
    from stratarag.records import Extraction as Extraction
    from stratarag.records import Failure as Failure
    from stratarag.records import GraphEntity as GraphEntity
    from stratarag.records import GraphRelation as GraphRelation
    from stratarag.records import GraphUnit as GraphUnit
    from stratarag.records import Hit as Hit
    from stratarag.records import MethodNode as MethodNode
    from stratarag.records import RelationMention as RelationMention
    from stratarag.records import SemanticUnit as SemanticUnit
    from stratarag.records import StreamedDocument as StreamedDocument
    from stratarag.records import Usage as Usage

_HOMES = {
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
    "stratarag.opening": (
        "abuild_index",
        "aestimate",
        "aopen_index",
        "build_index",
        "estimate",
        "open_index",
    ),
    "stratarag.methods.archrag": ("register_augmentation", "register_clustering"),
    "stratarag.methods.lshtree": ("LSHTreeConfig",),
    "stratarag.models.estimate": ("Estimate",),
    "stratarag.models.limits": ("Budget", "Limits", "Prices"),
    "stratarag.models.local": ("HashingEmbedder", "MiniLMEmbedder", "OnnxEmbedder"),
    "stratarag.pipeline.answer": ("Answer",),
    "stratarag.pipeline.chunk": ("ChunkConfig",),
    "stratarag.pipeline.context": ("Citation", "Context", "Retrieval"),
    "stratarag.pipeline.extract": ("ExtractionConfig",),
    "stratarag.picture": ("Picture",),
    "stratarag.reading": ("read_documents",),
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
        "Hit",
        "MethodNode",
        "RelationMention",
        "SemanticUnit",
        "StreamedDocument",
        "Usage",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
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
    "Limits",
    "MethodNode",
    "MiniLMEmbedder",
    "OnnxEmbedder",
    "Picture",
    "Prices",
    "RelationMention",
    "Retrieval",
    "SemanticUnit",
    "StreamedDocument",
    "Usage",
    "abuild_index",
    "aestimate",
    "aopen_index",
    "build_index",
    "errors",
    "estimate",
    "from_graph_documents",
    "from_property_graph",
    "open_index",
    "read_documents",
    "read_extraction",
    "read_graphrag",
    "read_openie",
    "register_augmentation",
    "register_clustering",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "errors":
        return import_module("stratarag.errors")
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'stratarag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

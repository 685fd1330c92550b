"""Graph RAG methods as drop-in parts for LangChain and LlamaIndex, over one core that knows neither.

>>> import stratagraph as sg
>>> index = sg.build_index(["Ada wrote the letter.", "The letter is in Bremen."], progress=False)
>>> index.retrieve("Where is the letter?", k=1).hits[0].text
'The letter is in Bremen.'

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratagraph._lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stratagraph import batch as batch
    from stratagraph import errors as errors
    from stratagraph.api import abuild_index as abuild_index
    from stratagraph.api import abuild_shards as abuild_shards
    from stratagraph.api import aestimate as aestimate
    from stratagraph.api import aopen_index as aopen_index
    from stratagraph.api import build_index as build_index
    from stratagraph.api import build_shards as build_shards
    from stratagraph.api import estimate as estimate
    from stratagraph.api import open_index as open_index
    from stratagraph.config import Config as Config
    from stratagraph.importing import Imported as Imported
    from stratagraph.importing import from_graph_documents as from_graph_documents
    from stratagraph.importing import from_property_graph as from_property_graph
    from stratagraph.importing import read_extraction as read_extraction
    from stratagraph.importing import read_graphrag as read_graphrag
    from stratagraph.importing import read_openie as read_openie
    from stratagraph.index import Index as Index
    from stratagraph.ingest.chunk import ChunkConfig as ChunkConfig
    from stratagraph.ingest.extraction.stage import ExtractionConfig as ExtractionConfig
    from stratagraph.ingest.loaders import read_documents as read_documents
    from stratagraph.mapping import mapper as mapper
    from stratagraph.methods.archrag import register_augmentation as register_augmentation
    from stratagraph.methods.archrag import register_clustering as register_clustering
    from stratagraph.methods.lshtree import LSHTreeConfig as LSHTreeConfig
    from stratagraph.methods.settings import register_neighbours as register_neighbours
    from stratagraph.models.budget import Budget as Budget
    from stratagraph.models.budget import Limits as Limits
    from stratagraph.models.budget import Prices as Prices
    from stratagraph.models.estimate import Estimate as Estimate
    from stratagraph.models.local import HashingEmbedder as HashingEmbedder
    from stratagraph.models.local import MiniLMEmbedder as MiniLMEmbedder
    from stratagraph.models.local import OnnxEmbedder as OnnxEmbedder
    from stratagraph.operations.arguments import SearchOption as SearchOption
    from stratagraph.operations.arguments import check_search_options as check_search_options
    from stratagraph.operations.arguments import search_options as search_options
    from stratagraph.types.records import BuildReport as BuildReport
    from stratagraph.types.records import Chunk as Chunk
    from stratagraph.types.records import Document as Document
    from stratagraph.types.records import EntityMention as EntityMention
    from stratagraph.types.records import Extraction as Extraction
    from stratagraph.types.records import Failure as Failure
    from stratagraph.types.records import GraphEntity as GraphEntity
    from stratagraph.types.records import GraphRelation as GraphRelation
    from stratagraph.types.records import GraphUnit as GraphUnit
    from stratagraph.types.records import Level as Level
    from stratagraph.types.records import Listed as Listed
    from stratagraph.types.records import Listing as Listing
    from stratagraph.types.records import MethodNode as MethodNode
    from stratagraph.types.records import RelationMention as RelationMention
    from stratagraph.types.records import Section as Section
    from stratagraph.types.records import SemanticUnit as SemanticUnit
    from stratagraph.types.records import StreamedDocument as StreamedDocument
    from stratagraph.types.records import Usage as Usage
    from stratagraph.types.results import Answer as Answer
    from stratagraph.types.results import AnswerStream as AnswerStream
    from stratagraph.types.results import Citation as Citation
    from stratagraph.types.results import Context as Context
    from stratagraph.types.results import Guidance as Guidance
    from stratagraph.types.results import GuidedStep as GuidedStep
    from stratagraph.types.results import Hit as Hit
    from stratagraph.types.results import Picture as Picture
    from stratagraph.types.results import Retrieval as Retrieval
    from stratagraph.types.results import Standalone as Standalone

_HOMES = {
    "stratagraph": "batch errors",
    "stratagraph.mapping": "mapper",
    "stratagraph.operations.arguments": "SearchOption check_search_options search_options",
    "stratagraph.api": (
        "abuild_index abuild_shards aestimate aopen_index build_index build_shards estimate open_index"
    ),
    "stratagraph.config": "Config",
    "stratagraph.importing": (
        "Imported from_graph_documents from_property_graph read_extraction read_graphrag read_openie"
    ),
    "stratagraph.index": "Index",
    "stratagraph.ingest.loaders": "read_documents",
    "stratagraph.methods.archrag": "register_augmentation register_clustering",
    "stratagraph.methods.settings": "register_neighbours",
    "stratagraph.methods.lshtree": "LSHTreeConfig",
    "stratagraph.models.budget": "Budget Limits Prices",
    "stratagraph.models.estimate": "Estimate",
    "stratagraph.models.local": "HashingEmbedder MiniLMEmbedder OnnxEmbedder",
    "stratagraph.ingest.chunk": "ChunkConfig",
    "stratagraph.ingest.extraction.stage": "ExtractionConfig",
    "stratagraph.types.records": (
        "BuildReport Chunk Document EntityMention Extraction Failure GraphEntity GraphRelation GraphUnit "
        "Level Listed Listing MethodNode RelationMention Section SemanticUnit StreamedDocument Usage"
    ),
    "stratagraph.types.results": (
        "Answer AnswerStream Citation Context Guidance GuidedStep Hit Picture Retrieval Standalone"
    ),
}

if not TYPE_CHECKING:  # a type checker takes the names imported above
    __all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)

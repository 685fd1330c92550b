"""Extraction as a stage: once per chunk, by the model or without one, kept for every method.

The result is a list of nodes, one per chunk, whose text is the extraction as JSON. It is stored like a
method's index, so that an update takes over what it has and a deleted chunk takes its extraction along.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stratarag.models.gateway import CallItem, Gate
from stratarag.pipeline.context import clip
from stratarag.pipeline.extract_llm import EXTRACT, GLEAN, ExtractionAnswer, to_extraction
from stratarag.pipeline.extract_nlp import extract
from stratarag.records import (
    Built,
    Corpus,
    EntityMention,
    Extraction,
    Node,
    RelationMention,
    SemanticUnit,
    Stored,
    content_id,
)

NAME = "extraction"
TYPES = ("person", "organization", "place", "event", "work", "product", "concept", "date")
PASSAGE_TOKENS = 6000
"""What an extraction prompt takes of one chunk; a caller's own chunk may be of any length."""
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """How entities and relations are found.

    Parameters
    ----------
    mode
        `auto`: by the model where there is one and a method needs it, else without. `llm`, `nlp`: so.
    entity_types
        Types that the model is offered; it may use others.
    gleaning
        Further rounds per chunk in which the model is asked what was missed.
    description_tokens
        A merged description longer than this is condensed.
    resolve
        Whether names that look like one entity's are merged (see `pipeline.resolve`).
    """

    mode: Literal["auto", "llm", "nlp"] = "auto"
    entity_types: tuple[str, ...] = TYPES
    gleaning: int = 0
    description_tokens: int = 300
    resolve: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "llm", "nlp"):
            raise ValueError(f"mode must be 'auto', 'llm' or 'nlp', not {self.mode!r}")
        if self.gleaning < 0:
            raise ValueError(f"gleaning must be at least 0, not {self.gleaning}")
        if self.description_tokens < 20:
            raise ValueError(f"description_tokens must be at least 20, not {self.description_tokens}")
        object.__setattr__(self, "entity_types", tuple(self.entity_types))

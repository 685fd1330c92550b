"""What a cluster's summary entities are: by the model, or the term that its members have most in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil, log

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from stratarag.errors import ParseFailed
from stratarag.methods.hirag.config import META_TYPES
from stratarag.models.gate import Task
from stratarag.models.structured import json_as
from stratarag.pipeline.names.index import canonical, words
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.reports import joined_members
from stratarag.pipeline.summarize import MEMBER_TOKENS, MODEL
from stratarag.protocols import Vectors
from stratarag.records import Metadata
from stratarag.results import CountTokens
from stratarag.stopwords import ENGLISH

PACKAGE = "stratarag.methods.hirag"
LONGEST_NAME = 200
MOST_ENTITIES = 2
"""Summary entities of one cluster; a model that finds more repeats the members."""
MOST_TYPES = 12
COMMON = 0.5
"""Part of the members that must have a term, for it to name them all."""
_WORDS_READ = 60  # of a member's text, for its terms


class _Entity(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    name: str
    type: str = ""
    description: str = ""


class SummarySchema(BaseModel):
    """What the model is asked for."""

    entities: list[_Entity] = Field(min_length=1)


class MetaTypesSchema(BaseModel):
    """The general concepts that guide the summaries."""

    types: list[str] = Field(min_length=1)

    @field_validator("types")
    @classmethod
    def _short(cls, values: list[str]) -> list[str]:
        kept = [value.strip() for value in values if 0 < len(value.strip()) <= LONGEST_NAME]
        if not kept:
            raise ValueError("give at least one concept of one or two words")
        return list(dict.fromkeys(kept))[:MOST_TYPES]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary entity as one cluster has it. `cluster` is the cluster's id, `level` its layer's number.

    `of` is how many summary entities the cluster has, so that an update knows whether it has them all.
    """

    cluster: str
    level: int
    name: str
    type: str
    description: str
    by: str
    of: int = 1

    def stored(self) -> Metadata:
        """As JSON-native values."""
        return asdict(self)


def parse_summary(answer: str) -> SummarySchema:
    """The summary entities of an answer: those with a name, each name once, `MOST_ENTITIES` at most.

    A name of more than `LONGEST_NAME` characters is cut.

    Raises
    ------
    ParseFailed
        If none is left.
    """
    found = json_as(SummarySchema)(answer)
    named: dict[str, _Entity] = {}
    for entity in found.entities:
        entity.name = entity.name[:LONGEST_NAME].strip()
        if name := canonical(entity.name):
            named.setdefault(name, entity)
    if not named:
        raise ParseFailed("no entity in the answer has a name: give at least one")
    return SummarySchema(entities=list(named.values())[:MOST_ENTITIES])


def summary_task(tokens: int) -> Task[SummarySchema]:
    """The model call that finds the summary entities of one cluster."""
    return Task(
        name="hirag/summarize",
        prompt=load_prompt(PACKAGE, "summarize"),
        parse=parse_summary,
        schema=SummarySchema,
        expected_output_tokens=tokens + 30,
        placeholder=_placeholder,
    )


META_TASK = Task(
    name="hirag/meta_types",
    prompt=load_prompt(PACKAGE, "meta_types"),
    parse=json_as(MetaTypesSchema),
    schema=MetaTypesSchema,
    expected_output_tokens=40,
    placeholder=lambda values: MetaTypesSchema(types=list(META_TYPES)),
)


def _placeholder(values: Mapping[str, str]) -> SummarySchema:
    """What an estimate takes a model to say: a name that no other cluster has, and the members' words."""
    spoken = values["entities"].replace("<member>", " ").replace("</member>", " ").split()
    described = " ".join(spoken[: int(values["words"])]) or "summary"
    return SummarySchema(
        entities=[_Entity(name=" ".join(spoken[:6])[:LONGEST_NAME] or "group", description=described)]
    )


def answered(cluster: str, level: int, answer: SummarySchema) -> list[Summary]:
    """The summary entities that the model found for a cluster."""
    count = len(answer.entities)
    return [
        Summary(cluster, level, each.name, each.type, each.description, MODEL, count)
        for each in answer.entities
    ]


def prompt_values(
    texts: Sequence[str], types: Sequence[str], tokens: int, count_tokens: CountTokens
) -> dict[str, str]:
    """The values of the prompt for a cluster's members."""
    members = joined_members(texts, MEMBER_TOKENS, count_tokens)
    return {"entities": members, "types": ", ".join(types), "words": str(max(10, tokens * 3 // 4))}


class Terms:
    """The terms of a layer's members, and in how many of them each is."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._terms = [terms(text) for text in texts]
        self._frequency = Counter(term for each in self._terms for term in each)

    def name(self, members: Sequence[int], names: Sequence[str], vectors: Vectors) -> str:
        """What a cluster is called: its most central term, else the name of its most central member.

        A term is the more central the more members have it and the fewer others do (class-based tf-idf);
        of equals the longer, then the first in order.
        """
        shared = Counter(term for member in members for term in self._terms[member])
        least = max(2, ceil(COMMON * len(members)))
        total = len(self._terms)
        scores = {
            term: count * log(1 + total / self._frequency[term]) * (1.0 if " " in term else 0.75)
            for term, count in shared.items()
            if count >= least and self._frequency[term] <= max(least, total // 4)
        }
        if scores:
            return min(scores, key=lambda term: (-scores[term], -len(term), term))
        rows = vectors[np.array(members)]
        return names[members[int(np.argmax(rows @ rows.sum(axis=0)))]]


def terms(text: str) -> frozenset[str]:
    """The content words of a text's beginning, and pairs of neighbouring ones."""
    spoken = words(text)[:_WORDS_READ]
    content = [
        word if len(word) > 2 and word not in ENGLISH and not word.isdigit() else "" for word in spoken
    ]
    pairs = (f"{one} {two}" for one, two in pairwise(content) if one and two)
    return frozenset(word for word in content if word) | frozenset(pairs)

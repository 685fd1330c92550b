"""What a cluster's summary entities are: by the model, or its most central members."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

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

PACKAGE = "stratarag.methods.hirag"
LONGEST_NAME = 200
MOST_ENTITIES = 2
"""Summary entities of one cluster; a model that finds more repeats the members."""
MOST_TYPES = 12
COMMON = 0.5
"""Part of the members whose names must end with one word, for it to name them all."""
_JOINED = re.compile(r", | and ")
NAMED = 3
"""Members that name a cluster, where nothing is common to their names."""


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


def cluster_name(members: Sequence[int], names: Sequence[str], vectors: Vectors) -> str:
    """What a cluster is called without a model: by its most central members, as a person would.

    "Abel Loom and Benedikta Loom"; "Sarn, the Narrow and Vell"; where most names end with one word and there
    are more than two of them, "Siskin Bridge and other Bridges". Never the name of one member, which would
    take the cluster for that member (ERRATA H5).

    Parameters
    ----------
    members
        Places in `names` and `vectors`, at least two.
    names
        Of a layer's members, of shape (n,); of a summary entity the first of the names that it has.
    vectors
        Of them, shape (n, dimension).
    """
    rows = vectors[np.array(members)]
    order = np.argsort(-(rows @ rows.sum(axis=0)), kind="stable")
    central = list(dict.fromkeys(names[members[place]] for place in order.tolist()))
    heads = Counter(words(name)[-1] for name in central if len(words(name)) > 1)
    head, count = min(heads.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    if count > 2 and count >= COMMON * len(central):
        first = next(name for name in central if words(name)[-1:] == [head] and len(words(name)) > 1)
        return f"{first} and other {_plural(first.split()[-1])}"
    *before, last = central[:NAMED]
    return f"{', '.join(before)} and {last}" if before else f"{last} and others"


def first_named(name: str) -> str:
    """The first of the members in a name that `cluster_name` made."""
    return _JOINED.split(name)[0]


def _plural(word: str) -> str:
    """A surname keeps its capital ("Kennedys"), and so does what may be one."""
    return word if word.endswith("s") else f"{word}s"

"""Names and descriptions of a cluster's summary entities, by a model or from its central members."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from stratagraph.errors import ParseFailed
from stratagraph.ingest.checks import damage
from stratagraph.ingest.extraction.parsing import flat
from stratagraph.ingest.names.index import canonical, words
from stratagraph.ingest.names.spelling import telling
from stratagraph.ingest.summarize import MODEL
from stratagraph.methods.hirag.config import META_TYPES
from stratagraph.models.gate import Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Metadata

PACKAGE = "stratagraph.methods.hirag"
LONGEST_NAME = 200
MOST_ENTITIES = 4
"""Summary entities of one cluster at most: one for each part that the model sees in it."""
MOST_TYPES = 12
RELATION_TOKENS = 3
"""Output tokens of one member, for estimates."""
UNKNOWN = "members of summary entities that are not in their group dropped"
_LONGEST_REASON = 400
_NUMBER_OF_MEMBER = re.compile(r"^\[(\d+)\]", re.MULTILINE)
_STRENGTH = re.compile(r"(\d+(?:\.\d+)?)(?:/10)?\Z")
COMMON = 0.5
"""Share of the members whose names must end with one word for that word to name the cluster."""
_JOINED = re.compile(r", | and ")
NAMED = 3
"""Members that name a cluster if their names have no word in common."""


class _NamedEntity(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    name: str
    type: str = ""
    description: str = Field(default="", description="What the group has in common, then its members")
    members: list[str] = Field(default_factory=list, description="A strength, and members' numbers: 9|1|4")

    @field_validator("members", mode="before")
    @classmethod
    def _entries(cls, given: Any) -> Any:
        """Each entry as one text, however a model divides it; what has no text is dropped."""
        entries = []
        for each in given if isinstance(given, list) else [given]:
            if isinstance(each, dict):
                each = [
                    each.get("strength", ""),
                    *(value for key, value in each.items() if key != "strength"),
                ]
            entries.append("|".join(str(part) for part in flat(each) if isinstance(part, str | int | float)))
        return list(filter(None, entries))


class SummarySchema(BaseModel):
    """Answer with the summary entities of a cluster; none if nothing connects its members."""

    entities: list[_NamedEntity]


class MetaTypesSchema(BaseModel):
    """Answer with the general concepts that guide summaries."""

    types: list[str] = Field(min_length=1)

    @field_validator("types")
    @classmethod
    def _short(cls, values: list[str]) -> list[str]:
        concepts = [value.strip() for value in values if 0 < len(value.strip()) <= LONGEST_NAME]
        if not concepts:
            raise ValueError("give at least one concept of one or two words")
        return list(dict.fromkeys(concepts))[:MOST_TYPES]


class Belonging(NamedTuple):
    """Why and how closely a member belongs to its summary entity.

    There is no reason if the description tells it. The strength is from 0.1 to 10, or 0 if unknown.
    """

    reason: str
    strength: float


@dataclass(frozen=True, slots=True)
class ProposedSummary:
    """A summary entity as one cluster proposes it. `cluster` is the cluster's id, `level` its layer.

    `members` are the relations from members that a model wrote, by the members' ids (ERRATA H7).
    """

    cluster: str
    level: int
    name: str
    type: str
    description: str
    by: str
    members: Mapping[str, Belonging] = field(default_factory=dict)

    def stored(self) -> Metadata:
        """JSON-native values for `read`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**values, "members": {member: list(each) for member, each in self.members.items()}}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> ProposedSummary:
        """The inverse of `stored`; raises `Damaged` for anything else."""
        with damage("summary entities"):
            try:
                members = {
                    str(member): Belonging(str(reason), float(strength))
                    for member, (reason, strength) in stored["members"].items()
                }
                return cls(**{**stored, "members": members})
            except (TypeError, AttributeError, KeyError) as error:
                raise ValueError(f"a proposal cannot be read: {error}") from error


def parse_summary(answer: str) -> SummarySchema:
    """The first `MOST_ENTITIES` summary entities with different names, cut to `LONGEST_NAME` characters.

    Raises
    ------
    ParseFailed
        If there are entities, but none of them has a name.
    """
    summary = json_as(SummarySchema)(answer)
    named: dict[str, _NamedEntity] = {}
    for entity in summary.entities:
        entity.name = entity.name[:LONGEST_NAME].strip()
        if name := canonical(entity.name):
            named.setdefault(name, entity)
    if summary.entities and not named:
        raise ParseFailed("no entity in the answer has a name: give each a name, or give no entities")
    return SummarySchema(entities=list(named.values())[:MOST_ENTITIES])


def summary_task(tokens: int, members: int) -> Task[SummarySchema]:
    """The model call that finds the summary entities of one cluster, with a typical number of members."""
    return Task(
        name="hirag/summarize",
        prompt=load_prompt(PACKAGE, "summarize"),
        parse=parse_summary,
        schema=SummarySchema,
        expected_output_tokens=tokens + 30 + RELATION_TOKENS * members,
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
    """The answer that an estimate assumes: a name, the members' words, and the number of each member."""
    words_in = values["entities"].replace("<member>", " ").replace("</member>", " ").split()
    described = " ".join(words_in[: int(values["words"])]) or "summary"
    named = " ".join(words_in[:6])[:LONGEST_NAME] or "group"
    members = ["|".join(("5", *_NUMBER_OF_MEMBER.findall(values["entities"])))]
    return SummarySchema(
        entities=[_NamedEntity(name=named, type="concept", description=described, members=members)]
    )


def proposed(
    cluster: str, level: int, answer: SummarySchema, members: Sequence[tuple[str, str]], notes: Counter[str]
) -> list[ProposedSummary]:
    """The summary entities of a model's answer about a cluster.

    `members` are the names and ids of its members, in the order of their numbers. An entry of an answer has a
    strength, then numbers of members, or their names, and perhaps the reason; of several entries about one
    member the first counts. `notes` counts entries that name nothing of the cluster.
    """
    named = {canonical(name): identity for name, identity in reversed(members)}
    numbered = {str(number): identity for number, (_, identity) in enumerate(members, 1)}
    summaries = []
    for each in answer.entities:
        belongings: dict[str, Belonging] = {}
        for entry in each.members:
            head, *parts = (part.strip() for part in entry.split("|"))
            given = _STRENGTH.match(head) if parts else None
            strength = min(float(given[1]), 10.0) if given else 0.0
            identities, reason = list[str](), ""
            for part in parts if given else (head, *parts):
                identity = numbered.get(part.strip("[]")) or named.get(canonical(part))
                if identity is not None:
                    identities.append(identity)
                elif any(map(str.isalpha, part)):
                    reason = part[:_LONGEST_REASON]
                elif part:
                    notes[UNKNOWN] += 1
            notes[UNKNOWN] += not identities and bool(reason)
            for identity in identities:
                belongings.setdefault(identity, Belonging(reason, strength))
        summaries.append(
            ProposedSummary(cluster, level, each.name, each.type, each.description, MODEL, belongings)
        )
    return summaries


def cluster_name(names: Sequence[str], vectors: Vectors) -> str:
    """Names a cluster without a model, by its most central members.

    "Abel Loom and Benedikta Loom"; "Sarn, the Narrow and Vell"; if at least half of the names, and three of
    them, end with one word, "Siskin Bridge and other Bridges". Never the name of one member: the cluster
    would then be that member (ERRATA H5). There are at least two.
    """
    order = np.argsort(-(vectors @ vectors.sum(axis=0)), kind="stable")
    central = telling((names[place] for place in order.tolist()), len(names))
    heads = Counter(words(name)[-1] for name in central if len(words(name)) > 1)
    head, count = min(heads.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    if count > 2 and count >= COMMON * len(central):
        first = next(name for name in central if words(name)[-1:] == [head] and len(words(name)) > 1)
        word = first.split()[-1]  # keeps its capital, as a surname does
        return f"{first} and other {word if word.endswith('s') else f'{word}s'}"
    *before, last = central[:NAMED]
    return f"{', '.join(before)} and {last}" if before else f"{last} and others"


def members_named(name: str) -> list[str]:
    """The inverse of `cluster_name`: the members that a name lists."""
    return _JOINED.split(name)

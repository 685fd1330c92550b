"""Results of the tools: hits, documents, connections and changes, cut to fit an agent's context."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

import stratagraph as sg
from stratagraph.server.asking import hit_views
from stratagraph.server.browsing import without_overlaps
from stratagraph.viz.page import cut

_TEXT = 2000  # characters of a hit
_TITLE = 200  # characters of a title
_METADATA = 2000  # characters of the metadata of a hit, as JSON


class FoundHit(BaseModel):
    """A passage, or a summary, entity or relation made from passages.

    `before`: what an older hit states with another value.
    """

    number: int
    kind: str
    title: str
    text: str
    date: str
    before: str
    why: list[str]
    documents: list[str]
    passages: list[str]
    metadata: dict[str, Any]


class SearchResult(BaseModel):
    """Hits of `question`, best first. `unknown` are its words that no passage has which `where` admits.

    `note` says so, and why there are no hits.
    """

    method: str
    question: str
    hits: list[FoundHit]
    unknown: list[str] = []
    note: str = ""


class AnswerResult(BaseModel):
    """An answer to `question`; `[2]` in it is the source with number 2. `extractive`: excerpts.

    `finish` is how the model's answer ended, as `stop`, `length` or `broken off`; null if that is unknown.
    `unknown` are words of the question that no passage has which `where` admits; `note` says so.
    """

    question: str
    text: str
    extractive: bool
    finish: str | None = None
    sources: list[FoundHit]
    unknown: list[str] = []
    note: str = ""


class DocumentEntry(BaseModel):
    """A document."""

    id: str
    title: str
    passages: int
    metadata: dict[str, Any]

    @classmethod
    def of(cls, entry: sg.Listed) -> DocumentEntry:
        """The entry of a document in a listing."""
        metadata = _shortened(entry.metadata)
        return cls(id=entry.id, title=cut(entry.title, _TITLE), passages=entry.members, metadata=metadata)


class DocumentList(BaseModel):
    """Part of the list of documents."""

    total: int
    offset: int
    documents: list[DocumentEntry]


class Relation(BaseModel):
    """Two entities and what connects them."""

    source: str
    target: str
    kind: Literal["relation", "path"]
    text: str


class Explanation(BaseModel):
    """The names in a question, what connects them, and why each hit was found."""

    named: list[str]
    relations: list[Relation]
    hits: list[FoundHit]

    @classmethod
    def of(cls, retrieval: sg.Retrieval) -> Explanation:
        """What the picture of a retrieval shows, as lists."""
        drawn = retrieval.show().data
        labels = [node["label"] for node in drawn["nodes"]]
        return cls(
            named=[labels[link["target"]] for link in drawn["links"] if link["kind"] == "named"],
            relations=[
                Relation(
                    source=labels[link["source"]],
                    target=labels[link["target"]],
                    kind=link["kind"],
                    text=link["text"],
                )
                for link in drawn["links"]
                if link["kind"] in ("relation", "path")
            ],
            hits=found_hits(retrieval),
        )


class ChangeResult(BaseModel):
    """What a change did: ids of documents that were added, replaced, left as they are, or deleted.

    `failures` says for which passages the model failed; they are in the index nevertheless.
    """

    added: list[str]
    updated: list[str]
    unchanged: list[str]
    deleted: list[str]
    failures: list[str]

    @classmethod
    def of(cls, report: sg.BuildReport) -> ChangeResult:
        """The change that a report describes."""
        lists = {name: list(getattr(report, name)) for name in ("added", "updated", "unchanged", "deleted")}
        return cls(**lists, failures=[f"{each.stage}: {each.reason}" for each in report.failures])


def document_text(chunks: Sequence[sg.Chunk]) -> str:
    """The text of a document from its passages. A line break separates passages that do not touch."""
    text, end = "", -1
    for chunk, alone in zip(chunks, without_overlaps(list(chunks), 0), strict=True):
        text += alone if not text or 0 <= chunk.start <= end else f"\n{alone}"
        end = chunk.end
    return text


def _shortened(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The first fields of metadata, long values cut, so that no document floods an agent's context."""
    fields: dict[str, Any] = {}
    left = _METADATA
    for name, value in metadata.items():
        value = cut(value, _TITLE) if isinstance(value, str) else value
        left -= len(json.dumps([name, value], ensure_ascii=False, default=str))
        if left < 0:
            fields["\N{HORIZONTAL ELLIPSIS}"] = f"{len(metadata) - len(fields)} more fields"
            break
        fields[name] = value
    return fields


def found_hits(retrieval: sg.Retrieval) -> list[FoundHit]:
    """The hits of a retrieval, numbered, with long texts cut."""
    return [
        FoundHit(
            number=view.number,
            kind=view.kind,
            title=cut(view.title, _TITLE),
            text=cut(view.text, _TEXT),
            date=view.date,
            before=view.before,
            why=view.why,
            documents=view.documents,
            passages=view.sources,
            metadata=_shortened(view.metadata),
        )
        for view in hit_views(retrieval)
    ]

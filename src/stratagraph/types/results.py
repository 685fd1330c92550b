"""Results of a question: hits, a context, an answer with citations, and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any, Literal

from stratagraph.text import CountTokens
from stratagraph.text.packing import Piece, Theme, beginning, joined, pack
from stratagraph.text.sentences import clip, without_added
from stratagraph.types.checks import positive
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Metadata, Usage, json_native, place_in_words

OURS = "stratagraph"
CHUNK = "chunk"
# Metadata keys that `Hit.identity` adds to a framework's document.
IDENTITY = tuple(
    f"{OURS}_{name}" for name in ("id", "kind", "level", "sources", "documents", "metadata", "date")
)
NOTHING_FOUND = "No passage was found."
_LONGEST_NAME = 120  # characters of a title that an excerpt shows


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved node or chunk.

    Parameters
    ----------
    kind, level
        `chunk`, or the kind and level of a node.
    score
        Higher is better; comparable within one retrieval only.
    sources, documents
        Ids of the chunks and documents it came from, in corpus order.
    ref
        The caller's id of a chunk, if it has one.
    date
        Of its document, as far as it is known (`2024`, `2024-06-30`); of a node the newest of its documents.
    before
        An older hit's statement that says the same with another value, and its date; empty without one.
    """

    id: str
    kind: str
    level: int
    text: str
    score: float
    sources: tuple[str, ...]
    documents: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)
    ref: str = ""
    date: str = ""
    before: str = ""

    @property
    def dated(self) -> str:
        """Its date, and what it said before, as contexts show them: `(2024-06-30)`; empty without a date."""
        before = f"; newer (before: {self.before})" if self.before else ""
        return f"({self.date}{before})" if self.date else ""

    @property
    def source(self) -> str:
        """Where it is from, for readers: title, file and place, as far as its metadata has them."""
        named = (self.metadata.get(name) for name in ("title", "name", "source"))
        names = [" ".join(each.split())[:_LONGEST_NAME] for each in named if isinstance(each, str)]
        return ", ".join(dict.fromkeys(filter(None, [*names, place_in_words(self.metadata)])))

    def identity(self) -> Metadata:
        """What a framework's document keeps of this hit: scalar metadata that no question changes.

        The keys are those of `IDENTITY`. Lists and dictionaries are JSON texts. `sources` is left out where
        it is the hit itself, and `metadata` where the document has it.
        """
        values: dict[str, Any] = {"id": self.id, "kind": self.kind, "level": self.level}
        if self.sources != (self.id,):
            values["sources"] = _json(self.sources)
        values["documents"] = _json(self.documents)
        if self.date:
            values["date"] = self.date
        if self.kind != CHUNK:
            values["metadata"] = _json(json_native(self.metadata))
        return {f"{OURS}_{name}": value for name, value in values.items()}

    def provenance(self, trace: Metadata) -> dict[str, Any]:
        """Id, kind, level, score, sources, documents and trace, in JSON types."""
        return {
            "id": self.id,
            "kind": self.kind,
            "level": self.level,
            "score": float(self.score),
            "sources": list(self.sources),
            "documents": list(self.documents),
            "trace": json_native(trace),
        }

    @classmethod
    def restored(
        cls, text: str, metadata: Metadata, *, id: str, document: str, score: float | None, ref: str
    ) -> tuple[Hit, Metadata]:
        """Make a hit, and its trace, of a framework's document or node with this current text.

        `metadata` is the framework's, with the result of `identity` if it came from a hit; under
        `stratagraph` is the result of `provenance`, if a trace was asked for. `id`, `document` and `score`
        are used where it lacks them; a missing score is 1. `ref` is the caller's id.
        """
        traced = metadata.get(OURS)
        traced = traced if isinstance(traced, Mapping) else {}
        identity = str(metadata.get(f"{OURS}_id", id))
        hit = cls(
            identity,
            str(metadata.get(f"{OURS}_kind", CHUNK)),
            int(metadata.get(f"{OURS}_level", 0)),
            text,
            float(traced.get("score", 1.0) if score is None else score),
            tuple(_parsed(metadata, "sources", [identity])),
            tuple(_parsed(metadata, "documents", [document])),
            _parsed(metadata, "metadata", callers_own(metadata)),
            ref,
            str(metadata.get(f"{OURS}_date", "")),
        )
        return hit, traced.get("trace", {})


def callers_own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a framework's document without what `Hit.identity` and `Hit.provenance` added.

    Also that of a hit, whose file could otherwise pass for what these add: with another question, or sources.
    """
    return {key: value for key, value in metadata.items() if key not in IDENTITY and key != OURS}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parsed(metadata: Metadata, name: str, default: Any) -> Any:
    """The value that `Hit.identity` wrote as JSON; the default if there is none, or it was altered."""
    try:
        value = json.loads(metadata[f"{OURS}_{name}"])
    except (KeyError, TypeError, ValueError):
        return default
    return value if type(value) is type(default) else default


@dataclass(frozen=True, slots=True)
class Citation:
    """The hit that a number in a context or answer refers to, counted from 1."""

    number: int
    id: str
    kind: str
    text: str
    sources: tuple[str, ...]
    documents: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, hit: Hit) -> Citation:
        """The citation of a hit under a number."""
        return cls(number, hit.id, hit.kind, hit.text, hit.sources, hit.documents, hit.metadata)


@dataclass(frozen=True, slots=True)
class Context:
    """A text of numbered passages, `[1] ...`, with the citation of each number. `str()` returns the text."""

    text: str
    citations: tuple[Citation, ...]
    tokens: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class GuidedStep:
    """What a guiding call decided: the ids of the chosen hits, and what to search for next."""

    chosen: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guidance:
    """How a model guided a search.

    `kind` is `choice` if the first `chosen` hits were chosen as needed together, `overview` if the hits are
    those of several queries in turn, and `none` if they are the unguided ones, because no call returned a
    usable choice. `steps` are the decisions of each call, and `failed` is why the last call was of no use.
    """

    kind: str
    chosen: int = 0
    steps: tuple[GuidedStep, ...] = ()
    failed: str = ""

    def among(self, hits: Sequence[Hit]) -> Guidance:
        """The guidance of some of the hits: `chosen` counts those of the last choice that are there."""
        last = {*self.steps[-1].chosen} if self.steps else set()
        return replace(self, chosen=sum(hit.id in last for hit in hits) if self.chosen else 0)


@dataclass(frozen=True, slots=True)
class Standalone:
    """How a question of a conversation became one that stands alone.

    `question` stands alone and was searched for; `asked` was asked. `by` is `model` if a model wrote it,
    `names` if names of the turn before were added to it, `question` if the last question was, `none` if it
    was left as it is. `failed` is why the model's call was of no use; empty if it was, or there is no model.
    """

    question: str
    asked: str
    by: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The result of a search: hits, best first, with their traces and the cost.

    `Index.answer` can answer from it, also after its hits were reranked or filtered (`with_hits`).

    Parameters
    ----------
    query, method
        The question, of a conversation the one that stands alone; and the method, or `walk`.
    hits
        The hits. Citations count their places from 1.
    trace
        `trace[i]` explains `hits[i]` in the method's terms; empty if unknown.
    usage, cost
        What the search used, and its cost; None if a price is unknown.
    vector
        Unit vector of the question, shape (dimension,); None computes it when needed.
    options
        The method's search options.
    count_tokens
        Counts tokens as the index does.
    picture
        Draws the retrieval; set by the index.
    guidance
        How a model guided the search; None if it was not asked to.
    standalone
        How `query` was made of the question of a conversation; None if there were no turns before it.
    unknown
        Words of `query` that no passage has which the filter admits, compared by their stems, without words
        of grammar. Scripts without spaces have none.
    words
        How many words of `query` were looked for.
    filtered
        Whether there was a filter.
    undated
        Documents that `as_of` hides because they have no date.
    theme
        By what a context is packed, if the question asks for a theme and hits have vectors of their
        statements.
    """

    query: str
    method: str
    hits: tuple[Hit, ...]
    trace: tuple[Metadata, ...] = ()
    usage: Usage = field(default_factory=Usage)
    vector: Vectors | None = field(default=None, repr=False, compare=False)
    options: Any = field(default=None, repr=False, compare=False)
    count_tokens: CountTokens = field(default=len, repr=False, compare=False)
    picture: Callable[[Retrieval], Picture] | None = field(default=None, repr=False, compare=False)
    cost: float | None = 0.0
    guidance: Guidance | None = None
    standalone: Standalone | None = None
    unknown: tuple[str, ...] = ()
    words: int = 0
    filtered: bool = False
    undated: int = 0
    theme: Theme | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.trace:
            object.__setattr__(self, "trace", tuple({} for _ in self.hits))
        elif len(self.trace) != len(self.hits):
            raise ValueError(f"there are {len(self.hits)} hits and {len(self.trace)} traces")

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    def with_hits(self, hits: Sequence[Hit]) -> Retrieval:
        """The same retrieval with other or reordered hits; each keeps its trace."""
        traces = {hit.id: trace for hit, trace in zip(self.hits, self.trace, strict=True)}
        return replace(self, hits=tuple(hits), trace=tuple(traces.get(hit.id, {}) for hit in hits))

    def chosen(self) -> Retrieval:
        """The retrieval with the hits that a model chose, or with all where it chose none."""
        count = 0 if self.guidance is None else self.guidance.chosen
        return self.with_hits(self.hits[:count]) if count else self

    @property
    def note(self) -> str:
        """Names the unknown words, and counts the documents that `as_of` hides as undated; else empty."""
        passages = "No passage that the filter admits has" if self.filtered else "No passage of the index has"
        unknown = f"{passages}: {', '.join(self.unknown)}" if self.unknown else ""
        documents = (
            "1 document without a date is"
            if self.undated == 1
            else f"{self.undated} documents without a date are"
        )
        return ". ".join(filter(None, [unknown, f"{documents} hidden" if self.undated else ""]))

    def with_note(self, text: str) -> str:
        """A text with `note`, which stands first if a third or more of the question's words are unknown."""
        parts = (self.note, text) if 3 * len(self.unknown) >= self.words else (text, self.note)
        return "\n\n".join(filter(None, parts))

    def context(self, max_tokens: int = 4000) -> Context:
        """Pack the hits into a text of at most `max_tokens`, each with its number in `hits`.

        If all hits fit, they stay whole. Otherwise their statements compete by the question's words, by names
        that link them, and by rank (`text.packing`); those chosen stand under their hit's title, in reading
        order, with an ellipsis for what is left out. A statement is a sentence or a record: a row of a table
        with its header row, a block of `name: value` lines, a list. The first hit has at least one statement,
        or its beginning. A hit whose text is part of an earlier one is left out.
        """
        return self._context(self.pieces([hit.text for hit in self.hits], positive("max_tokens", max_tokens)))

    def excerpts(self, max_tokens: int = 200) -> Context:
        """A context for readers: hits stand under their sources, each with its best record first."""
        texts = [without_added(hit.text) for hit in self.hits]
        heads = [hit.source for hit in self.hits]
        return self._context(self.pieces(texts, positive("max_tokens", max_tokens), heads))

    def _context(self, pieces: Sequence[Piece]) -> Context:
        text = joined(pieces)
        return Context(text, self.cited(pieces), self.count_tokens(text) if text else 0)

    def pieces(
        self, texts: Sequence[str], max_tokens: int, heads: Sequence[str] | None = None
    ) -> list[Piece]:
        """What to show of `texts`, one for each hit, within `max_tokens`; an empty text leaves a hit out.

        See `context`, and for `heads` `text.packing.pack`. A method calls it that shows its hits in its own
        way.
        """
        room = max_tokens
        while room > 0:
            pieces = self._packed(texts, room, heads)
            if not any(self.hits[piece.place].date for piece in pieces):
                return pieces
            pieces = self._dated(pieces)
            over = self.count_tokens(joined(pieces)) - max_tokens
            if over <= 0:
                return pieces
            room -= over
        return self._packed(texts, max_tokens, heads)

    def _dated(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Pieces that begin with the date of their hit."""
        dates = [self.hits[piece.place].dated for piece in pieces]
        return [
            piece._replace(text=f"{date} {piece.text}".strip())
            for piece, date in zip(pieces, dates, strict=True)
        ]

    def _packed(self, texts: Sequence[str], max_tokens: int, heads: Sequence[str] | None) -> list[Piece]:
        measured = [trace["similarity"] for trace in self.trace if "similarity" in trace]
        mean = sum(measured) / max(len(measured), 1)
        similarities = [trace.get("similarity", mean) for trace in self.trace]
        pieces: list[Piece] = []
        left = max_tokens
        theme, asked = None, self.query
        groups: dict[str, list[int]] = {}  # of an overview by words: the hits of each of its queries
        if self.theme is not None:
            theme = self.theme.aims, [self.theme.statements.get(hit.id) for hit in self.hits]
            asked = " ".join(self.theme.asked)
        overview = theme is None and self.guidance is not None and self.guidance.kind == "overview"
        for place, trace in enumerate(self.trace):
            query = trace.get("query", self.query) if overview else asked
            groups.setdefault(query, []).append(place)
        for number, (query, places) in enumerate(groups.items()):
            packed = pack(
                query,
                [texts[place] for place in places],
                left // (len(groups) - number),
                self.count_tokens,
                [similarities[place] for place in places],
                None if heads is None else [heads[place] for place in places],
                theme,
            )
            own = [each._replace(place=places[each.place]) for each in packed]
            pieces += own
            if own and number + 1 < len(groups):
                left -= self.count_tokens(joined(own)) + 2
        if pieces:
            return sorted(pieces)
        first = next((place for place, text in enumerate(texts) if text.strip()), None)
        if first is None:
            return []
        room = max_tokens - self.count_tokens(str(Piece(first, "")))
        shown = beginning(self.query, texts[first].strip(), max(0, room), self.count_tokens)
        return [Piece(first, clip(shown, max(0, room), self.count_tokens))]

    def cited(self, pieces: Sequence[Piece]) -> tuple[Citation, ...]:
        """The citations of pieces."""
        return tuple(Citation.of(piece.place + 1, self.hits[piece.place]) for piece in pieces)

    def show(self) -> Picture:
        """Draw the graph around the question as a page: entry points, hits, traces and paths.

        `ValueError` if the retrieval was pickled or not made by an index, which must still be open.
        """
        if self.picture is None:
            raise ValueError(
                "this retrieval has left its index (pickled, or made by hand), so its surroundings cannot be "
                "read; call show() where it was retrieved, or draw it alone with stratagraph.viz.question"
            )
        return self.picture(self)


Finish = Literal["stop", "length", "filtered", "refused", "broken off"]
"""How a model's answer ended: by itself, at a limit of tokens, by a filter, declined, or by a failure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations.

    `citations` explain the numbers in `text`. If `extractive`, no model wrote it: `text` are excerpts of the
    hits (`Retrieval.excerpts`). `finish` is how the model's answer ended, also if none of its words could be
    used; None without a model, or if its client does not tell. A text that has no end of its own says so:
    " [The answer ends here: the length limit]". `cost` is None if a price is unknown.
    """

    text: str
    citations: tuple[Citation, ...]
    retrieval: Retrieval
    extractive: bool
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    finish: Finish | None = None

    def __str__(self) -> str:
        return self.text


class AnswerStream:
    """An answer in pieces of text, for `async for`. Can be read once.

    `retrieval` is what the answer is made of, once a piece was read or `searched` awaited; `answer` is
    complete, with citations and usage, after the last piece. Both are None before.
    """

    def __init__(self, source: AsyncGenerator[str | Retrieval | Answer, None]) -> None:
        self._source = source
        self.retrieval: Retrieval | None = None
        self.answer: Answer | None = None

    def __aiter__(self) -> AnswerStream:
        return self

    async def searched(self) -> Retrieval:
        """Wait for the search, before the model begins to write; returns what was found."""
        if self.retrieval is None:
            retrieval = await anext(self._source)
            assert isinstance(retrieval, Retrieval)
            self.retrieval = retrieval
        return self.retrieval

    async def __anext__(self) -> str:
        await self.searched()
        item = await anext(self._source)
        if isinstance(item, Answer):
            self.answer = item
            item = await anext(self._source)
        assert isinstance(item, str)
        return item

    async def aclose(self) -> None:
        """Stop the stream without waiting for the model."""
        await self._source.aclose()


@dataclass(frozen=True, slots=True)
class Picture:
    """A self-contained HTML page. Notebooks show it; `save` writes it to a file.

    Its content security policy forbids loading or sending anything. `title` is what it shows, `html` the
    whole page, `height` that in a notebook, in pixels; `notes` are lines below the title, and `data` is what
    is drawn, in JSON types.
    """

    title: str
    html: str
    height: int = 560
    notes: tuple[str, ...] = ()
    data: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Picture({self.title!r}, {len(self.html) // 1024 + 1} KB)"

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame."""
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(self.title)}" '
            f'srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{self.height}px;border:0;display:block"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file (UTF-8), replacing an existing one, and return its path."""
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target

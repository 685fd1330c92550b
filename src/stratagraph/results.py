"""What a question gives back: hits, the context made of them, an answer with its citations, and pictures."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from stratagraph.protocols import Vectors
from stratagraph.records import Metadata, Usage

CountTokens = Callable[[str], int]
NOTHING_FOUND = "Nothing in the index answers this question."


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved thing and where it comes from.

    `sources` are ids of chunks, `documents` ids of documents, both in the order of the corpus.
    `score` is comparable within one retrieval only; higher is better. `ref` is the caller's own id
    of a chunk, where it gave one.
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

    def provenance(self) -> dict[str, Any]:
        """What is known about the hit beside its text and its own metadata, in JSON's types."""
        return {
            "id": self.id,
            "kind": self.kind,
            "level": self.level,
            "score": float(self.score),
            "sources": list(self.sources),
            "documents": list(self.documents),
        }

    @classmethod
    def restored(
        cls,
        text: str,
        provenance: object,
        *,
        id: str,
        document: str,
        score: float | None,
        metadata: Metadata,
        ref: str = "",
    ) -> Hit:
        """A hit again from what a framework holds of it, or the passage of somebody else's.

        Parameters
        ----------
        text
            The present text.
        provenance
            What `provenance` gave; anything but a mapping: nothing is known.
        id, document, score
            Used where it says nothing of them; no score counts as 1.
        metadata, ref
            The caller's own metadata and id.
        """
        known = provenance if isinstance(provenance, Mapping) else {}
        given = known.get("score", 1.0) if score is None else score
        return cls(
            str(known.get("id", id)),
            str(known.get("kind", "chunk")),
            int(known.get("level", 0)),
            text,
            float(given),
            tuple(known.get("sources", (id,))),
            tuple(known.get("documents", (document,))),
            metadata,
            ref,
        )


@dataclass(frozen=True, slots=True)
class Citation:
    """What a bracketed number in a context or an answer stands for: the hit at that place, from 1."""

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
    """A text of numbered passages, `[1] ...`, and what the numbers mean. `str()` gives the text."""

    text: str
    citations: tuple[Citation, ...]
    tokens: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The result of a search: hits, best first, with the reasons and the cost.

    An answer can be made from it (`Index.answer`), also after its hits were reranked or filtered
    (`with_hits`, `dataclasses.replace`).

    Parameters
    ----------
    query, method, view
        What was asked, of which method, and whether for its nodes or for passages.
    hits
        What was found. Citations of an answer are numbered by the places in it, from 1.
    trace
        `trace[i]` tells why `hits[i]` is there, in the method's own terms; empty: nothing is known.
    usage
        What it cost.
    vector
        The question's unit vector, shape (dimension,); None: it is computed where it is needed.
    options
        The method's search options that were in force.
    count_tokens
        Counts tokens as the index does.
    picture
        Draws the retrieval; from the index that was searched.
    cost
        What `usage` costs, as in `BuildReport`; None: a price is not known.
    """

    query: str
    method: str
    view: str
    hits: tuple[Hit, ...]
    trace: tuple[Metadata, ...] = ()
    usage: Usage = field(default_factory=Usage)
    vector: Vectors | None = field(default=None, repr=False, compare=False)
    options: Any = field(default=None, repr=False, compare=False)
    count_tokens: CountTokens = field(default=len, repr=False, compare=False)
    picture: Callable[[Retrieval], Picture] | None = field(default=None, repr=False, compare=False)
    cost: float | None = 0.0

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
        """The same retrieval with other hits, or these in another order; each keeps its trace."""
        traces = {hit.id: trace for hit, trace in zip(self.hits, self.trace, strict=True)}
        return replace(self, hits=tuple(hits), trace=tuple(traces.get(hit.id, {}) for hit in hits))

    def context(self, max_tokens: int = 4000) -> Context:
        """The hits as one text, best first, within `max_tokens`, each with the number of its place in `hits`.

        A hit whose text is contained in one that is already there is left out. A hit that does not fit
        is skipped, and shorter ones after it may still come; if not even the best fits, it is cut.
        """
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
        return build_context(self.hits, max_tokens, self.count_tokens)

    def show(self) -> Picture:
        """The graph around the question, as a page: entry points, hits and why they are there, paths.

        A notebook shows it; `save` writes it to a file. The index must still be open.

        Raises
        ------
        ValueError
            If no index is at hand: the retrieval was pickled, or not made by one.
        """
        if self.picture is None:
            raise ValueError(
                "this retrieval has left its index (pickled, or made by hand), so its surroundings cannot be "
                "read; call show() where it was retrieved, or draw it alone with stratagraph.viz.question"
            )
        return self.picture(self)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it rests on.

    `citations` explain the bracketed numbers in `text`. `extractive` says that no model wrote the
    answer: it consists of sentences of the sources, word for word. `cost` is what `usage` costs, as in
    `BuildReport`; None: a price is not known.
    """

    text: str
    citations: tuple[Citation, ...]
    retrieval: Retrieval
    extractive: bool
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0

    def __str__(self) -> str:
        return self.text


class AnswerStream:
    """An answer in pieces of text, to be read once, with `async for`.

    Attributes
    ----------
    answer
        The whole answer with its citations and its usage, once the last piece has come; None before.
    """

    def __init__(self, source: AsyncGenerator[str | Answer, None]) -> None:
        self._source = source
        self.answer: Answer | None = None

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> str:
        item = await anext(self._source)
        if isinstance(item, Answer):
            self.answer = item
            item = await anext(self._source)
        assert isinstance(item, str)
        return item

    async def aclose(self) -> None:
        """Stop; the model's answer is not waited for."""
        await self._source.aclose()


@dataclass(frozen=True, slots=True)
class Picture:
    """One HTML page with its scripts and data inside. A notebook shows it; `save` writes it to a file.

    The page loads nothing and sends nothing: its content security policy forbids both.

    Attributes
    ----------
    title
        What it shows.
    html
        The whole page.
    height
        Pixels that a notebook gives it.
    notes
        What the page says below its title.
    data
        What is drawn, in JSON's types, for those who draw it themselves.
    """

    title: str
    html: str
    height: int = 560
    notes: tuple[str, ...] = ()
    data: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Picture({self.title!r}, {len(self.html) // 1024 + 1} KB)"

    def _repr_html_(self) -> str:
        """The page in a frame that shares nothing with the notebook around it."""
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(self.title)}" '
            f'srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{self.height}px;border:0;display:block"></iframe>'
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file (UTF-8) and return its path. A file that is there is replaced."""
        target = Path(path)
        target.write_text(self.html, "utf-8")
        return target


def build_context(hits: Sequence[Hit], max_tokens: int, count_tokens: CountTokens) -> Context:
    """Join the hits within a token budget, numbered by their places; see `Retrieval.context`."""
    lines: list[str] = []
    citations: list[Citation] = []
    spent = 0
    for number, hit in _without_repeats(hits):
        line = f"[{number}] {hit.text.strip()}"
        cost = count_tokens(line) + 1
        if spent + cost > max_tokens:
            if citations:
                continue
            line = clip(line, max_tokens, count_tokens)
            cost = count_tokens(line)
        lines.append(line)
        citations.append(Citation.of(number, hit))
        spent += cost
    text = "\n\n".join(lines)
    return Context(text, tuple(citations), count_tokens(text) if text else 0)


def _without_repeats(hits: Sequence[Hit]) -> Iterator[tuple[int, Hit]]:
    """Hits with their numbers; not those whose text is part of an earlier one's."""
    seen: list[str] = []
    for number, hit in enumerate(hits, 1):
        text = hit.text.strip()
        if text and not any(text in earlier for earlier in seen):
            seen.append(text)
            yield number, hit


def clip(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """The longest beginning of a text, cut at a space where there is one, of at most `max_tokens`."""
    if count_tokens(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    border = text.rfind(" ", 0, low + 1)
    return text[: border if border > low // 2 else low].rstrip()

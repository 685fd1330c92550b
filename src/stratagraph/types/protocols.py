"""Interfaces of the objects that callers pass in. Structural: nothing has to be inherited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratagraph.types.built import VectorRow
from stratagraph.types.records import Chunk, Node, Usage

T = TypeVar("T")
R = TypeVar("R")

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Spans = Sequence[tuple[int, int]]
"""Parts of a text as character offsets (start, end)."""


@runtime_checkable
class ChatModel(Protocol):
    """A language model. `acomplete(prompt, *, schema=None)` is preferred where it exists.

    A prompt is a string with two parts: `prompt.system`, the instructions (may be empty), and `prompt.user`,
    the data (`models.messages.Messages`). `schema` is a pydantic model class for the answer; a model without
    structured output may ignore it. Optional: `name` identifies the model in the cache, and `astream(prompt)`
    or `stream(prompt)` yields an answer in pieces.
    """

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """Return the answer as text, or as JSON text that follows `schema`."""


@runtime_checkable
class Embedder(Protocol):
    """Embeds texts. `aembed_documents` and `aembed_query` are preferred where they exist.

    The optional `name` identifies the embedder; by default, its class and dimension do.
    """

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order."""

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""


@runtime_checkable
class SpanEmbedder(Embedder, Protocol):
    """An embedder that also embeds parts of a text in the same pass (late chunking).

    A build then embeds each chunk once: vectors of sentences, and of what is made of sentences, are pooled
    from the vectors of the chunk's tokens. `aembed_spans` is preferred where it exists.
    """

    def embed_spans(
        self, texts: list[str], spans: list[Spans]
    ) -> tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]:
        """Return the vectors of the texts and those of all their spans, both in order.

        `spans` has one sequence per text. A span without a token has the zero vector.
        """


class Progress(Protocol):
    """Receives the progress of a build, on the build's thread. Must not block."""

    def start(self, stage: str, total: int | None) -> None:
        """A stage starts; `total` is None if the number of items is unknown."""

    def advance(self, stage: str, count: int = 1) -> None:
        """`count` more items of the stage are done."""

    def finish(self, stage: str) -> None:
        """The stage ended, successfully or not."""


class CallCache(Protocol):
    """Model answers by content id. Must be thread-safe."""

    def get(self, key: str) -> str | None:
        """Return the stored answer, or None."""

    def put(self, key: str, answer: str, *, task: str, model: str, sources: Sequence[str]) -> None:
        """Store a parsed answer durably.

        `sources` are the chunk ids quoted in the prompt, so that deleting a chunk finds its calls.
        """


class VectorJournal(Protocol):
    """Embeddings that are computed but not yet published, so that a stopped build keeps them."""

    def get(self, keys: Sequence[str]) -> Mapping[str, Vectors]:
        """Return the vectors, shape (dimension,), of those keys that exist."""

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Store one row of `vectors`, shape (len(keys), dimension), per key."""


class SpendingJournal(Protocol):
    """Model usage of an operation that is not yet published, so that a stopped build remembers it."""

    def spend(self, model: str, usage: Usage) -> None:
        """Add to the usage of a model."""


class Corpus(Protocol):
    """The chunks of a corpus, ordered by document id and ordinal. Rows count from 0."""

    @property
    def size(self) -> int:
        """Number of chunks."""

    @property
    def vectors(self) -> Vectors:
        """Unit vectors of the chunks, shape (size, dimension), memory-mapped. A missing vector is zero."""

    def chunk_documents(self) -> NDArray[np.int32]:
        """Index of each chunk's document among the sorted document ids, shape (size,)."""

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Return chunk ids."""

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Return chunk texts."""

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Return whole chunks, with their document's metadata merged under their own."""


class StoredCorpus(Corpus, Protocol):
    """The corpus of one generation."""

    @property
    def id_halves(self) -> NDArray[np.uint64]:
        """The ids of all chunks as numbers, shape (size, 2)."""


class Stored(Protocol):
    """The nodes and arrays of one part of a generation."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of `Built.arrays`, memory-mapped."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """64-bit keys of the ids of all nodes, shape (nodes,)."""

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """64-bit hashes of all nodes, without their sources, shape (nodes,)."""

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        """Return the nodes at these rows."""

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Return the texts of the nodes at these rows."""

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Return the ids of the nodes at these rows."""

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the rows of those ids that exist."""

    def find(self, keys: NDArray[np.uint64]) -> Rows:
        """Return the row of the node whose id has each of these `keys`, or -1, shape (keys,)."""


@runtime_checkable
class VectorTable(Protocol):
    """Holds an index's embeddings outside its folder: rows of an id, a vector and a few texts.

    Vector stores of LangChain and LlamaIndex are adapted to this. The table may hold rows of others; an index
    names the rows it reads and ignores those it did not ask for. Must be thread-safe. `name` is used in
    messages; `filters` says whether `search` obeys `where`. If not, more rows are requested and filtered
    afterwards.
    """

    name: str
    filters: bool

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows, replacing those with the same id."""

    def get(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the text in the field `built.VECTOR_FIELD` by id, for those rows that exist.

        A store that keeps vectors exactly may return the vectors instead.
        """

    def search(
        self, vector: Sequence[float], k: int, where: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[str, Any]]:
        """Return ids of the `k` rows most similar to a unit vector, best first, each with what `get` returns.

        `where` maps a field to the values it may have.
        """

    def delete(self, ids: Sequence[str]) -> None:
        """Remove those rows that exist."""


class Mapper(Protocol):
    """Runs the pure stages of a build on batches; paid model calls never use it.

    `stratagraph.mapper` makes one.
    """

    @property
    def workers(self) -> int:
        """Number of batches processed at once."""

    @property
    def apart(self) -> bool:
        """Whether functions and batches leave this process, and so must be picklable."""

    @property
    def shared_files(self) -> bool:
        """Whether workers see this machine's files. Then they read documents, and build whole shards."""

    @property
    def embed(self) -> bool | None:
        """Whether workers embed. None: they do with local models, but not with the hashing embedder."""

    def submit(self, function: Callable[[T], R], batch: T, *, model: bool = False) -> Future[R]:
        """Run `function(batch)`, and run it again if its worker dies.

        `model` says that the function holds a model, which a worker loads once, on a GPU if there is one.
        """

    def close(self) -> None:
        """Stop the workers. A later `submit` starts new ones."""

"""What stratagraph asks of the objects that it is given. Structural: nothing has to be inherited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratagraph.records import Chunk, Node, Usage, VectorRow

T = TypeVar("T")
R = TypeVar("R")

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
Spans = Sequence[tuple[int, int]]
"""Parts of a text as character offsets (start, end)."""


@runtime_checkable
class ChatModel(Protocol):
    """A language model. `acomplete(prompt, *, schema=None)` is used instead where it exists.

    A prompt is a string, which also has its two parts: `prompt.system`, the standing rules (which may be
    empty), and `prompt.user`, the data, for models that take messages (`models.messages.Messages`).
    `schema`, a pydantic model class, is what the answer should satisfy; a model without structured
    output may ignore it. `name` (optional) identifies the model in the cache of calls, and
    `astream(prompt)` / `stream(prompt)` (optional) yield an answer in pieces.
    """

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """The model's answer as text (JSON text where `schema` was honoured)."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors. `aembed_documents` and `aembed_query` are used instead where they exist.

    `name` (optional) is the embedder's fingerprint; without it, the class and the dimension are.
    """

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """One vector per text, in order."""
        ...

    def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a question."""
        ...


@runtime_checkable
class SpanEmbedder(Embedder, Protocol):
    """An embedder that also tells what parts of a text are about, from the same pass over the text.

    A build then runs it over each passage once: vectors of sentences, and of what is made of sentences, are
    pooled from the vectors of the passage's tokens. `aembed_spans` is used instead where it exists.
    """

    def embed_spans(
        self, texts: list[str], spans: list[Spans]
    ) -> tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]:
        """The vectors of the texts, as `embed_documents` gives them, and those of all their parts, in order.

        `spans` has a sequence of parts for each text. A part that has no token has the zero vector.
        """
        ...


class Progress(Protocol):
    """Told how far a build is. Called from the thread of the build; must not block."""

    def start(self, stage: str, total: int | None) -> None:
        """A stage begins; `total` is None where the number of items is not known."""
        ...

    def advance(self, stage: str, count: int = 1) -> None:
        """`count` more items of the stage are done."""
        ...

    def finish(self, stage: str) -> None:
        """The stage is over, well or not."""
        ...


class CallCache(Protocol):
    """Answers of models by content id. Safe to use from several threads."""

    def get(self, key: str) -> str | None:
        """The stored answer, or None."""
        ...

    def put(self, key: str, answer: str, *, task: str, model: str, sources: Sequence[str]) -> None:
        """Store an answer that parsed; kept when it returns.

        `sources` are the chunk ids that the prompt quotes, so that deleting a chunk finds its calls.
        """
        ...


class VectorJournal(Protocol):
    """Vectors that were computed and are not published yet, so that a stopped build keeps them."""

    def get(self, keys: Sequence[str]) -> Mapping[str, Vectors]:
        """Those keys that are there, each with its vector of shape (dimension,)."""
        ...

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Store one row of `vectors`, shape (len(keys), dimension), per key."""
        ...


class SpendingJournal(Protocol):
    """What models did for an operation that is not published yet, so that a stopped build remembers it."""

    def spend(self, model: str, usage: Usage) -> None:
        """Add to what a model did."""
        ...


class Corpus(Protocol):
    """The chunks of a corpus in canonical order (document id, then ordinal); rows count from 0."""

    @property
    def size(self) -> int:
        """Number of chunks."""
        ...

    @property
    def vectors(self) -> Vectors:
        """Unit vectors of the chunks, shape (size, dimension), memory-mapped. Zero where there is none."""
        ...

    def chunk_documents(self) -> NDArray[np.int32]:
        """The place of each chunk's document in the sorted document ids, shape (size,)."""
        ...

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids."""
        ...

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts."""
        ...

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks, with the document's metadata merged under their own."""
        ...


class Stored(Protocol):
    """A method's index as it lies in the store."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays of `Built.arrays`, memory-mapped."""
        ...

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        """The nodes at these rows of `Built.nodes`."""
        ...

    def texts(self, rows: Sequence[int]) -> list[str]:
        """The texts of the nodes at these rows."""
        ...

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of the nodes at these rows."""
        ...

    def keys(self, rows: Sequence[int]) -> NDArray[np.uint64]:
        """64 bits for each of the nodes at these rows, which stand for its id."""
        ...

    def marks(self, rows: Sequence[int]) -> NDArray[np.uint64]:
        """64 bits for each of the nodes at these rows, which stand for all of it but its sources."""
        ...

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those nodes that exist."""
        ...


@runtime_checkable
class VectorTable(Protocol):
    """Where an index keeps its vectors outside of its folder: rows of an id, a vector and a few texts.

    Vector stores of LangChain and LlamaIndex are adapted to this; anything else that has these methods can be
    given, too. Rows that others put there are no concern of an index: it names every row it means, and passes
    over those that it did not ask for. May be called from several threads.

    Attributes
    ----------
    name
        What it is called in messages.
    filters
        Whether `search` obeys `where`. If not, more rows are asked for, and those that do not fit left out.
    """

    name: str
    filters: bool

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows; one whose id is there already is replaced."""
        ...

    def get(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Of those rows that are there, by id: the text in their field `records.VECTOR_FIELD`.

        A store that keeps vectors as they are given may return them instead, as numbers.
        """
        ...

    def search(
        self, vector: Sequence[float], k: int, where: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[str, Any]]:
        """The `k` rows most like a unit vector, best first: the id of each, and what `get` returns of it.

        `where` names fields, and the values one of which each must have.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows that are there."""
        ...


class Mapper(Protocol):
    """Where the stages of a build run that are pure functions of batches: a thread here, unless one is given.

    `stratagraph.mapper` makes those that come along. Model calls that may cost something never go through it.

    Attributes
    ----------
    workers
        How many batches are worked on at once.
    apart
        Whether functions and batches leave this process, and so must be picklable.
    shared_files
        Whether workers see the files of this machine: then they read documents, and build whole shards.
    embed
        Whether workers embed. None: with embedders that come along, which cost nothing but time; hashed
        words stay here, as they are sooner counted than sent.
    """

    @property
    def workers(self) -> int:
        """See above."""
        ...

    @property
    def apart(self) -> bool:
        """See above."""
        ...

    @property
    def shared_files(self) -> bool:
        """See above."""
        ...

    @property
    def embed(self) -> bool | None:
        """See above."""
        ...

    def submit(self, function: Callable[[T], R], batch: T, *, model: bool = False) -> Future[R]:
        """Begin `function(batch)`. A batch whose worker died is begun again, as the function is pure.

        `model` says that the function holds a model, which a worker loads once; on GPUs where there are.
        """
        ...

    def close(self) -> None:
        """Let the workers go. What is submitted afterwards starts new ones."""
        ...

"""What the pipeline and the methods see of the models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, TypeVar

from stratagraph.models.budget import Ledger
from stratagraph.models.task import CallItem, Prompt, Task
from stratagraph.protocols import Spans, Vectors
from stratagraph.records import Failure
from stratagraph.results import CountTokens

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

DocumentsOf = Callable[[Sequence[str]], tuple[str, ...]]
"""Names the documents of some chunks."""


class Gate(Protocol):
    """Model calls and embeddings: checked, counted, bounded and remembered."""

    ledger: Ledger
    failures: list[Failure]
    prompts_used: dict[str, str]
    documents_of: DocumentsOf
    memory: dict[str, Any]
    """What stages remember of texts for one another and for later operations, until one deletes something."""

    def apart(self) -> Self:
        """A gate to the same services, cache and budget, with costs and failures of its own."""
        ...

    @property
    def has_llm(self) -> bool:
        """Whether there is a language model; `call`, `map` and `stream` need one."""
        ...

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors; None before the first embedding."""
        ...

    @property
    def cost(self) -> float | None:
        """What all calls cost so far; None if a price is not known."""
        ...

    @property
    def count_tokens(self) -> CountTokens:
        """Counts the tokens in a text; can be sent to other processes."""
        ...

    async def compute(
        self, function: Callable[[list[S]], list[R]], items: Iterable[S], *, batch: int
    ) -> list[R]:
        """Apply a pure, picklable function to items, `batch` at a time, on the workers; results in order."""
        ...

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[None]:
        """The scope of a stage: its calls, seconds and progress are booked under this name."""
        ...

    async def call(
        self, task: Task[T], values: Mapping[str, str], *, item: str, sources: Sequence[str] = ()
    ) -> T:
        """One call. Raises `CallFailed`, `ModelError` or `BudgetExceeded`."""
        ...

    async def map(self, task: Task[T], items: Sequence[CallItem], *, required: bool = True) -> list[T | None]:
        """A call per item, results in order.

        None for failures, too many of which end the operation if `required`.
        """
        ...

    async def embed(self, stage: str, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimension); zero vectors stay zero."""
        ...

    @property
    def offers_spans(self) -> bool:
        """Whether the embedder gives vectors of parts of texts (`embed_spans`)."""
        ...

    async def embed_spans(
        self, stage: str, texts: Sequence[str], spans: Sequence[Spans]
    ) -> tuple[Vectors, list[Vectors]]:
        """Unit vectors of texts, and for each text those of its parts, shape (parts, dimension)."""
        ...

    async def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (dimension,)."""
        ...

    def stream(
        self, prompt: Prompt, values: Mapping[str, str], *, stage: str, expected_output_tokens: int = 300
    ) -> AsyncGenerator[str]:
        """An answer in pieces, as the model writes it."""
        ...

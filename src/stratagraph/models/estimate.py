"""What an operation would cost: the same gate, counting instead of calling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from stratagraph.models.budget import Prices, cost_of, money
from stratagraph.models.embedding import offers_spans
from stratagraph.models.gate import ModelGate
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.models.identity import embedder_name
from stratagraph.models.task import CallItem, Task, answer_text, stage_of
from stratagraph.types.protocols import Spans, Vectors
from stratagraph.types.records import Usage

T = TypeVar("T")
DEFAULT_DIMENSION = 256


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an operation would cost, per stage. `cost` is None where prices are not known.

    Calls that the cache answers are counted apart and are free. Output tokens are those of answers as long as
    the prompts ask for, without repairs and reasoning. `form` is that of the extraction
    (`ExtractionConfig.form`); empty if a model extracts nothing.
    """

    stages: Mapping[str, Usage] = field(default_factory=dict)
    cost: float | None = None
    form: str = ""

    @property
    def usage(self) -> Usage:
        """The sum over all stages."""
        return sum(self.stages.values(), Usage())

    @property
    def calls(self) -> int:
        """Model calls."""
        return self.usage.calls

    @property
    def input_tokens(self) -> int:
        """Tokens in all prompts."""
        return self.usage.input_tokens

    @property
    def embedded_texts(self) -> int:
        """Texts that the embedder would be given."""
        return self.usage.embedded_texts

    @property
    def embedded_tokens(self) -> int:
        """Tokens of these texts, as the index counts tokens."""
        return self.usage.embedded_tokens

    @property
    def output_tokens(self) -> int:
        """Tokens in all answers, as expected."""
        return self.usage.output_tokens

    def to_dict(self) -> dict[str, Any]:
        """JSON-native: the totals, the cost, and the stages."""
        return {
            **_counts(self.usage),
            "cost": self.cost,
            "form": self.form,
            "stages": {name: _counts(usage) for name, usage in self.stages.items()},
        }

    def __str__(self) -> str:
        header = ("stage", "calls", "cached", "tokens in", "tokens out", "embedded", "tokens")
        named = {name: name for name in self.stages}
        if self.form:
            named["extract"] = f"extract ({self.form})"
        rows = [
            (named[name], *_cells(usage)) for name, usage in self.stages.items() if _counts(usage) != _NOTHING
        ]
        rows.append(("total", *_cells(self.usage)))
        first, *others = (max(map(len, column)) for column in zip(header, *rows, strict=True))
        lines = [
            "  ".join((name.ljust(first), *map(str.rjust, cells, others))) for name, *cells in (header, *rows)
        ]
        hint = " (no price is known for the model: give prices=Prices(...))" if self.cost is None else ""
        lines.append(f"cost: {money(self.cost)}{hint}")
        return "\n".join(lines)


def _counts(usage: Usage) -> dict[str, int]:
    counts = asdict(usage)
    del counts["seconds"]
    return counts


_NOTHING = _counts(Usage())


def _cells(usage: Usage) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in _counts(usage).values())


class PseudoEmbedder(HashingEmbedder):
    """Hashed vectors in place of another embedder's: similar texts are near each other in both."""

    def __init__(self, embedder: object, dimension: int) -> None:
        super().__init__(dimension)
        self.name = embedder_name(embedder, dimension)

        def embed_spans(texts: Sequence[str], spans: Sequence[Spans]) -> tuple[Vectors, Vectors]:
            parts = [text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own]
            return self.embed_documents(texts), self.embed_documents(parts)

        if offers_spans(embedder):
            self.embed_spans = embed_spans


class CountingGate(ModelGate):
    """A gate that calls nothing and writes nothing, and is `ModelGate` in all else.

    An answer is the task's `placeholder`; a repeated prompt counts as cached.
    """

    def __init__(
        self, llm: object | None, embedder: object | None, *, dimension: int | None = None, **keywords: Any
    ) -> None:
        size = dimension or DEFAULT_DIMENSION
        super().__init__(
            llm, None if embedder is None else PseudoEmbedder(embedder, size), dimension=dimension, **keywords
        )
        self._counted: set[str] = set()

    async def _call(self, task: Task[T], item: CallItem) -> T:
        call, scope, sender = self._prepared(task, item), self._scope_for(task.name), self._sender(task.name)
        cached, value = self._cached(call)
        if not cached:
            value = task.placeholder(item.values)
        if cached or call.key in self._counted:
            scope.ledger.add(scope.stage, Usage(cached_calls=1))
            return value  # type: ignore[no-any-return]
        self._counted.add(call.key)
        written = self.count_tokens(answer_text(value))
        if stage_of(task.name) == "answer":  # its placeholder is short, and no later prompt contains it
            written = max(written, task.expected_output_tokens)
        used = Usage(1, 0, sender.input_tokens(call.prompt, task.schema), written)
        scope.ledger.add(scope.stage, used, sender.priced_as)
        return value  # type: ignore[no-any-return]

    @property
    def cost(self) -> float | None:
        """The cost of what was counted so far, at known prices."""
        return cost_of(self.ledger.models)

    def estimate(self, prices: Prices | None = None) -> Estimate:
        """What was counted so far, at `prices` or known ones."""
        return Estimate(self.ledger.stages, cost_of(self.ledger.models, prices))

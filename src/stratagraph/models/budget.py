"""Limits on the rate of model calls, budgets, prices, and ledgers of what was used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields

from stratagraph.system.locks import Lock
from stratagraph.types.protocols import SpendingJournal
from stratagraph.types.records import Usage

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How the gate treats the services behind it.

    Parameters
    ----------
    concurrency
        Model calls under way at the same time.
    requests_per_minute, tokens_per_minute
        What the service allows for model calls (tokens in and out together); None: no limit.
    retries
        Further attempts after a rate limit, a time-out, a lost connection or a server error.
    timeout
        Seconds until an attempt counts as lost. A model on this machine answers requests in turn, so that
        the last of `concurrency` waits for all others.
    longest_wait
        Seconds that one pause between attempts may take; a service that asks for more ends the unit.
    embed_batch, embed_concurrency
        Texts per embedding request, and embedding requests under way at the same time.
    store_timeout
        Seconds until a call of a vector store counts as lost (`vectors=`).
    grace
        Seconds that a cancelled operation waits for answers that are already being paid for.
    """

    concurrency: int = 10
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    retries: int = 5
    timeout: float = 240.0
    longest_wait: float = 60.0
    embed_batch: int = 64
    embed_concurrency: int = 4
    store_timeout: float = 30.0
    grace: float = 8.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value, may_be_zero = getattr(self, each.name), each.name in ("retries", "grace")
            if value is None and each.default is None:
                continue
            if value is None or not (value > 0 or (may_be_zero and value == 0)):
                least = "0 or more" if may_be_zero else "above 0"
                raise ValueError(f"{each.name} must be {least}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model costs, in any one currency, per million tokens."""

    input: float
    output: float

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise ValueError(f"prices must be 0 or more, got {self.input} and {self.output}")

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """The price of so many tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Budget:
    """What one operation may spend on its language model; None: no bound. Cached calls are free.

    A call starts only if usage so far, plus the expected usage of running calls and of this call, stays
    within every limit.

    Parameters
    ----------
    calls
        Answers asked for, repairs included.
    tokens
        Tokens in and out together.
    cost
        In the currency of `prices`, which it needs.
    prices
        What the model costs.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "cost"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number, got {value!r}")
            if value is not None and value < 0:
                raise ValueError(f"{name} must be 0 or more, got {value!r}")
        if self.cost is not None and self.prices is None:
            raise ValueError(
                "a budget of cost needs prices, as in Budget(cost=5.0, prices=Prices(2.5, 10.0))"
            )

    def exceeded_by(self, usage: Usage) -> str | None:
        """The bound that `usage` would break, as the caller wrote it; None if it fits."""
        tokens = usage.input_tokens + usage.output_tokens
        if self.calls is not None and usage.calls > self.calls:
            return f"calls={self.calls}"
        if self.tokens is not None and tokens > self.tokens:
            return f"tokens={self.tokens}"
        if self.cost is not None and self.prices is not None:
            cost = self.prices.cost(usage.input_tokens, usage.output_tokens)
            if cost > self.cost:
                return f"cost={self.cost:g}"
        return None


class Account:
    """What was spent, and what calls under way may use, against a budget. Thread-safe.

    Calls under way count with their estimate, so many of them together cannot exceed a bound.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = Usage()
        self.reached = ""
        self._promised = Usage()
        self._lock = Lock()

    def reserve(self, estimate: Usage) -> bool:
        """Reserve what a call may use; False if that exceeds a bound, which `reached` names."""
        with self._lock:
            bound = self.budget.exceeded_by(self.spent + self._promised + estimate)
            if bound is not None:
                self.reached = bound
                return False
            self._promised += estimate
            return True

    def charge(self, estimate: Usage, used: Usage) -> None:
        """Replace a promise by what was really used."""
        with self._lock:
            self._promised -= estimate
            self.spent += used


_TOKENS = 1_000  # of a request by which the table is asked: some models cost more in longer ones


def known_prices(model: str) -> Prices | None:
    """Prices per million tokens in US dollars, from the package genai-prices.

    None if it has none for a model.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    try:
        cost = calc_price(Usage(input_tokens=_TOKENS, output_tokens=_TOKENS), model_ref=model)
    except (LookupError, ValueError):
        return None
    million = 1e6 / _TOKENS
    return Prices(float(cost.input_price) * million, float(cost.output_price) * million)


def cost_of(usage: Mapping[str, Usage], prices: Prices | None = None) -> float | None:
    """The cost of the usage of models by name, at `prices` or those of the table.

    None if a price is unknown.
    """
    total = 0.0
    for model, used in usage.items():
        of_model = prices or known_prices(model)
        if of_model is None:
            return None
        total += of_model.cost(used.input_tokens, used.output_tokens)
    return total


def money(cost: float | None) -> str:
    """A cost as text; `unknown` if it is not known."""
    if cost is None:
        return "unknown"
    return f"{cost:.2f}" if cost >= 1 or not cost else f"{cost:.4f}"


EARLIER = "earlier runs"
"""The stage under which a resumed operation shows the usage of its interrupted runs."""


class Ledger:
    """Sums of `Usage` per stage, in the order in which stages begin, and per model. Thread-safe.

    `journal` keeps what models are paid for until it is published.
    """

    def __init__(self, journal: SpendingJournal | None = None) -> None:
        self._lock = Lock()
        self._journal = journal
        self._stages: defaultdict[str, Usage] = defaultdict(Usage)
        self._models: defaultdict[str, Usage] = defaultdict(Usage)

    def add(self, stage: str, usage: Usage, model: str = "") -> None:
        """Add usage to a stage, and to a chat model."""
        with self._lock:
            self._stages[stage] += usage
            if model:
                self._models[model] += usage
        if model and self._journal is not None:
            self._journal.spend(model, usage)

    def resume(self, earlier: Mapping[str, Usage]) -> None:
        """Begin with the usage of each model before the operation was interrupted."""
        with self._lock:
            for model, usage in earlier.items():
                self._stages[EARLIER] += usage
                self._models[model] += usage

    @property
    def models(self) -> dict[str, Usage]:
        """Usage per chat model; a copy."""
        with self._lock:
            return dict(self._models)

    @property
    def stages(self) -> dict[str, Usage]:
        """Usage per stage; a copy."""
        with self._lock:
            return dict(self._stages)

    @property
    def total(self) -> Usage:
        """Usage of all stages together."""
        return sum(self.stages.values(), Usage())


@dataclass
class Scope:
    """A stage under way and its progress. `total` is None if unknown."""

    ledger: Ledger
    stage: str
    total: int | None
    done: int = 0

    def progress(self) -> str:
        """For people: `97 of 250 done`."""
        return f"{self.done:,} done" if self.total is None else f"{self.done:,} of {self.total:,} done"


class UsageHistory:
    """Tokens that requests used, against those counted beforehand. Thread-safe.

    Tokenizers differ and answers vary in length: the usage of earlier requests corrects estimates, and only
    upwards.
    """

    def __init__(self) -> None:
        self._counted = 0
        self._taken = 0
        self._answers: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._lock = Lock()

    def add(self, task: str, counted: int, used: Usage) -> None:
        """Record a request: the input tokens counted for it, and what it used."""
        with self._lock:
            self._counted += counted
            self._taken += used.input_tokens
            answers = self._answers[task]
            answers[0] += 1
            answers[1] += used.output_tokens

    def expected(self, task: str, counted: int, typical: int) -> Usage:
        """What a request may use, by its counted input tokens and its task's typical output tokens."""
        with self._lock:
            factor = self._taken / self._counted if self._counted else 1.0
            answers, tokens = self._answers[task]
        mean = -(-tokens // answers) if answers else 0
        return Usage(1, 0, max(counted, round(counted * factor)), max(typical, mean))

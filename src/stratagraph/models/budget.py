"""How fast models may be called, and how much may be spent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stratagraph._locks import Lock
from stratagraph.records import Usage

Sleep = Callable[[float], Awaitable[object]]


def _positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be above 0, got {value!r}")


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
        _positive(
            concurrency=self.concurrency,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            timeout=self.timeout,
            longest_wait=self.longest_wait,
            embed_batch=self.embed_batch,
            embed_concurrency=self.embed_concurrency,
            store_timeout=self.store_timeout,
        )
        if self.retries < 0 or self.grace < 0:
            raise ValueError(f"retries and grace must be 0 or more, got {self.retries} and {self.grace}")


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

    A call begins only if what was spent, what calls under way are expected to use, and what it is
    expected to use itself are together within every bound.

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
    """What was spent and what is promised to calls under way, against a budget. Thread-safe.

    Calls under way count with their estimate, so that many of them together cannot break a bound
    that none would break alone.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = Usage()
        self.reached = ""
        self._promised = Usage()
        self._lock = Lock()

    def reserve(self, estimate: Usage) -> bool:
        """Promise what a call may use; False if a bound stands against it, which `reached` then names."""
        with self._lock:
            bound = self.budget.exceeded_by(self.spent + self._promised + estimate)
            if bound is not None:
                self.reached = bound
                return False
            self._promised += estimate
            return True

    def settle(self, estimate: Usage, used: Usage) -> None:
        """Replace a promise by what was really used."""
        given_back = Usage(-estimate.calls, 0, -estimate.input_tokens, -estimate.output_tokens)
        with self._lock:
            self._promised += given_back
            self.spent += used

"""What models cost, from the table of the package genai-prices, where that is installed."""

from __future__ import annotations

from collections.abc import Mapping

from stratagraph.models.budget import Prices
from stratagraph.records import Usage

_TOKENS = 1_000  # of a request by which the table is asked: some models cost more in longer ones


def known_prices(model: str) -> Prices | None:
    """Prices per million tokens in US dollars; None if the model is not in the table, or there is no table.

    A server of one's own may serve a model under a provider's name: whoever runs one knows what it costs, and
    gives `Prices`.
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
    """What the usage of models costs together.

    Parameters
    ----------
    usage
        By the names of the models.
    prices
        Of all of them; None: those in the table.

    Returns
    -------
    The cost; None if a price is not known. What calls no model costs nothing.
    """
    total = 0.0
    for model, used in usage.items():
        of_model = prices or known_prices(model)
        if of_model is None:
            return None
        total += of_model.cost(used.input_tokens, used.output_tokens)
    return total


def money(cost: float | None) -> str:
    """A cost for people: `unknown` where it is not known."""
    if cost is None:
        return "unknown"
    return f"{cost:.2f}" if cost >= 1 or not cost else f"{cost:.4f}"

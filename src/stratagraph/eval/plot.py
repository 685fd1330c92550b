"""Quality against what it costs: tokens of context, and milliseconds."""

from __future__ import annotations

import os
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.eval.results import Evaluation
from stratagraph.eval.scoring import Cutoffs


def plot(found: Evaluation, path: str | os.PathLike[str], metric: str | None = None) -> None:
    """Draw recall against retrieved tokens, and a metric against latency, to a file (.png, .svg, .pdf).

    On the left each method is a line over the cutoffs k; on the right a point, with a bar from the median to
    the 95th percentile of its latency.

    Parameters
    ----------
    found
        An evaluation with at least one row that did not fail.
    path
        The file; its ending decides the format.
    metric
        Of the right panel; None means recall at the middle cutoff.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    ValueError
        If there is nothing to draw, or no such metric.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "viz") from error
    cutoffs = Cutoffs(tuple(found.settings["k"]), tuple(found.settings["budgets"]))
    metric = metric or f"recall@{cutoffs.middle}"
    names = [row.name for row in found.rows if found.mean(row.name, metric) is not None]
    if not names:
        raise ValueError(
            f"nothing to draw: no row has {metric!r}; there are {', '.join(found.metrics) or 'none'}"
        )
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(f"{found.dataset}: {found.settings['questions']} questions, {found.settings['embedder']}")
    _tokens(left, found, names, cutoffs)
    _latency(right, found, names, metric)
    figure.savefig(path)


def _tokens(axes: Any, found: Evaluation, names: list[str], cutoffs: Cutoffs) -> None:
    for name in names:
        points = [(found.mean(name, f"tokens@{k}"), found.mean(name, f"recall@{k}")) for k in cutoffs.k]
        drawn = [point for point in points if None not in point]
        axes.plot([x for x, _ in drawn], [y for _, y in drawn], marker="o", label=name)
    ks = ", ".join(map(str, cutoffs.k))
    axes.set(xlabel="retrieved tokens, mean", ylabel=f"recall at k = {ks}", title="quality and tokens")
    axes.grid(alpha=0.3)
    axes.legend()


def _latency(axes: Any, found: Evaluation, names: list[str], metric: str) -> None:
    for name in names:
        row = found.row(name)
        median, slow = row.latency(50) or 0.0, row.latency(95) or 0.0
        axes.errorbar(
            median, found.mean(name, metric), xerr=[[0], [max(slow - median, 0)]], fmt="o", capsize=3
        )
        axes.annotate(name, (median, found.mean(name, metric)), xytext=(4, 4), textcoords="offset points")
    axes.set(xscale="log", xlabel="search, ms (median to 95th percentile)", ylabel=metric)
    axes.set_title("quality and latency")
    axes.grid(alpha=0.3, which="both")

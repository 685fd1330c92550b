"""The plot of an evaluation: quality against tokens and against latency."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from stratagraph.errors import MissingExtra


def draw(
    path: str | os.PathLike[str],
    title: str,
    curves: Mapping[str, Sequence[tuple[float | None, float | None]]],
    cutoffs: Sequence[int],
    points: Mapping[str, tuple[float, float, float]],
    metric: str,
) -> None:
    """Draw both panels to a file; see `Evaluation.save_plot`.

    Parameters
    ----------
    path, title
        The file, whose ending decides the format, and the heading.
    curves
        By ranker, mean tokens and recall at each cutoff, for the left panel.
    cutoffs
        The cutoffs k.
    points
        By ranker, median and 95th percentile of the latency in milliseconds, and the metric.
    metric
        Name of the metric of the right panel.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "viz") from error
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(title)
    for name, curve in curves.items():
        drawn = [(tokens, recall) for tokens, recall in curve if tokens is not None and recall is not None]
        left.plot([x for x, _ in drawn], [y for _, y in drawn], marker="o", label=name)
    ks = ", ".join(map(str, cutoffs))
    left.set(xlabel="retrieved tokens, mean", ylabel=f"recall at k = {ks}", title="quality and tokens")
    left.grid(alpha=0.3)
    left.legend()
    for name, (median, slow, value) in points.items():
        right.errorbar(median, value, xerr=[[0], [max(slow - median, 0)]], fmt="o", capsize=3)
        right.annotate(name, (median, value), xytext=(4, 4), textcoords="offset points")
    right.set(xscale="log", xlabel="search, ms (median to 95th percentile)", ylabel=metric)
    right.set_title("quality and latency")
    right.grid(alpha=0.3, which="both")
    figure.savefig(path)

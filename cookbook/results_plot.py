"""The figure of RESULTS.md: margins over the best plain ranking, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results_margins import PLAIN, VIEWS, WALK, best_of, gains

SHOWN = (VIEWS[0], VIEWS[2], VIEWS[3])
"""The views drawn, one panel each."""
SPREAD = 0.13
"""Between the ways of searching on one data set, in rows."""


def draw(
    scored: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str], methods: Sequence[str], path: Path
) -> None:
    """Draw the margins of the walk and the methods, with 95 % intervals, to a file (.svg, .png)."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "results"  # the same figures give the same file
    keys, ways = list(scored), (WALK, *methods)
    figure = Figure(figsize=(12, 1.8 + 0.75 * len(keys)), layout="constrained")
    panels = figure.subplots(1, len(SHOWN), sharey=True)
    for panel, (view, metric, title) in zip(panels, SHOWN, strict=True):
        drawn = [gains(scored[key], methods, view, metric) for key in keys]
        for place, way in enumerate(ways):
            shift = SPREAD * (place - (len(ways) - 1) / 2)
            found = [(row + shift, each[way]) for row, each in enumerate(drawn) if way in each]
            means = [each.mean for _, each in found]
            bars = [[each.mean - each.low for _, each in found], [each.high - each.mean for _, each in found]]
            panel.errorbar(means, [row for row, _ in found], xerr=bars, fmt="o", capsize=2, label=way)
        panel.axvline(0, color="black", linewidth=1)
        panel.set_title(title.replace("`", "").replace(", ", ",\n", 1), fontsize=10)
        panel.set_xlabel("margin over the best of dense, BM25, fusion", fontsize=9)
        panel.grid(alpha=0.3, axis="x")
        for row, key in enumerate(keys):
            if best := best_of(scored[key], PLAIN, metric):
                panel.text(0.01, row + 0.42, f"{best[0]} {best[1]:.2f}", fontsize=7, color="grey",
                           transform=panel.get_yaxis_transform())  # fmt: skip
    panels[0].set_yticks(range(len(keys)), [titles[key].replace(", ", ",\n", 1) for key in keys], fontsize=9)
    panels[0].set_ylim(len(keys) - 0.4, -0.6)
    figure.legend(
        *panels[0].get_legend_handles_labels(), fontsize=9, loc="outside upper center", ncols=len(ways)
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)

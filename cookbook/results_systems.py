"""Other systems on the same passages, vectors and extraction as the walk and the methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results_margins import DEFAULT, PLAIN, WALK, absent, best_of, gain, rows_in, signed, standing
from results_tables import row_of

Ranking = Mapping[str, Any]
SPREAD = 0.7
"""Between the first and the last row of one data set, in rows."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of the rows of a view with the rows of other systems, by one metric."""

    title: str
    view: str
    metric: str
    rivals: tuple[str, ...]


def comparisons(systems: Sequence[str], own_nodes: Sequence[str]) -> tuple[Comparison, ...]:
    """By passages, and by what a model would be shown: of systems that have nodes of their own these too."""
    passages, shown = tuple(systems), (*systems, *own_nodes)
    return (
        Comparison("recall@5 of supporting passages", WALK, "recall@5", passages),
        Comparison("answer in the first 1,000 tokens", DEFAULT, "answer@1000", shown),
        Comparison("answer in the first 2,000 tokens", DEFAULT, "answer@2000", shown),
    )


def mostly(scored: Mapping[str, Ranking], each: Comparison) -> dict[str, Ranking]:
    """The data sets on which most of the rivals were measured: others say nothing of the best of them."""
    return {
        key: scores
        for key, scores in scored.items()
        if 2 * len(absent(scores, each.rivals, each.metric)) < len(each.rivals)
    }


def told(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    compared: Sequence[Comparison],
) -> Iterator[str]:
    """A paragraph for each comparison, and one that names everything that is ahead of all rows."""
    ahead = []
    for each in compared:
        if said := standing(mostly(scored, each), titles, methods, each.view, each.metric, each.rivals):
            yield f"- **Other systems, {each.title}**, against the best of them on each set:"
            yield from said
        ahead += [
            f"{name} on {titles[key]} ({each.metric} {gained})"
            for key, scores in scored.items()
            for name, gained in winners(scores, methods, each)
        ]
    if scored:
        which = "; ".join(ahead) or "nothing that was measured"
        best = "the best of the walk and the four methods"
        yield f"- **Ahead of {best}**, by one of these three measures: {which}."
        yield ""


def winners(scores: Ranking, methods: Sequence[str], each: Comparison) -> Iterator[tuple[str, str]]:
    """The plain rankings and systems that do better than the best row of a view, and by how much."""
    best = best_of(scores, [*rows_in(each.view, methods).values()], each.metric)
    for name in (*each.rivals, "ppr", *PLAIN) if best else ():
        found = gain(scores, name, best[0], each.metric)
        if found and found.mean > 0:
            yield name, f"{signed(found.mean)}{' ~' if found.is_noise else ''}"


def draw_systems(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    compared: Sequence[Comparison],
    path: Path,
) -> None:
    """Draw the means of methods, systems and plain rankings, by data set, to a file (.svg, .png)."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "results"  # the same figures give the same file
    keys = list(scored)
    figure = Figure(figsize=(12, 1.8 + 1.1 * len(keys)), layout="constrained")
    panels = figure.subplots(1, len(compared), sharey=True, squeeze=False)[0]
    colours = matplotlib.colormaps["tab20"]
    others = [*max((each.rivals for each in compared), key=len), "ppr", *PLAIN]
    for panel, each in zip(panels, compared, strict=True):
        drawn = {row: ("this package", "D", "black") for row in rows_in(each.view, methods).values()}
        for place, name in enumerate(others):
            if name in (*each.rivals, "ppr", *PLAIN):
                drawn[name] = (name, "x" if name in PLAIN else "o", colours(place % 20))
        for place, (name, (label, marker, colour)) in enumerate(drawn.items()):
            shift = SPREAD * (place / len(drawn) - 0.5)
            points = [
                (row["means"][each.metric], at + shift)
                for at, key in enumerate(keys)
                if (row := row_of(scored[key], name)) and row["means"].get(each.metric) is not None
            ]
            style = {"marker": marker, "s": 26, "color": colour, "label": label}
            panel.scatter([x for x, _ in points], [y for _, y in points], **style)
        panel.set_title(each.title, fontsize=10)
        panel.grid(alpha=0.3)
    panels[0].set_yticks(range(len(keys)), [titles[key].replace(", ", ",\n", 1) for key in keys], fontsize=9)
    panels[0].set_ylim(len(keys) - 0.4, -0.6)
    legends = [panel.get_legend_handles_labels() for panel in panels]
    marks = {label: mark for marks, labels in legends for mark, label in zip(marks, labels, strict=True)}
    figure.legend(marks.values(), marks.keys(), fontsize=8, loc="outside upper center", ncols=9)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)

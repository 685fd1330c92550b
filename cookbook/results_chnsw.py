"""C-HNSW in RESULTS.md: the table and the figure of what `benchmarks/chnsw.py` printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from results_tables import markdown

ROW = re.compile(r"^(\S.*?)((?:\s+(?:[\d,]+|nan) \(\s*(?:[\d,]+|nan)\)){4})$")
CELL = re.compile(r"([\d,]+|nan) \(\s*([\d,]+|nan)\)")
BUILD = re.compile(r"^build (.+): ([\d.]+) CPU-seconds, ([\d,]+) MiB")
MEASURED = "measured: "
CURVE = re.compile(r"^  (.+): ((?:\d\.\d+ in [\d.]+(?:, )?)+)$")
HOW = "CPU time, one thread; recall is the mean over the layers"  # of records that do not tell more
OWN, MODES, PRINTED = ", ef per layer", (", fast", ", paper"), "C-HNSW as printed"
HEAD = (
    "CPU microseconds (distance evaluations) a question",
    *("mean recall .95", "mean recall .98", "mean recall .99", ".98 in the lowest layer"),
    *("build, CPU-s", "MiB"),
)


def rows(output: str) -> dict[str, list[tuple[str, str]]]:
    """Of each index time and evaluations at the four recalls."""
    found = (ROW.match(line) for line in output.splitlines())
    return {each[1]: [(cell[1], cell[2]) for cell in CELL.finditer(each[2])] for each in found if each}


def builds(output: str) -> dict[str, tuple[str, str]]:
    """Of each index the CPU-seconds of its build and its MiB, by the name that `rows` has for it."""
    found = {}
    for line in output.splitlines():
        if each := BUILD.match(line):
            name = PRINTED if each[1].endswith(MODES[1]) else each[1].removesuffix(MODES[0])
            found[name] = (each[2], each[3])
    return found


def curves(output: str) -> dict[str, list[tuple[float, float]]]:
    """Of each index mean recall and microseconds, pool by pool."""
    found = (CURVE.match(line) for line in output.splitlines())
    return {
        each[1]: [
            (float(recall), float(micros))
            for recall, _, micros in (pair.partition(" in ") for pair in each[2].split(", "))
        ]
        for each in found
        if each
    }


def searched(record: Mapping[str, Any] | None, plot: str) -> Iterator[str]:
    """The part of the page; nothing where no record of this code holds a table."""
    table = rows(record["output"]) if record and not record.get("earlier") else {}
    if not record or not table:
        return
    made = builds(record["output"])
    lines = record["output"].splitlines()
    about = next(line for line in lines if " layers [" in line)
    how = next((line.removeprefix(MEASURED) for line in lines if line.startswith(MEASURED)), HOW)
    yield "## Search over a hierarchy\n"
    yield (
        f"C-HNSW, which searches all layers in one descent, beside one index for each layer; {about}; one "
        f"process; {how}. `ef per layer`: with a pool of its own size for each layer. `as printed`: the "
        "paper's algorithm. Evaluations of the peers are not counted. MiB: what the process holds more, of "
        "C-HNSW its arrays, vectors included; peers that search codes need the vectors besides.\n"
    )
    if curves(record["output"]):
        yield f"![Mean recall and time of a question, C-HNSW and peers]({plot})\n"
    table_lines = [list(HEAD)]
    for name, cells in table.items():
        shown = [time if count == "nan" else f"{time} ({count})" for time, count in cells]
        table_lines.append([name, *shown, *made.get(name, ("", ""))])
    yield markdown(table_lines)


def draw_search(record: Mapping[str, Any], path: Path) -> bool:
    """Draw time against recall to a file (.svg, .png); False where the record holds no curves."""
    drawn = curves(record["output"])
    if not drawn or record.get("earlier"):
        return False
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "results"  # the same figures give the same file
    figure = Figure(figsize=(8, 5), layout="constrained")
    panel = figure.subplots()
    colours: dict[str, Any] = {}
    for name, points in drawn.items():
        index = name.removesuffix(OWN)
        some = [(recall, micros) for recall, micros in points if recall >= 0.9]
        style = {"linestyle": "--", "color": colours[index]} if name != index and index in colours else {}
        (line,) = panel.plot(*zip(*some, strict=True), marker="o", markersize=3, label=name, **style)
        colours[index] = line.get_color()
    panel.set_yscale("log")
    panel.set_xlabel("mean recall of the best 5 over the layers")
    panel.set_ylabel("CPU microseconds a question, one thread")
    panel.grid(alpha=0.3, which="both")
    panel.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return True

"""A build's cost: a table of its stages with bars, then notes and failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from stratagraph.models.budget import money
from stratagraph.types.records import BuildReport, Usage
from stratagraph.types.results import Picture
from stratagraph.viz.page import counted, page

_LISTED = 50
_COLUMNS = (
    "Stage",
    "Calls",
    "Cached",
    "Tokens in",
    "Tokens out",
    "Texts embedded",
    "Seconds",
    "Tokens",
    "Time",
)
_SWATCHES = {
    name: f'<i class="swatch {color}"></i>'
    for name, color in (("Tokens in", "in"), ("Tokens out", "out"), ("Seconds", "time"))
}


def build_report(report: BuildReport) -> Picture:
    """Show tokens and seconds of a build, insert or delete by stage, then its notes and failures."""
    usage = report.usage
    notes = [
        f"{counted(report.documents, 'document')}, {counted(report.chunks, 'chunk')}; "
        + ", ".join(f"{name}: {counted(count, 'node')}" for name, count in report.nodes.items()),
        f"{counted(usage.calls, 'model call')}, {usage.cached_calls:,} of them answered from the cache; "
        f"{usage.seconds:,.1f} s in all stages. Cost: {money(report.cost)}.",
    ]
    remarks = (
        ("Notes", [f"{note}: {count:,}" for note, count in report.notes.items()]),
        ("Failures", [f"{each.stage}: {each.about}: {each.reason}" for each in report.failures]),
        ("Skipped documents", list(report.skipped)),
    )
    lists = [line for title, lines in remarks for line in _list(title, lines)]
    body = "\n".join(['<main class="report">', *_table(report), *lists, "</main>"])
    return page(f"Report: {report.operation}, generation {report.generation}", notes, body)


def _table(report: BuildReport) -> Iterator[str]:
    stages = list(report.stages.items())
    tokens = max((each.input_tokens + each.output_tokens for _, each in stages), default=0)
    seconds = max((each.seconds for _, each in stages), default=0.0)
    heads = "".join(f'<th scope="col">{_SWATCHES.get(name, "")}{name}</th>' for name in _COLUMNS)
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for name, usage in stages:
        used = _bar([("in", usage.input_tokens), ("out", usage.output_tokens)], tokens)
        yield f"<tr>{_cells(name, usage)}{used}{_bar([('time', usage.seconds)], seconds)}</tr>"
    yield f"</tbody><tfoot><tr>{_cells('all', report.usage)}<td></td><td></td></tr></tfoot></table>"


def _cells(name: str, usage: Usage) -> str:
    counts = (usage.calls, usage.cached_calls, usage.input_tokens, usage.output_tokens, usage.embedded_texts)
    numbers = [*(f"{count:,}" if count else "–" for count in counts), f"{usage.seconds:,.2f}"]
    return f"<td>{escape(name)}</td>" + "".join(f"<td>{number}</td>" for number in numbers)


def _bar(parts: Iterable[tuple[str, float]], whole: float) -> str:
    spans = "".join(
        f'<span class="{name}" style="width:{100 * value / whole:.2f}%"></span>'
        for name, value in parts
        if whole and value
    )
    return f'<td class="bar"><div>{spans}</div></td>'


def _list(title: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    yield f"<h2>{title} ({len(lines):,})</h2><ul>"
    yield from (f'<li dir="auto">{escape(line)}</li>' for line in lines[:_LISTED])
    if len(lines) > _LISTED:
        yield f"<li>{len(lines) - _LISTED:,} more, which the report itself lists</li>"
    yield "</ul>"

"""Results as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

import stratarag as sr
from stratarag.models.prices import money

_SHOWN = 300  # characters of a hit's text
_NAMES = 5


def demo_lines(index: sr.Index, answers: Sequence[tuple[Any, sr.Answer]]) -> Iterator[str]:
    """The demo: its build, then each question with its answer."""
    if index.last_report is not None:
        yield from report_lines(index.last_report, str(index.path))
    for question, answer in answers:
        yield ""
        yield click.style(question.question, bold=True)
        yield from answer_lines(answer)
        found = {document for hit in answer.retrieval for document in hit.documents}
        gold = set(question.supporting_ids)
        yield f"   ({len(gold & found)} of the {len(gold)} documents that hold the answer are among the hits)"


def report_lines(report: sr.BuildReport, path: str) -> Iterator[str]:
    """What an update did, what it cost, and what did not go smoothly."""
    usage = report.usage
    nodes = ", ".join(f"{name}: {count} nodes" for name, count in report.nodes.items())
    yield f"{report.operation}: {report.documents} documents, {report.chunks} chunks; {nodes}"
    yield (
        f"model calls: {usage.calls} ({usage.cached_calls} cached), "
        f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, {usage.seconds:.1f} s"
    )
    if usage.calls:
        yield f"cost: {money(report.cost)}"
    for label in ("updated", "deleted", "unchanged", "skipped"):
        names = getattr(report, label)
        if names:
            more = ", ..." if len(names) > _NAMES else ""
            yield f"{label}: {len(names)} ({', '.join(names[:_NAMES])}{more})"
    for note, count in report.notes.items():
        yield f"note: {note}: {count}"
    for failure in report.failures[:_NAMES]:
        yield f"failed: {failure.stage}: {failure.item}: {failure.reason}"
    if len(report.failures) > _NAMES:
        yield f"failed: {len(report.failures) - _NAMES} more; --json lists all"
    yield f"index: {path} (generation {report.generation})"


def answer_lines(answer: sr.Answer) -> Iterator[str]:
    """The hits, the answer, and the documents behind its citations."""
    yield from hit_lines(answer.retrieval.hits)
    label = "answer (extractive: sentences of the sources)" if answer.extractive else "answer"
    yield f"   {label}: {answer.text}"
    for citation in answer.citations:
        yield f"   [{citation.number}] {', '.join(citation.documents[:6])}{_place(citation.metadata)}"
    if answer.usage.calls:
        used = f"{answer.usage.input_tokens:,} tokens in, {answer.usage.output_tokens:,} out"
        yield f"   model calls: {answer.usage.calls}, {used}, cost: {money(answer.cost)}"


def _place(metadata: Mapping[str, Any]) -> str:
    """Where in its document a passage is, as far as its metadata tells."""
    told = [f"{name} {metadata[name]}" for name in ("page", "slide", "sheet") if name in metadata]
    headings = metadata.get("headings")
    if isinstance(headings, list):
        told.append(" > ".join(map(str, headings)))
    return f", {', '.join(told)}" if told else ""


def hit_lines(hits: Sequence[sr.Hit]) -> Iterator[str]:
    """Two lines for each hit."""
    for rank, hit in enumerate(hits, 1):
        text = " ".join(hit.text.split())
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        names = ", ".join(hit.documents[:3]) + (", ..." if len(hit.documents) > 3 else "")
        yield f"{rank:2}. {hit.score:.3f} {hit.kind} (level {hit.level}) from {names}"
        yield f"    {shown}"


def tree_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A nested mapping, indented."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield f"{indent}{key}:"
            yield from tree_lines(item, indent + "  ")
        else:
            yield f"{indent}{key}: {item}"

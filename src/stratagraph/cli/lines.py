"""Results as lines for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import stratagraph as sg
from stratagraph.demo.comparison import HITS, ComparedQuestion, DemoResult, LinkedDocuments
from stratagraph.models.budget import money
from stratagraph.search.evidence import telling
from stratagraph.text.packing import Piece, joined
from stratagraph.text.sentences import clip
from stratagraph.types.question import WALK
from stratagraph.types.records import place_in_words
from stratagraph.types.results import NOTHING_FOUND

_SHOWN = 300  # characters of a hit's text
_NAMES = 5
_WIDTH = 80
_QUOTED = 220  # characters of a sentence that the demo shows


def demo_lines(result: DemoResult, path: Path | None) -> Iterator[str]:
    """Lines of the demo: for each question, what each search found and how the walk got there."""
    yield from _wrapped(
        f"{result.documents} letters, minutes and newspaper pieces of islands that do not exist, indexed for "
        f"the walk in {result.walk:.0f} s. Three questions, chosen because similar vectors alone miss a "
        f"document that the answer needs. For each: how many of these documents are among the first {HITS} "
        "hits, what leads from one to the next, and the answer, which comes with the corpus.",
        "",
    )
    for number, each in enumerate(result.questions, 1):
        yield ""
        yield from _wrapped(f"{number}. {each.question.question}", "   ", bold=True)
        yield f"   {'plain vectors':16}{_count(each.plain, each)}"
        yield f"   {'the walk':16}{_count(each.walked, each)}"
        if (way := each.way) is None:
            continue
        for place, step in enumerate(way.steps):
            if place or len(way.steps) == 1:
                subject = "names" if place else "The question names"
                yield from _wrapped(f"{subject} {way.name}, and so does", "   ")
            yield from _wrapped(f"{step.title}{' (missed by plain vectors)' if step.missed else ''}:", "   ")
            for sentence in step.sentences:
                yield from _wrapped(f'"{_around(sentence, way)}"', "      ")
        yield f"   {click.style(f'Answer: {way.answer}', bold=True)}"
    yield ""
    won = sum(each.won for each in result.questions)
    yield f"In {won} of {len(result.questions)}, the walk found what plain vectors missed."
    yield ""
    added = "One method was" if len(result.own) == 1 else f"{len(result.own)} methods were"
    yield from _wrapped(
        f"{added} added to the same index in {result.methods:.0f} s. Each returns nodes of its own "
        f"among the passages. The first ones for: {result.asked}",
        "",
    )
    for own in result.own:
        of = "1 document" if own.documents == 1 else f"{own.documents} documents"
        yield from _wrapped(f"{own.method}, {own.kind} of {of}: {_cut(own.text)}", "   ")
    if result.left_out:
        yield ""
        yield f"Left out for want of packages: {', '.join(result.left_out)}. To add them:"
        yield from (f"   {line}" for line in dict.fromkeys(result.left_out.values()))
    yield ""
    yield click.style("Now with a folder of yours:", bold=True)
    yield "   stratagraph build my-folder --out idx"
    yield '   stratagraph query idx "your question"'
    yield "   pip install 'stratagraph[server]'"
    yield f"   stratagraph serve {path or 'idx'} --open"


def _count(shown: int, each: ComparedQuestion) -> str:
    mark = click.style("found", fg="green") if shown == len(each.needed) else click.style("missed", fg="red")
    return f"{shown} of {len(each.needed)}  {mark}"


def _wrapped(text: str, indent: str, *, bold: bool = False) -> Iterator[str]:
    first = "" if bold else indent
    for line in textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=indent):
        yield click.style(line, bold=True) if bold else line


def _around(sentence: str, way: LinkedDocuments) -> str:
    """As much of a long sentence as three lines hold, with the answer in it, or else the name."""
    if len(sentence) <= _QUOTED:
        return sentence
    shown = way.answer if way.answer in sentence else way.name
    at = sentence.find(shown)
    start = 0
    if at + len(shown) > _QUOTED - 20:
        start = sentence.find(" ", min(at - 20, len(sentence) - _QUOTED)) + 1
    return f"{'... ' if start else ''}{_cut(sentence[start:])}"


def _cut(text: str) -> str:
    """A text of at most three lines, cut between words."""
    return text if len(text) <= _QUOTED else text[:_QUOTED].rpartition(" ")[0] + " ..."


def report_lines(report: sg.BuildReport, path: str) -> Iterator[str]:
    """The changes, costs and failures of an update."""
    usage = report.usage
    nodes = ", ".join(
        f"{name}: {_counted(count, 'node')}" if count or name == "graph" else f"{name}: too little to group"
        for name, count in report.nodes.items()
    )
    held = f"{_counted(report.documents, 'document')}, {_counted(report.chunks, 'chunk')}"
    yield f"{report.operation}: the index has {held}; {nodes}"
    yield (
        f"model calls: {usage.calls} ({usage.cached_calls} cached), "
        f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, {usage.seconds:.1f} s"
    )
    if usage.calls:
        yield f"cost: {money(report.cost)}"
    for label in ("added", "updated", "deleted", "unchanged", "skipped"):
        names = getattr(report, label)
        if names and (label != "added" or len(names) < report.documents):  # all of a new index
            more = ", ..." if len(names) > _NAMES else ""
            yield f"{label}: {len(names)} ({', '.join(names[:_NAMES])}{more})"
    if report.vanished:
        more = ", ..." if len(report.vanished) > _NAMES else ""
        shown = f"{len(report.vanished)} ({', '.join(report.vanished[:_NAMES])}{more})"
        yield f"vanished: {shown}; --prune deletes their documents"
    notes, others = report.shown_notes()
    for note, count in notes.items():
        yield f"note: {note}: {count}"
    if others:
        yield f"note: {others} other notes; --json lists all"
    for failure in report.failures[:_NAMES]:
        yield f"failed: {failure.stage}: {failure.about}: {failure.reason}"
    if len(report.failures) > _NAMES:
        yield f"failed: {len(report.failures) - _NAMES} more; --json lists all"
    yield f"index: {path} (generation {report.generation})"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def document_lines(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each document."""
    for each in documents:
        source = "" if each["source"] in (None, each["id"]) else f"from {each['source']}"
        columns = [each["id"], source, each["title"] or "", _counted(each["chunks"], "chunk")]
        yield "  ".join(" ".join(str(part).split()) for part in columns if part)


def answer_lines(answer: sg.Answer, listed: int | None, methods: Sequence[str]) -> Iterator[str]:
    """How hits were found, the first hits, those cited, and the answer with its sources, or excerpts.

    `listed`: how many hits come first; all if not given. `methods`: those of the index.
    """
    retrieval = answer.retrieval
    cited = {citation.number for citation in answer.citations}
    ranks = [
        rank for rank in range(1, len(retrieval) + 1) if listed is None or rank <= listed or rank in cited
    ]
    yield from hit_lines(retrieval, methods, ranks, with_note=not answer.extractive)  # which has the note
    if more := len(retrieval) - len(ranks):
        yield f"    ({more} more hits were searched for the answer; -k N lists N)"
    if answer.extractive:
        yield "   excerpts (no model wrote an answer):"
        yield from (f"   {line}".rstrip() for line in answer.text.splitlines())
    else:
        yield f"   answer: {answer.text}"
        for citation in answer.citations:
            where = [*citation.documents[:6], place_in_words(citation.metadata)]
            yield f"   [{citation.number}] {', '.join(filter(None, where))}"
    if answer.finish:
        yield f"   finish: {answer.finish}"
    if answer.usage.calls:
        used = f"{answer.usage.input_tokens:,} tokens in, {answer.usage.output_tokens:,} out"
        yield f"   model calls: {answer.usage.calls}, {used}, cost: {money(answer.cost)}"


def passage_lines(retrieval: sg.Retrieval, max_tokens: int) -> Iterator[str]:
    """The hits with number, document and date, whole, as far as they fit; of the first the beginning."""
    pieces: list[Piece] = []
    for place, hit in enumerate(retrieval.hits):
        about = ", ".join(filter(None, [*hit.documents[:3], place_in_words(hit.metadata), hit.dated]))
        piece = Piece(place, f"{about}\n{hit.text}")
        if retrieval.count_tokens(joined([*pieces, piece])) <= max_tokens:
            pieces.append(piece)
        elif not pieces:
            room = max_tokens - retrieval.count_tokens(str(piece._replace(text="")))
            pieces.append(piece._replace(text=clip(piece.text, max(0, room), retrieval.count_tokens)))
    yield from (joined(pieces) or NOTHING_FOUND).splitlines()


def hit_lines(
    retrieval: sg.Retrieval,
    methods: Sequence[str],
    ranks: Sequence[int] | None = None,
    *,
    with_note: bool = True,
) -> Iterator[str]:
    """How hits were found, two lines for each, or for those at some ranks, from 1, and unknown words."""
    hits = "\n".join(_hit_lines(retrieval, methods, ranks))
    yield from (retrieval.with_note(hits) if with_note else hits).splitlines()


def _hit_lines(retrieval: sg.Retrieval, methods: Sequence[str], ranks: Sequence[int] | None) -> Iterator[str]:
    method, guidance = retrieval.method, retrieval.guidance
    if method == WALK:
        others = f" (for nodes of a method: --method {', '.join(methods)})" if methods else ""
        yield f"passages by the walk{others}"
    elif any("view" in each for each in retrieval.trace):
        yield f"nodes of {method} among passages (passages alone: --view chunks; none: --no-fill)"
    else:
        yield f"{method}'s own ranking (passages alone: --view chunks)"
    if guidance is not None:
        queries = "; ".join(repr(query) for step in guidance.steps for query in step.queries)
        decision = {
            "choice": f"the first {guidance.chosen} were chosen as needed together",
            "overview": "the question and its queries in turn",
            "none": "no choice, the hits are those of the question",
        }[guidance.kind]
        searched = f"; searched for {queries}" if queries else ""
        yield f"guided: {decision}{searched}" + (f" ({guidance.failed})" if guidance.failed else "")
    for rank in ranks or range(1, len(retrieval) + 1):
        hit = retrieval.hits[rank - 1]
        names = ", ".join(hit.documents[:3]) + (", ..." if len(hit.documents) > 3 else "")
        path, step = hit.metadata.get("path"), hit.metadata.get("step")
        at = f", step {step} of {' → '.join(path)}" if isinstance(path, list) and step else ""
        yield f"{rank:2}. {hit.score:.3f} {hit.kind} (level {hit.level}) from {names}{at}"
        yield f"    {hit.dated} {telling(retrieval.query, hit.text, _SHOWN)}".replace("     ", "    ")


def tree_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A nested mapping, indented, without None and empty mappings."""
    for key, item in value.items():
        if item is None or item == {}:
            continue
        if isinstance(item, Mapping):
            yield f"{indent}{key}:"
            yield from tree_lines(item, indent + "  ")
        else:
            yield f"{indent}{key}: {item}"

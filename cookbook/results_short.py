"""The first lines of RESULTS.md: what holds on how many corpora, and how fast the search of layers is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results_chnsw import OWN, PRINTED, rows
from results_margins import PLAIN, VERDICTS, WALK, absent, gains, verdict
from results_systems import Comparison, mostly

Ranking = Mapping[str, Any]
DOCUMENTS = "doc_recall@5"
RECALLS = (".95", ".98", ".99")
"""Mean recalls at which `benchmarks/chnsw.py` tells the time of a question, in its order."""


def in_short(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    compared: Sequence[Comparison],
) -> Iterator[str]:
    """On how many corpora all rows are ahead beyond noise: of plain rankings, and of other systems."""
    if not scored or not compared:
        return
    yield f"**In short**, {over(titles[key] for key in scored)}:\n"
    if len(methods) > 1:
        yield (
            f"- The {NUMBERS.get(len(methods), len(methods))} methods take their passages from one walk: "
            "that they are ahead together is one finding, not several. They differ in their own nodes, their "
            "answers and their costs."
        )
    for each in compared:
        known = mostly(scored, each)
        plain, systems = (
            count(ahead(of, titles, methods, each.view, each.metric, rivals))
            for of, rivals in ((scored, PLAIN), (known, each.rivals))
        )
        who = "the walk is" if each.view == WALK else "all are"
        yield (
            f"- By {each.title}, {who} ahead beyond noise of the best plain ranking on {plain} corpora, "
            f"and of the best other system on {systems}{incomplete(known, titles, each)}."
        )
    yield from by_documents(scored, titles, methods)


NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def corpus_of(title: str) -> str:
    """The corpus that a title names: what stands behind its comma is how facts were found in it."""
    return title.partition(", ")[0]


def over(titles: Iterator[str]) -> str:
    """The number of corpora, and which of them are measured in several ways."""
    ways: dict[str, int] = {}
    for title in titles:
        ways[corpus_of(title)] = ways.get(corpus_of(title), 0) + 1
    many = [name for name, count in ways.items() if count > 1]
    once = f" ({' and '.join(many)}, measured with facts extracted here and with given ones, counts once)"
    return f"on {NUMBERS.get(len(ways), len(ways))} corpora{once if many else ''}"


def ahead(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    view: str,
    metric: str,
    rivals: Sequence[str],
) -> dict[str, bool]:
    """Of each corpus, whether all rows are ahead of the best rival in each way that it was measured."""
    found: dict[str, bool] = {}
    for key, scores in scored.items():
        if each := gains(scores, methods, view, metric, rivals):
            name = corpus_of(titles[key])
            found[name] = found.get(name, True) and verdict(each) == VERDICTS[0]
    return found


def count(found: Mapping[str, bool]) -> str:
    """On how many corpora, of how many."""
    return f"{sum(found.values())} of {len(found)}"


def incomplete(scored: Mapping[str, Ranking], titles: Mapping[str, str], each: Comparison) -> str:
    """The systems that were not measured everywhere: the best of the others says nothing of them."""
    lacking = {titles[key]: absent(scores, each.rivals, each.metric) for key, scores in scored.items()}
    told = [f"on {title} without {', '.join(names)}" for title, names in lacking.items() if names]
    return f" ({'; '.join(told)})" if told else ""


def by_documents(
    scored: Mapping[str, Ranking], titles: Mapping[str, str], methods: Sequence[str]
) -> Iterator[str]:
    """What is left of the lead where a second passage of a document counts for nothing."""
    if found := ahead(scored, titles, methods, WALK, DOCUMENTS, PLAIN):
        yield (
            "- Counted by documents, of which further passages bring nothing, the walk is ahead beyond noise "
            f"of the best plain ranking on {count(found)} (recorded for {', '.join(found)})."
        )


def searched_in_short(record: Mapping[str, Any] | None) -> Iterator[str]:
    """C-HNSW's time as a share of the fastest peer's, at each recall; nothing without figures."""
    if not record or record.get("earlier"):
        return
    times = {name: [number(time) for time, _ in cells] for name, cells in rows(record["output"]).items()}
    ours = [
        each for name, each in times.items() if name.startswith("C-HNSW") and not name.startswith(PRINTED)
    ]
    printed = [each for name, each in times.items() if name.startswith(PRINTED)]
    peers = {name: each for name, each in times.items() if not name.startswith("C-HNSW")}
    if not ours or not peers:
        return
    layers = next(line for line in record["output"].splitlines() if " layers [" in line)
    vectors = layers.partition("[")[2].partition(",")[0]
    names = dict.fromkeys(name.removesuffix(OWN).rpartition(", ")[2] for name in peers)
    yield (
        f"- C-HNSW, ArchRAG's search of {int(vectors):,} real vectors and the layers over them: at mean "
        f"recall {', '.join(RECALLS)} it takes {shares(ours, peers)} of the time of the fastest of "
        f"{len(names)} peers ({', '.join(names)}), which have one index for each layer"
        + (f"; the algorithm as its paper prints it, {shares(printed, peers)}." if printed else ".")
    )


def shares(some: Sequence[Sequence[float]], peers: Mapping[str, Sequence[float]]) -> str:
    """The least time of some rows, as a share of the least of the peers, at each recall."""
    found = []
    for at in range(len(RECALLS)):
        best, fastest = (min((each[at] for each in of), default=NEVER) for of in (some, peers.values()))
        found.append("-" if NEVER in (best, fastest) else f"{best / fastest:.2f}".lstrip("0"))
    return ", ".join(found)


NEVER = float("inf")


def number(text: str) -> float:
    """Microseconds as the table prints them; never, where a recall was not reached."""
    return NEVER if text == "nan" else float(text.replace(",", ""))

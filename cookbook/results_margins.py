"""What RESULTS.md concludes: margins of the walk and the methods over the best plain ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from results_tables import markdown, row_of, short, signed

Ranking = Mapping[str, Any]
PLAIN = ("dense", "bm25", "hybrid")
DEFAULT, WALK, NODES = "", "walk", "/nodes"
VIEWS = (
    (DEFAULT, "answer@1000", "By default, answer in the first 1,000 tokens"),
    (DEFAULT, "answer@2000", "By default, answer in the first 2,000 tokens"),
    (WALK, "recall@5", "The walk, recall@5 of supporting passages"),
    (NODES, "answer@1000", "The methods' own rankings, answer in the first 1,000 tokens"),
    (NODES, "answer@2000", "The methods' own rankings, answer in the first 2,000 tokens"),
    (
        WALK,
        "doc_recall@5",
        "The walk, recall of the first five documents, further passages of one not counted",
    ),
)
"""What is compared, each by its rows (`rows_in`) and by what it is measured."""
VERDICTS = ("All ahead beyond noise", "All within noise", "All behind beyond noise")
MIXED = 1.5
"""Where verdicts stand that differ between methods: after the second of these."""


class Gain(NamedTuple):
    """A mean difference of two rows over the questions, its 95 % interval, and whether that holds 0.

    Where a record was made of what an earlier page printed, an interval may not be known.
    """

    mean: float
    low: float | None
    high: float | None
    is_noise: bool

    @property
    def turned(self) -> Gain:
        """The same, seen from the other row."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return Gain(-self.mean, low, high, self.is_noise)


def rows_in(view: str, methods: Sequence[str]) -> dict[str, str]:
    """The rows of a view, by way of searching.

    `DEFAULT` is what all return by default, `WALK` the walk alone, `NODES` the methods' own rankings.
    """
    own = {method: f"{method}{view}" for method in methods}
    return own if view == NODES else {WALK: WALK, **(own if view == DEFAULT else {})}


def gain(scores: Ranking, name: str, other: str, metric: str) -> Gain | None:
    """The paired difference of two rows, from the record; None if either was not measured."""
    rows = (row_of(scores, name), row_of(scores, other))
    if any(row is None or row["means"].get(metric) is None for row in rows):
        return None
    pairs = scores["pairs"].get(metric, {})
    if other in pairs.get(name, {}):
        return Gain(*pairs[name][other])
    if name in pairs.get(other, {}):
        return Gain(*pairs[other][name]).turned
    raise KeyError(f"the record has no difference of {name} and {other} by {metric}: run the section again")


def best_of(scores: Ranking, names: Sequence[str], metric: str) -> tuple[str, float] | None:
    """The ranking among some that does best on a data set, and its mean."""
    means = {name: row["means"].get(metric) for name in names if (row := row_of(scores, name))}
    known = {name: value for name, value in means.items() if value is not None}
    return max(known.items(), key=lambda item: item[1]) if known else None


def absent(scores: Ranking, names: Sequence[str], metric: str) -> list[str]:
    """Those of some rankings that were not measured on a data set."""
    return [name for name in names if best_of(scores, (name,), metric) is None]


def gains(
    scores: Ranking, methods: Sequence[str], view: str, metric: str, rivals: Sequence[str] = PLAIN
) -> dict[str, Gain]:
    """Of each way of searching that was measured, the difference to the best of its rivals."""
    best = best_of(scores, rivals, metric)
    if best is None:
        return {}
    found = {way: gain(scores, row, best[0], metric) for way, row in rows_in(view, methods).items()}
    return {way: difference for way, difference in found.items() if difference is not None}


def conclusions(
    scored: Mapping[str, Ranking], titles: Mapping[str, str], methods: Sequence[str]
) -> Iterator[str]:
    """A paragraph for each view: where its rows win, where they lose, and where the difference is noise."""
    for view, metric, title in VIEWS:
        if told := standing(scored, titles, methods, view, metric, PLAIN):
            yield f"- **{title}**, against the best of dense, BM25 and their fusion:"
            yield from told
    yield from between(scored, titles, methods)


def standing(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    view: str,
    metric: str,
    rivals: Sequence[str],
) -> list[str]:
    """Where a view is ahead of the best of its rivals, and where behind; a line for each verdict."""
    verdicts: dict[str, list[str]] = {}
    for key, scores in scored.items():
        best, found = best_of(scores, rivals, metric), gains(scores, methods, view, metric, rivals)
        if best and found:
            low, high = (pick(each.mean for each in found.values()) for pick in (min, max))
            lacking = absent(scores, rivals, metric)
            without = f", without {', '.join(lacking)}" if lacking else ""
            said = f"{titles[key]} ({best[0]}: {ranging(low, high)}{without})"
            verdicts.setdefault(verdict(found), []).append(said)
    order = sorted(verdicts, key=lambda which: VERDICTS.index(which) if which in VERDICTS else MIXED)
    return [f"  - {which}: {'; '.join(verdicts[which])}." for which in order]


def ranging(low: float, high: float) -> str:
    """A range of differences; one figure where both ends look the same."""
    return " to ".join(dict.fromkeys((signed(low), signed(high))))


def verdict(found: Mapping[str, Gain]) -> str:
    """How the rows of a view stand against a rival."""
    ahead = [name for name, each in found.items() if each.mean > 0 and not each.is_noise]
    behind = [name for name, each in found.items() if each.mean < 0 and not each.is_noise]
    if len(ahead) == len(found):
        return VERDICTS[0]
    if len(behind) == len(found):
        return VERDICTS[-1]
    if not ahead and not behind:
        return VERDICTS[1]
    parts = [("ahead beyond noise", ahead), ("behind beyond noise", behind)]
    told = [f"{', '.join(names)} {which}" for which, names in parts if names]
    rest = len(ahead) + len(behind) < len(found)
    return "; ".join(told) + ("; the others within noise" if rest else "")


def between(
    scored: Mapping[str, Ranking], titles: Mapping[str, str], methods: Sequence[str]
) -> Iterator[str]:
    """Whether it matters which method is taken, and what its own nodes bring."""
    metric, clear, count = "answer@1000", [], 0
    for key, scores in scored.items():
        for one, two in combinations(methods, 2):
            found = gain(scores, one, two, metric)
            count += found is not None
            if found is not None and not found.is_noise:
                clear.append(f"{one} {signed(found.mean)} to {two} on {titles[key]}")
    if count:
        told = f"{len(clear)} beyond noise{': ' + '; '.join(clear) if clear else ''}"
        which = "- **Which method**, by the answer in the first 1,000 tokens"
        yield f"{which}: of {count} differences between two, {told}."
    for budget in ("1,000", "2,000"):
        metric = f"answer@{budget.replace(',', '')}"
        found = [gain(scores, name, WALK, metric) for scores in scored.values() for name in methods]
        means = [each.mean for each in found if each is not None]
        if means:
            clear = sum(1 for each in found if each is not None and not each.is_noise)
            yield (
                f"- **Own nodes among the passages**: the methods against the walk, at {budget} tokens: "
                f"{ranging(min(means), max(means))}, {clear} of {len(means)} beyond noise."
            )
    yield ""


def margins(
    scored: Mapping[str, Ranking], titles: Mapping[str, str], methods: Sequence[str]
) -> Iterator[str]:
    """A table for each view: the best plain ranking, each way of searching, and its margin."""
    for view, metric, title in VIEWS:
        named = rows_in(view, methods)
        rows = [[title, "best plain", *named.values()]]
        for key, scores in scored.items():
            best, found = best_of(scores, PLAIN, metric), gains(scores, methods, view, metric)
            if best is None or not found:
                continue
            cells = [
                margin(scores, row, metric, found[way]) if way in found else "missing"
                for way, row in named.items()
            ]
            rows.append([titles[key], f"{short(best[1])} ({best[0]})", *cells])
        if len(rows) > 1:
            yield markdown(rows)


def margin(scores: Ranking, name: str, metric: str, difference: Gain) -> str:
    row = row_of(scores, name)
    value = short(row["means"][metric]) if row else ""
    return f"{value} ({signed(difference.mean)}{' ~' if difference.is_noise else ''})"

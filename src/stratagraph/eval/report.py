"""An evaluation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stratagraph.eval.bootstrap import Difference
from stratagraph.eval.datasets import FROM_EXTRACTION
from stratagraph.eval.duels import Duel
from stratagraph.eval.overview import Overview
from stratagraph.eval.results import Evaluation, Row
from stratagraph.eval.scoring import Cutoffs
from stratagraph.records import Failure, Usage

NOISE = "~"
_WORDINGS = ("accuracy", "answer_recall", "em", "f1", "bleu1", "meteor", "rouge_l")
_ANSWER_METRICS = (*_WORDINGS, "strrec", "strem", "strhit", "judged")
_DUELS = "wins/ties/losses, share won (a tie half) [interval]"
_NAMED = 3  # ids that a note shows
_SHOWN = 0.05  # seconds of a stage

Table = list[list[str]]


def tables(found: Evaluation) -> str:
    """All tables that have something in them, with the failures and the notes."""
    parts = [
        "\n".join(_heading(found)),
        _drawn(_retrieval(found)),
        _titled(_difference_title(found), _differences(found)),
        _titled(f"recall@{_cutoffs(found).middle} by type of question", _by_type(found)),
        _titled(_answer_title(found), _answers(found)),
        _titled(f"answers against {found.reference}: {_DUELS}", _duels(found, "duels")),
        _titled(f"answers against the gold answers: {_DUELS}", _duels(found, "gold_duels")),
        _titled("making ready (passages' vectors apart)", _indexing(found)),
        "\n".join([*_failures(found), *_notes(found)]),
    ]
    return "\n\n".join(part for part in parts if part)


def overview_tables(found: Overview) -> str:
    """Means by corpus, the worst margin of each method, and its margin on every fold."""
    names = [each.dataset for each in found.evaluations]
    means = [["", *names, "mean"]]
    for ranker in (*found.methods, *found.plain):
        each = [_number(one.mean(ranker, found.metric), 3) for one in found.evaluations]
        means.append([ranker, *each, _number(found.mean(ranker), 3)])
    worst = [["", "margin", "on", "against"]]
    for method in found.methods:
        if (fold := found.worst(method)) is not None:
            worst.append([method, _difference(fold.difference), fold.dataset, fold.plain])
    parts = list(dict.fromkeys(fold.part for fold in found.folds))
    folds = [["", *parts]]
    for name in names:
        for method in found.methods:
            known = {f.part: f for f in found.folds if (f.dataset, f.method) == (name, method)}
            cells = [_difference(known[part].difference) if part in known else "" for part in parts]
            folds.append([f"{name}: {method}", *cells])
    best = f"the best of {', '.join(found.plain)}"
    return "\n\n".join(
        table
        for table in (
            _titled(f"{found.metric} on {len(names)} corpora", means),
            _titled(f"worst margin over {best}", worst),
            _titled(f"margin over {best} on these questions, by corpus and random halves of it", folds),
        )
        if table
    )


def _cutoffs(found: Evaluation) -> Cutoffs:
    return Cutoffs(tuple(found.settings["k"]), tuple(found.settings["budgets"]))


def _heading(found: Evaluation) -> Iterator[str]:
    about = found.settings
    yield (
        f"{found.dataset}: {about['questions']} questions, {about['documents']} documents, "
        f"{about['passages']} passages; view {about['view']}"
    )
    yield (
        f"embedder {about['embedder']}: {about['embedded_passages']} passages embedded in "
        f"{about['embedding_seconds']:.1f} s, a question in {about['question_embedding_ms']:.1f} ms "
        f"(not in the latencies); extraction: {about['extraction']}"
    )
    if taken := about["taken_rows"]:
        days = sorted(row.measured[:10] for row in found.rows if row.name in taken)
        when = " to ".join(dict.fromkeys((days[0], days[-1])))
        yield f"{len(taken)} of {len(found.rows)} rows as an earlier run measured them, {when}"


def summary_metrics(found: Evaluation) -> dict[str, str]:
    """The metrics of the main table by their short headings."""
    cutoffs = _cutoffs(found)
    middle, deepest = cutoffs.middle, cutoffs.k[-1]
    columns = {f"R@{k}": f"recall@{k}" for k in cutoffs.k}
    columns |= {f"all@{middle}": f"all_recall@{middle}", f"nDCG@{deepest}": f"ndcg@{deepest}"}
    columns |= {"MRR": f"mrr@{deepest}"}
    columns |= {f"ans@{_thousands(budget)}": f"answer@{budget}" for budget in cutoffs.budgets}
    return columns | {f"tok@{middle}": f"tokens@{middle}"}


def _thousands(budget: int) -> str:
    return f"{budget // 1000}k" if budget % 1000 == 0 else str(budget)


def _retrieval(found: Evaluation) -> Table:
    columns = {
        heading: metric
        for heading, metric in summary_metrics(found).items()
        if any(found.mean(row.name, metric) is not None for row in found.rows)
    }
    table = [["", *columns, "p50 ms", "p95 ms", "CPU ms"]]
    for row in _measured(found):
        means = [_metric(metric, found.mean(row.name, metric)) for metric in columns.values()]
        latencies = [_number(row.latency(percentile), 1) for percentile in (50, 95)]
        table.append([row.name, *means, *latencies, _number(row.cpu, 1)])
    return table


def _difference_title(found: Evaluation) -> str:
    share = 100 * found.settings["confidence"]
    return f"difference to {found.reference}, with {share:.0f} % interval ({NOISE}: within noise)"


def _differences(found: Evaluation) -> Table:
    cutoffs = _cutoffs(found)
    metrics = [f"recall@{k}" for k in cutoffs.k] + [f"answer@{budget}" for budget in cutoffs.budgets[:1]]
    metrics = [metric for metric in metrics if any(metric in row.differences for row in found.rows)]
    headings = {metric: heading for heading, metric in summary_metrics(found).items()}
    compared = [row for row in found.rows if row.differences]
    if not compared or not metrics:
        return []
    table = [["", *(headings[metric] for metric in metrics)]]
    return table + [
        [row.name, *(_difference(row.differences.get(metric)) for metric in metrics)] for row in compared
    ]


def _difference(each: Difference | None) -> str:
    if each is None:
        return ""
    mark = NOISE if each.is_noise else " "
    return f"{_signed(each.mean)} [{_signed(each.low)}, {_signed(each.high)}] {mark}"


def _by_type(found: Evaluation) -> Table:
    metric = f"recall@{_cutoffs(found).middle}"
    types = [
        type_
        for type_ in found.types
        if any(found.mean(row.name, metric, type_) is not None for row in found.rows)
    ]
    if len(types) < 2:
        return []
    counts = {type_: sum(question.type == type_ for question in found.questions) for type_ in types}
    table = [["", *(f"{type_} ({counts[type_]})" for type_ in types)]]
    return table + [
        [row.name, *(_number(found.mean(row.name, metric, type_), 3) for type_ in types)]
        for row in _measured(found)
    ]


def _answer_title(found: Evaluation) -> str:
    known = found.settings.get("meteor_synonyms", True)
    return "answers" if known else "answers (METEOR without synonyms: nltk has no WordNet here)"


def _answers(found: Evaluation) -> Table:
    columns = [
        metric
        for metric in _ANSWER_METRICS
        if any(found.mean(row.name, metric) is not None for row in found.rows)
    ]
    if not columns:
        return []
    kappa = ["kappa of judges"] if any(row.agreement is not None for row in found.rows) else []
    parts = {
        heading: kind
        for heading, kind in (("search: ", "asking"), ("", "usage"), ("judges: ", "judging"))
        if kind == "usage" or any(getattr(row, kind) != Usage() for row in found.rows)
    }
    counts = [f"{heading}{count}" for heading in parts for count in ("calls", "tokens in", "out")]
    table = [["", *columns, *kappa, *counts]]
    for row in _measured(found):
        means = [_number(found.mean(row.name, metric), 3) for metric in columns]
        means += [_number(row.agreement, 2)] * len(kappa)
        table.append(
            [row.name, *means, *(each for kind in parts.values() for each in _counts(getattr(row, kind)))]
        )
    return table


def _counts(usage: Usage) -> list[str]:
    calls = usage.calls + usage.cached_calls
    return [str(calls), str(usage.input_tokens), str(usage.output_tokens)]


def _duels(found: Evaluation, kind: str) -> Table:
    rows = [(row.name, getattr(row, kind)) for row in found.rows if getattr(row, kind)]
    if not rows:
        return []
    several = any(duels["overall"].agreement is not None for _, duels in rows)
    table = [["", *rows[0][1], "same in both orders", *(["kappa of judges"] if several else [])]]
    for name, duels in rows:
        overall = duels["overall"]
        agreed = [_number(overall.consistency, 2), *([_number(overall.agreement, 2)] if several else [])]
        table.append([name, *map(_duel, duels.values()), *agreed])
    return table


def _duel(duel: Duel) -> str:
    if duel.win_rate is None:
        return ""
    within = "" if duel.interval is None else f" [{duel.interval.low:.2f}, {duel.interval.high:.2f}]"
    return f"{duel.wins}/{duel.ties}/{duel.losses} {duel.win_rate:.2f}{within}"


def _indexing(found: Evaluation) -> Table:
    table = [["", "seconds", "CPU s", "calls", "tokens in", "out", "MB on disk", "peak MB", "stages"]]
    for row in found.rows:
        made = row.indexing
        if made is None:
            continue
        usage = made.usage
        stages = ", ".join(
            f"{stage} {each.seconds:.1f} s"
            for stage, each in made.stages.items()
            if each.seconds >= _SHOWN or each.calls
        )
        sizes = [_megabytes(made.bytes), _megabytes(made.peak_memory)]
        spent = [_number(made.seconds, 1), _number(made.cpu_seconds, 1)]
        table.append([row.name, *spent, *_counts(usage), *sizes, stages])
    return table if len(table) > 1 else []


def _failures(found: Evaluation) -> Iterator[str]:
    for row in found.rows:
        if row.error:
            yield f"failed: {row.name}: {' '.join(row.error.split())}"
        for stage in dict.fromkeys(failure.stage for failure in row.failures):
            failures = [failure for failure in row.failures if failure.stage == stage]
            reason = " ".join(failures[0].reason.split())
            named = stage if row.name in stage else f"{row.name}: {stage}"
            yield f"failed: {named}: {_units(found, failures)}, as {failures[0].about!r}: {reason}"


def _units(found: Evaluation, failures: Sequence[Failure]) -> str:
    asked = {text for question in found.questions for text in (question.id, question.question)}
    items = {failure.item for failure in failures}
    if items & asked:
        return f"{len(items)} of {len(found.questions)} questions"
    return f"{len(failures)} unit{'s' * (len(failures) > 1)}"


def _notes(found: Evaluation) -> Iterator[str]:
    for what, ids in found.notes.items():
        shown = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        yield f"note: {what}: {shown if what.startswith(FROM_EXTRACTION) else f'{len(ids)} ({shown})'}"


def _measured(found: Evaluation) -> list[Row]:
    return [row for row in found.rows if row.scores]


def _metric(name: str, value: float | None) -> str:
    return _number(value, 0 if name.startswith("tokens") else 3)


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text[1:] if digits > 2 and text.startswith("0.") else text


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:.1f}"


def _titled(title: str, table: Table) -> str:
    return f"{title}\n{_drawn(table)}" if len(table) > 1 else ""


def _drawn(table: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left and the others to the right, the last as it comes."""
    if len(table) < 2:
        return ""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    last_is_text = table[0][-1] == "stages"
    lines = []
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        if last_is_text:
            cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)

"""Whether excerpts begin with the record that was asked for, and contexts hold it whole.

    python cookbook/benchmarks/records.py [--rows 120] [--questions 30] [--form NAME]

A price list is written in several forms: a document a row, lines, records, vCards, YAML, a Markdown table,
and cells without outer pipes. Printed for each: how many questions for a fare have the asked row's value as
the first in their excerpts; and by budget of a context, how many have both values of the asked row behind its
name, and how many have another row's value there.
"""

import argparse
import random
import re

import stratagraph as sg

BUDGETS = (60, 150, 400)
HEADS = ("Ost", "Brem", "Lang", "Sol", "Eller", "Hol", "Vik", "Tor", "Mar", "Pet", "Kal", "Nor")
TAILS = ("ra", "en", "ness", "vik", "ey", "mund", "stad", "fjord", "holm", "borg")
NOTES = ("Open all year", "Closed in winter. Ask Mr. Vik.", "St. Peter's quay")
Row = tuple[str, int, int, str]
LINE = "Port: {}; Winter fare: {}; Summer fare: {}; Note: {}."
FORMS = {
    "lines": ("", LINE, "\n"),
    "records": ("", "Port: {}\nWinter fare: {}\nSummer fare: {}\nNote: {}", "\n\n"),
    "vcards": ("", "BEGIN:VCARD\nFN:{}\nX-WINTER-FARE:{}\nX-SUMMER-FARE:{}\nNOTE:{}\nEND:VCARD", "\n"),
    "yaml": ("ports:\n", "  - name: {}\n    winter_fare: {}\n    summer_fare: {}\n    note: {}", "\n"),
    "markdown": (
        "| Port | Winter fare | Summer fare | Note |\n|---|---|---|---|\n",
        "| {} | {} | {} | {} |",
        "\n",
    ),
    "cells": ("Port | Winter fare | Summer fare | Note\n", "{} | {} | {} | {}", "\n"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--form", choices=("documents", *FORMS))
    given = parser.parse_args()
    rng = random.Random(3)
    names = [head + tail for head in HEADS for tail in TAILS]
    rng.shuffle(names)
    rows = [
        (name, rng.randrange(100, 999), rng.randrange(1000, 9999), rng.choice(NOTES))
        for name in names[: given.rows]
    ]
    asked = rng.sample(rows, given.questions)
    for form in [given.form] if given.form else ["documents", *FORMS]:
        show(form, documents(form, rows), asked)


def documents(form: str, rows: list[Row]) -> list[sg.Document]:
    if form == "documents":
        return [sg.Document(row[0], LINE.format(*row)) for row in rows]
    above, record, between = FORMS[form]
    return [sg.Document("fares", above + between.join(record.format(*row) for row in rows))]


def show(form: str, given: list[sg.Document], asked: list[Row]) -> None:
    first, whole, other = 0, dict.fromkeys(BUDGETS, 0), dict.fromkeys(BUDGETS, 0)
    with sg.build_index(given, embedder=sg.HashingEmbedder(), progress=False) as index:
        for name, winter, summer, _ in asked:
            question = f"What is the winter fare of {name}?"
            first += re.findall(r"\b\d{3}\b", index.answer(question).text)[:1] == [str(winter)]
            found = index.retrieve(question, k=10)
            for budget in BUDGETS:
                _, has, after = found.context(budget).text.partition(name)
                values = re.findall(r"\b\d{3,4}\b", after)[:2] if has else []
                whole[budget] += values == [str(winter), str(summer)]
                other[budget] += bool(values) and values[0] != str(winter)
    counts = ", ".join(f"{each}: {whole[each]} whole, {other[each]} another row's" for each in BUDGETS)
    print(f"{form:10} of {len(asked)}: {first} first in excerpts; {counts}", flush=True)


if __name__ == "__main__":
    main()

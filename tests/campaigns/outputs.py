"""Fuzzed outputs of a model: each is read or refused with `ParseFailed`, and quickly.

Outputs are good answers that were cut, spliced, doubled, nested, filled with odd characters or numbers, and
worst cases by construction. All parsers of the package read all of them.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stratagraph.errors import ParseFailed
from stratagraph.ingest.extraction.by_model import EXTRACT
from stratagraph.methods.archrag.compose import FILTER
from stratagraph.methods.hirag.naming import META_TASK
from stratagraph.methods.hirag.naming import parse_summary as hirag_summary
from stratagraph.methods.noderag.elements import ElementsSchema
from stratagraph.methods.reports import ReportSchema
from stratagraph.models.structured import json_as, plain_text
from stratagraph.search.questions import DECOMPOSE
from tests.campaigns.trials import Tally

PARSERS: dict[str, Callable[[str], object]] = {
    "extract": EXTRACT.parse,
    "filter": FILTER.parse,
    "meta types": META_TASK.parse,
    "summary": hirag_summary,
    "elements": json_as(ElementsSchema),
    "decompose": DECOMPOSE.parse,
    "report": json_as(ReportSchema),
    "text": plain_text,
}
SLOW = 2.0
"""Seconds that reading one output may take: several times what the longest takes, at linear cost."""

_GOOD = [
    json.dumps(
        {
            "units": [{"text": "Ada met Bo.", "entities": ["Ada", "Bo"]}],
            "entities": [{"name": "Ada", "type": "person", "description": "She met Bo."}] * 3,
            "relations": [{"source": "Ada", "target": "Bo", "description": "met", "strength": 5}] * 3,
        }
    ),
    json.dumps({"points": [{"description": "It rains.", "score": 80, "sources": [1, 2]}] * 3}),
    json.dumps({"title": "T", "summary": "S", "rating": 7.5, "reason": "R"}),
    json.dumps({"elements": [{"title": "T", "text": "X"}] * 2}),
    json.dumps({"entities": ["Ada", "Bo"]}),
    '<think>Let me see.</think>\n```json\n{"types": ["place"]}\n```',
    "I'm sorry, but I can't help with that.",
]
_ODD = [
    *("\x00", "\ud800", "\\ud800", "\\u0000", "\ufeff", "\u202e", "\U0001f600", "NaN", "-Infinity", "1e999"),
    *("9" * 5000, *'-{[]}"\\,:(', "```", "<think>", "</think>", "<|>", "##"),
]
_WORST = [
    *("[", "{", '{"a":', '[{"a":', "<think>", "</think>", "```json\n", "```\n", '"', "\\", "(", '("', "<|>"),
    *("|>", "{}", "[]", '{"entities": [', "'", "{'a': ", '("entity"<|>', "\n", " ", "#", "1", "1,", "//"),
    *("/*", "True, ", '"a": ', "<", ">", "entity<|>", "COMPLETE", "\\u", "- ", "80/", "\u201c", "null,"),
    *('{"points": [{"score": "', "[[1", "{[", "}{", "\ud800", "( ", "(\n", '"\n<', "<|", "|<8>", "a\n"),
]


def outputs(count: int, seed: int = 0) -> Iterator[str]:
    chance = random.Random(seed)
    for number in range(count):
        if number < 2 * len(_WORST):
            yield _WORST[number // 2] * (400 if number % 2 else 20_000)
        else:
            yield mutated(chance)


def mutated(chance: random.Random) -> str:
    text = chance.choice(_GOOD)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        kind = chance.randrange(8)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + text[to:]
        elif kind == 2:
            text = text[:at] + chance.choice(_ODD) + text[at:]
        elif kind == 3:
            text = text[:to] + text[at:]
        elif kind == 4:
            text = text[:at] + chance.choice(_GOOD) + text[to:]
        elif kind == 5:
            text = text[:at] + chance.choice(_WORST) * chance.choice((3, 50, 400)) + text[at:]
        elif kind == 6:
            text = text.replace(
                chance.choice('{}[]",:'), chance.choice(['"', "'", "", "[", "{", "\u201d"]), 2
            )
        else:
            text = f"{chance.choice(_GOOD)}\n{text}"
        text = text[:100_000] or "x"
    return text


def campaign(work: Path, trials: int, seed: int = 0) -> None:
    rows = {name: Tally(f"outputs: {name}") for name in PARSERS}
    for number, output in enumerate(outputs(trials, seed)):
        what = f"output {number} ({output[:60]!r}..., {len(output):,} characters)"
        for name, parse in PARSERS.items():
            row, began = rows[name], time.process_time()
            row.trials += 1
            try:
                parse(output)
                row.outcomes["read"] += 1
            except ParseFailed:
                row.outcomes["refused"] += 1
            except Exception as error:
                row.note("unnamed", f"{what}: {type(error).__name__}: {error}"[:300])
            if (seconds := time.process_time() - began) > SLOW:
                row.note("hangs", f"{what}: {seconds:.1f} s")

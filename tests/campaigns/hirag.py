"""HiRAG indexes that a model's odd answers made: each can still be changed, and is sound after every change.

A trial builds an index, inserts, deletes and regroups, all with a model that answers oddly, opens the folder
again and changes it with a model that answers well. Odd are: names of existing entities, no entities,
duplicates, huge or blank names, lone surrogates, odd numbers, and broken JSON.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.errors import StratagraphError
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import assert_sound, documents
from tests.campaigns.outputs import mutated
from tests.campaigns.trials import record, tried, turns
from tests.methods.hirag import Answering

MEMBER = re.compile(r"^<member(?:-\w+)?>\n(?:\[\d+\] )?([^:\n]+)", re.MULTILINE)
SURROGATES = ("\ud800", "a\udfffb", "\ud83d\ud83d\ude00", "\\ud83d\ude00", "\ud83d\\ude00", "\\u0000\x00")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "cluster_size": (2, 3),
    "max_cluster": (4, 5, 16),
    "memberships": (1, 2, 3),
    "max_layers": (1, 2, 5),
    "max_community": (2, 6, 24),
    "community_levels": (1, 3),
    "meta_types": (None, ("craft",)),
}


NAMES: dict[str, Callable[[random.Random], str]] = {
    "shared": lambda chance: f"everything {chance.randrange(2)}",
    "new": lambda chance: f"group {chance.randrange(10**6)}",
    "huge": lambda chance: chance.choice(("x", "a b ", "\u6771 ")) * chance.choice((100, 3_000, 40_000)),
    "blank": lambda chance: chance.choice(("", "...", " ", "\u200b", "-")),
    "half": lambda chance: chance.choice(("", NAMES["new"](chance))) + chance.choice(SURROGATES),
}
KINDS = ("existing", *NAMES, "none", "duplicates", "broken", "mixed")


class Odd(Answering):
    """Answers of one kind, the same for a seed and a prompt; of `mixed` each of another kind."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        self._kind, self._seed = kind, seed

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        good = await super().acomplete(prompt, schema=schema)
        chance = random.Random(f"{self._seed} {prompt.encode('utf-8', 'surrogatepass')!r}")
        kind = chance.choice(KINDS[:-1]) if self._kind == "mixed" else self._kind
        asked = schema.__name__ if schema else "text"
        if kind == "broken":
            return mutated(chance) if chance.random() < 0.5 else good[: chance.randrange(len(good))]
        if asked == "SummarySchema":
            members = MEMBER.findall(prompt) or ["ferry"]
            return json.dumps({"entities": _entities(kind, members, chance)})
        if kind == "half" or (self._kind == "mixed" and chance.random() < 0.3):
            return good.replace('"}', f'{json.dumps(chance.choice(SURROGATES))[1:-1]}"}}', 3)
        return good


def _entities(kind: str, members: Sequence[str], chance: random.Random) -> list[dict[str, Any]]:
    """Summary entities of one kind of names, with odd relations from members."""

    def name(kind: str) -> str:
        return chance.choice(members) if kind == "existing" else NAMES[kind](chance)

    if kind == "none":
        return []
    if kind == "duplicates":
        names = [name(chance.choice(("existing", "shared", "new")))] * 3
    else:
        names = [name(kind) for _ in range(chance.choice((1, 1, 2, 3)))]
    return [
        {
            "name": each,
            "type": chance.choice(("", "concept", each[:300])),
            "description": chance.choice(("", "of " + each, NAMES["half"](chance))),
            "members": [
                "|".join(
                    (
                        str(chance.choice((0, -3, 5, 1e300, float("nan"), float("inf")))),
                        chance.choice((str(chance.randrange(20)), name(chance.choice(("existing", *NAMES))))),
                        chance.choice(("", "it is", "\ud800")),
                    )
                )
                for _ in range(chance.randrange(4))
            ],
        }
        for each in names
    ]


def life(folder: Path, kind: str, seed: int) -> None:
    """Build and change an index with odd answers, then with good ones; it is sound after each step."""
    chance = random.Random(seed)
    settings = {name: chance.choice(values) for name, values in SETTINGS.items()}
    count, odd = chance.randrange(3, 16), Odd(kind, seed)
    config = {"max_failures": 1.0, "hirag": settings}
    with sg.build_index(
        documents(count), "hirag", folder, llm=odd, embedder=FakeEmbedder(), config=config, progress=False
    ) as index:
        assert_sound(index, "hirag")
        _change(index, count, chance)
    with sg.open_index(folder, llm=Answering(), embedder=FakeEmbedder()) as index:
        _change(index, count + 10, chance)
        assert index.retrieve("ferry captain", k=8, fill=False).hits


def _change(index: sg.Index, start: int, chance: random.Random) -> None:
    """Insert, delete and regroup in some order. Any error counts: the index must be able to change."""
    steps = [
        partial(index.insert, documents(chance.randrange(1, 5), start=start)),
        partial(index.delete, [chance.choice([*index.documents()])]),
        index.regroup,
    ]
    for step in chance.sample(steps, len(steps)):
        try:
            step()
        except StratagraphError as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        assert_sound(index, "hirag")


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    life(work / "first", "new", seed)  # imports what every trial needs, once
    for number, kind, row in turns("hirag", KINDS, trials):
        folder = work / f"{number}"
        outcome = tried(partial(life, folder, kind, 1000 * seed + number))
        record(row, outcome, f"seed {1000 * seed + number}")
        shutil.rmtree(folder, ignore_errors=True)

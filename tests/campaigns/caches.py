"""Processes that build indexes at once over one cache of calls; some are killed, and answers altered."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.store.calls import SqliteCalls
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Tally, answers, documents, record, tried

PROCESSES = 3


class Scribe:
    """A model that answers with a digest of the prompt, so that one to another prompt is told."""

    name = "scribe"

    def complete(self, prompt: str) -> str:
        """The answer to a prompt, always the same; noted in a file where one is named."""
        time.sleep(0.002)
        if log := os.environ.get("STRATAGRAPH_CAMPAIGN_LOG"):
            with open(log, "a") as file:
                file.write(prompt_digest(prompt) + "\n")
        return f"Digest {prompt_digest(prompt)} sums up some notes about the Aurora."


def prompt_digest(prompt: str) -> str:
    """A short digest of a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def build(path: str, cache: str, first: int) -> None:
    """An index of notes that overlap with those of other processes."""
    made = sg.build_index(
        documents(first, first + 14),
        "lshtree",
        path,
        llm=Scribe(),
        embedder=FakeEmbedder(),
        cache=cache,
        progress=False,
        config={"lshtree": {"min_cluster": 2, "max_cluster": 4, "min_level": 3}},
    )
    made.close()


def _started(path: Path, cache: Path, first: int) -> ForkProcess:
    process = get_context("fork").Process(target=_build_and_log, args=(path, cache, first))
    process.start()
    return process


def _build_and_log(path: Path, cache: Path, first: int) -> None:
    os.environ["STRATAGRAPH_CAMPAIGN_LOG"] = str(path.parent / "log")
    build(str(path), str(cache), first)


def _seen(path: Path, cache: Path) -> dict[str, Any]:
    with sg.open_index(path, llm=Scribe(), embedder=FakeEmbedder(), cache=cache) as index:
        return {"answers": answers(index), "verify": index.verify()}


def _flip(cache: Path, chance: random.Random) -> None:
    """Alter an answer below its checksum."""
    with closing(sqlite3.connect(cache)) as connection, connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM calls")]
        if numbers:
            sql = "UPDATE calls SET answer = replace(answer, 'Digest', 'digest') WHERE number = ?"
            connection.execute(sql, (chance.choice(numbers),))


def campaign(work: Path, trials: int, seed: int = 10) -> None:
    """In each trial three processes build at once; what they make must be what each makes alone."""
    row, chance = Tally("one cache, three processes"), random.Random(seed)
    starts = [5 * number for number in range(PROCESSES)]
    right = []
    for first in starts:
        alone = work / f"alone-{first}"
        build(str(alone / "idx"), str(alone / "calls.sqlite"), first)
        right.append(tried(lambda alone=alone: _seen(alone / "idx", alone / "calls.sqlite")).value)
    for number in range(max(1, trials // PROCESSES)):
        place = work / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        cache = place / "calls.sqlite"
        kill = chance.random() < 0.5
        _together(row, place, cache, starts, chance if kill else None, number)
        kept = _answered(cache)
        altered = chance.random() < 0.5 and cache.exists()
        if altered:
            _flip(cache, chance)
            kept = set()
        (place / "log").unlink(missing_ok=True)
        _together(row, place, cache, starts, None, number)  # again, over what was killed
        asked = (place / "log").read_text().split() if (place / "log").exists() else []
        if kept & set(asked):
            row.note("silent", f"trial {number}: {len(kept & set(asked))} answered calls were paid again")
        for first, wanted in zip(starts, right, strict=True):
            outcome = tried(partial(_seen, place / f"idx-{first}", cache))
            record(
                row,
                outcome,
                f"trial {number}, {first}",
                lambda value, wanted=wanted: value != wanted and f"another index; {value['verify']}",
            )
        problems = SqliteCalls(cache).check()
        if len(problems) > altered:  # what nobody needed again stays, and is told
            row.note("silent", f"trial {number}: {problems[:3]}")


def _together(
    row: Tally, place: Path, cache: Path, starts: list[int], chance: random.Random | None, number: int
) -> None:
    """Build all at once; with `chance`, kill one of them at some moment."""
    running = [_started(place / f"idx-{first}", cache, first) for first in starts]
    if chance is not None:
        time.sleep(chance.uniform(0.05, 1.0))
        chance.choice(running).kill()
    for each in running:
        each.join(timeout=120)
        if each.exitcode is None:
            each.kill()
            row.note("hangs", f"trial {number}")
        elif each.exitcode not in (0, -signal.SIGKILL):
            row.note("unnamed", f"trial {number}: ended with {each.exitcode}; its error is above")


def _answered(cache: Path) -> set[str]:
    """Digests of the prompts whose answers the cache holds."""
    if not cache.exists():
        return set()
    with closing(sqlite3.connect(cache)) as connection:
        try:
            found = [answer for (answer,) in connection.execute("SELECT answer FROM calls")]
        except sqlite3.OperationalError:  # killed before the tables were made
            return set()
    return {answer.split()[1] for answer in found}

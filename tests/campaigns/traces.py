"""Documents that come, change and go in random order: what is gone must be in no byte of the folder."""

from __future__ import annotations

import random
from pathlib import Path

import stratagraph as sg
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Tally
from tests.store.support import everything_in


def _secret(number: int, version: int) -> str:
    return f"secret{number:03}x{version:04}"


def campaign(work: Path, trials: int, seed: int = 8) -> None:
    """Change a folder at random, and look for every text that was deleted or replaced."""
    row = Tally("deleted and replaced texts")
    chance, path = random.Random(seed), work / "idx"
    versions: dict[int, int] = {}
    gone: set[str] = set()
    sg.build_index(
        [sg.Document("stays", "This note stays here.")],
        "lshtree",
        path,
        embedder=FakeEmbedder(),
        progress=False,
    ).close()
    for number in range(trials):
        with sg.open_index(path, embedder=FakeEmbedder()) as index:
            if versions and chance.random() < 0.4:
                chosen = chance.sample(sorted(versions), min(len(versions), chance.choice((1, 2, 5))))
                index.delete([f"doc-{each}" for each in chosen])
                gone |= {_secret(each, versions.pop(each)) for each in chosen}
            else:
                chosen = chance.sample(range(40), chance.choice((1, 3, 8)))
                gone |= {_secret(each, versions[each]) for each in chosen if each in versions}
                versions |= {each: number for each in chosen}
                index.insert([_document(each, number, chance) for each in chosen])
        _remember(path, chance)
        row.trials += 1
        found = everything_in(path)
        if left := [secret for secret in gone if secret.encode() in found]:
            row.note("silent", f"step {number}: {len(left)} texts are left, such as {left[0]}")
            gone -= set(left)
    row.outcomes["texts gone"] = len(gone)


def _document(number: int, version: int, chance: random.Random) -> sg.Document:
    text = f"{_secret(number, version)} is kept at the pier. " * chance.choice((1, 5, 60))
    return sg.Document(f"doc-{number}", text, {"note": _secret(number, version)})


def _remember(path: Path, chance: random.Random) -> None:
    """Answers of a model that went over some of the chunks."""
    folder = IndexFolder.open(path)
    snapshot = folder.snapshot()
    for _ in range(5):
        rows = sorted(chance.sample(range(snapshot.size), min(3, snapshot.size)))
        texts = snapshot.texts(rows)
        key = str(chance.random())
        folder.calls.put(key, " ".join(texts) * 3, task="t", model="m", sources=snapshot.ids(rows))
    folder.close()

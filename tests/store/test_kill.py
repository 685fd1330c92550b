"""A child process is killed at random points of a scripted series of writes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from stratagraph.store.folder import IndexFolder
from tests.store.support import files_holding, fill, manifest, publish

KILLS = 12
CHILD = """
import sys
from pathlib import Path
from tests.store.test_kill import write_for_ever
write_for_ever(Path(sys.argv[1]))
"""


def write_for_ever(path: Path) -> None:
    folder = IndexFolder.create(path)
    print("ready", flush=True)
    while True:
        write(folder)


def write(folder: IndexFolder) -> None:
    """Replace the only changing document by one whose texts name the new generation."""
    with folder.writer("insert") as staging:
        number = folder.generation + 1
        texts = [f"secret of {number:06}, {part}" for part in range(40)]
        fill(staging, {"changing": texts, "same": ["s"]})
        for row in staging.row_of(staging.ids(range(40))).values():
            identity = staging.ids([row])[0]
            folder.calls.put(
                identity, f"answer with secret of {number:06}", task="t", model="m", sources=[identity]
            )
        staging.publish(manifest())


def test_the_last_published_generation_survives_every_kill(tmp_path: Path) -> None:
    path = tmp_path / "idx"
    folder = IndexFolder.create(path)
    publish(folder, {"same": ["s"]})
    began = time.perf_counter()
    write(folder)
    usual = time.perf_counter() - began  # seconds for a generation
    folder.close()  # reading an SQLite file's bytes, as below, drops the locks that this process has on it
    dice = random.Random(20)
    seen: set[int] = set()
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(dice.uniform(0.0, 2 * usual))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()

        folder = IndexFolder.open(path)
        assert folder.verify() == []
        generation = folder.generation
        if generation in seen:
            usual *= 1.5  # the machine is slower now than when we measured
        seen.add(generation)
        if generation > 1:
            assert folder.snapshot().texts([0]) == [f"secret of {generation:06}, 0"]
        with folder.writer("look"):  # recovers
            pass
        assert [entry.name for entry in (path / "generations").iterdir()] == [str(generation)]
        folder.close()
        for gone in range(2, generation):
            assert files_holding(path, f"secret of {gone:06}") == []
    assert len(seen) > 2

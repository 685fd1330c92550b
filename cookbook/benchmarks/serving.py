"""How fast `stratagraph serve` answers: requests a second of several clients, and the page's first paint.

    python cookbook/benchmarks/serving.py --passages 100000 --clients 8 --seconds 20 --paint

An index of made-up logbooks is built (or taken from --index), a server is started on a free port of this
machine, and clients ask it as fast as they can. "Beyond the search" is what a client waits for beyond the
time that the search itself took. --paint opens the page in Chromium, where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import stratagraph as sg

ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-c", "from stratagraph.cli.main import main; main()", "serve"]
NAMES = [
    f"{a}{b}" for a in ("Al", "Ber", "Cor", "Dun", "El", "Fen", "Gar") for b in ("a", "win", "mond", "is")
]
_SYLLABLES = ("os", "bre", "win", "ha", "pen", "mar", "tor", "el", "fir", "gol", "lun", "sed")
PLACES = ["".join(parts).title() for parts in product(_SYLLABLES, repeat=3)]  # so many that none is a hub
THINGS = ["ferry", "lamp", "bell", "crate of salt", "rope", "barrel of tar", "letter", "sail"]


def passages(count: int) -> Iterator[sg.Document]:
    """Made-up entries of logbooks."""
    chance = random.Random(7)
    for number in range(count):
        one, other = f"{chance.choice(NAMES)} {chance.choice(PLACES)}son", chance.choice(PLACES)
        thing, witness = chance.choice(THINGS), chance.choice(NAMES)
        text = f"On day {number} {one} took a {thing} to {other}, {witness} watched."
        yield sg.Document(f"log-{number:06}", text, {"year": 1800 + number % 100})


def questions() -> Iterator[str]:
    """As many as wanted, nearly none twice."""
    chance = random.Random()
    while True:
        thing, place, day = chance.choice(THINGS), chance.choice(PLACES), chance.randrange(10**6)
        yield f"Who took a {thing} to {place} on day {day}?"


@contextmanager
def served(index: Path) -> Iterator[tuple[str, int]]:
    """The address of a server, and the number of its process."""
    command = [*SERVE, str(index), "--embedder", "hashing", "--port", "0", "--rate", "100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("page: ").strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(process: int) -> float:
    """Seconds of CPU that a process has used; nothing is known of it where there is no /proc."""
    path = Path(f"/proc/{process}/stat")
    if not path.exists():
        return float("nan")
    user, system = path.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def ask(address: str, question: str) -> tuple[float, float]:
    """Seconds that a client waits, and those of the search itself."""
    body = json.dumps({"question": question, "k": 10}).encode()
    request = urllib.request.Request(
        f"{address}api/search", body, {"content-type": "application/json"}, method="POST"
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        found = json.load(answer)
    return time.perf_counter() - began, found["seconds"]


def load(address: str, clients: int, seconds: float) -> list[tuple[float, float]]:
    """All requests of clients that ask at the same time."""
    asked: list[tuple[float, float]] = []
    until = time.perf_counter() + seconds

    def client() -> None:
        for question in questions():
            if time.perf_counter() > until:
                return
            asked.append(ask(address, question))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked


def paint(address: str) -> None:
    """First paint, first question and first page of the hierarchy, as a browser has them."""
    sys.path.insert(0, str(ROOT))
    from tests.viz.browser import program, running

    path = program()
    if path is None:
        print("no chromium is installed")
        return
    with running(path) as browser:
        page = browser.open(address)
        first = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        while page.run(first) is None:
            time.sleep(0.02)
        print(f"first paint after {page.run(first):.0f} ms")
        began = time.perf_counter()
        page.run("location.hash = 'browse'")
        while not page.run("document.querySelectorAll('.column li').length"):
            time.sleep(0.005)
        elements = page.run("document.querySelectorAll('*').length")
        print(f"hierarchy listed after {1000 * (time.perf_counter() - began):.0f} ms, {elements} elements")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, help="An index, built with --embedder hashing.")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--paint", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = given.index or Path(folder) / "idx"
        if not index.exists():
            embedder = sg.HashingEmbedder()
            sg.build_index(passages(given.passages), path=index, embedder=embedder, progress=False).close()
        with served(index) as (address, process):
            ask(address, next(questions()))
            if given.paint:
                paint(address)
            for clients in (1, given.clients):
                before = cpu_seconds(process)
                asked = load(address, clients, given.seconds)
                cpu = 1000 * (cpu_seconds(process) - before) / len(asked)
                waited = sorted(1000 * each for each, _ in asked)
                late = waited[len(waited) * 95 // 100]
                beyond = statistics.median(1000 * (total - search) for total, search in asked)
                print(
                    f"{clients} client(s): {len(asked) / given.seconds:.0f} requests a second, "
                    f"{cpu:.1f} ms of the server's CPU each; wait p50 {statistics.median(waited):.0f} ms, "
                    f"p95 {late:.0f} ms, beyond the search p50 {beyond:.0f} ms"
                )


if __name__ == "__main__":
    main()

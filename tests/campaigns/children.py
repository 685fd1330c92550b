"""Each command in a folder full of modules: neither it nor a process that it starts imports one of them.

Silent: a module of the current folder ran. The commands run by a script, as `stratagraph` does.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx

import stratagraph as sg
from tests.campaigns.trials import METHODS, Tally, documents
from tests.test_files import pdf

_HASHING = ("--embedder", "hashing")
_PROCESSES = ("--mapper", "processes", "--workers", "2")
COMMANDS: dict[str, tuple[str, ...]] = {
    "build": ("build", "notes", "--out", "../made", *_PROCESSES),
    "insert": ("insert", ".", "notes", *_PROCESSES, *_HASHING),
    "sync": ("sync", ".", "notes", *_PROCESSES, *_HASHING),
    "estimate": ("estimate", "notes"),
    "query": ("query", ".", "Who steers the Aurora?", *_HASHING),
    "list": ("list", "."),
    "stats": ("stats", "."),
    "verify": ("verify", "."),
    "delete": ("delete", ".", "note-001"),
    "export": ("export", ".", "--format", "jsonl", "--out", "../graph.jsonl"),
    "regroup": ("regroup", "."),
    "compact": ("compact", "."),
    "reembed": ("reembed", ".", *_HASHING),
    "demo": ("demo",),
    "mcp": ("mcp", ".", *_HASHING),
    "serve": ("serve", ".", "--port", "0", *_HASHING),
}
_OTHERS = (
    "click",
    "cloudpickle",
    "fastapi",
    "loky",
    "numpy",
    "sitecustomize",
    "stratagraph",
    "usercustomize",
)
MODULES = sorted({*sys.stdlib_module_names, *_OTHERS})


def _uploaded(process: subprocess.Popen[str]) -> str:
    """Upload a file to a server that starts; the state of the job."""
    assert process.stdout is not None
    lines: list[str] = []
    while "http" not in "".join(lines):
        lines.append(process.stdout.readline())
        if not lines[-1]:
            return f"did not start: {''.join(lines)[-300:]}"
    address = lines[-1].split()[-1]
    close = {"connection": "close"}  # an idle connection may be closed just when it is used again
    with httpx.Client(base_url=address, timeout=60, headers=close) as client:
        client.put("/api/files/x.pdf", content=pdf(["The ferry leaves at seven."])).raise_for_status()
        for _ in range(600):
            (job,) = client.get("/api/jobs").json()
            if job["state"] in ("done", "failed"):
                return str(job["state"])
            time.sleep(0.1)
    return "waiting"


def ran(work: Path, base: Path, name: str, chance: random.Random) -> tuple[str, list[str]]:
    """Run a command in a folder with modules; how it ended, and the modules that ran."""
    shutil.rmtree(work, ignore_errors=True)
    here, marks = work / "here", work / "marks"
    shutil.copytree(base, here)
    marks.touch()
    for module in MODULES:
        (here / f"{module}.py").write_text(
            f"with open({str(marks)!r}, 'a') as file:\n    file.write('{module}\\n')\n"
            + chance.choice(("", "raise ImportError\n", "raise SystemExit\n"))
        )
    (here / "notes").mkdir()
    for each in documents(0, 80):
        (here / "notes" / f"{each.id}.txt").write_text(each.text)
    (here / "notes" / "paper.pdf").write_bytes(pdf(["The ferry leaves Ostra at seven."]))
    script = work / "bin" / "stratagraph"
    script.parent.mkdir()
    script.write_text("from stratagraph.__main__ import main\nmain()\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(sg.__file__).parents[1])}
    environment.pop("PYTHONSAFEPATH", None)
    process = subprocess.Popen(
        [sys.executable, str(script), *COMMANDS[name]],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        if name == "serve":
            ended = _uploaded(process)
        else:
            told, _ = process.communicate(timeout=120)
            ended = "done" if process.returncode == 0 else f"code {process.returncode}: {told[-300:]}"
    finally:
        process.kill()
        process.wait()
    return ended, sorted(set(marks.read_text().split()))


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    base = work / "base"
    with sg.build_index(documents(), METHODS, base, embedder=sg.HashingEmbedder(), progress=False) as index:
        index.insert(documents(8, 10))
    chance = random.Random(seed)
    row = Tally("children: commands in a folder of modules")
    for number in range(trials):
        name = list(COMMANDS)[number % len(COMMANDS)]
        ended, modules = ran(work / "trial", base, name, chance)
        row.trials += 1
        row.outcomes[ended.partition(":")[0]] += 1
        if modules:
            row.note("silent", f"{name} ran {', '.join(modules)} of the current folder")
        if ended != "done":
            row.note("unnamed", f"{name}: {ended}")

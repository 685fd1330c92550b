from __future__ import annotations

import io
import re

import pytest

from stratagraph.models.gate import ModelGate
from stratagraph.operations.progress import LineProgress
from stratagraph.testing import ScriptedChatModel
from tests.models.tasks import TEXT, items


class Terminal(io.StringIO):
    """Says that somebody looks at it."""

    def isatty(self) -> bool:
        return True


async def test_a_pipe_gets_a_line_for_each_stage_that_had_work() -> None:
    out = io.StringIO()
    gate = ModelGate(ScriptedChatModel("fine"), None, progress=LineProgress(out))
    with gate.stage("describe", 8):
        await gate.map(TEXT, items(8))
    with gate.stage("nothing to do", 0):
        pass
    (line,) = out.getvalue().splitlines()
    assert re.fullmatch(r"describe: 8 in \d+\.\d s", line)


def test_a_terminal_gets_one_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("stratagraph.operations.progress.time.monotonic", lambda: now[0])
    out = Terminal()
    progress = LineProgress(out)
    progress.start("extract", 4000)
    for now[0] in (0.05, 10.0, 20.0):
        progress.advance("extract", 1000)
    progress.start("embed", None)
    now[0] = 25.0
    progress.advance("embed", 7)
    progress.finish("extract")
    progress.finish("embed")
    shown = out.getvalue().split("\r")
    assert shown[1].strip() == "extract: 2,000 of 4,000 (50 %), 200/s, 10 s left"
    assert shown[2].strip() == "extract: 3,000 of 4,000 (75 %), 150/s, 6.7 s left"
    assert shown[3].strip() == "embed ..."
    assert shown[4].strip() == "embed: 7, 1.4/s"
    assert shown[5].endswith("\n")
    assert out.getvalue().count("\n") == 2
    assert all(len(part.rstrip("\n")) < 80 for part in shown)


def test_a_long_stage_is_told_of_in_a_log_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("stratagraph.operations.progress.time.monotonic", lambda: now[0])
    out = io.StringIO()
    progress = LineProgress(out)
    progress.start("extract", 7200)
    for second in range(1, 31):
        now[0] = float(second)
        progress.advance("extract")
    progress.finish("extract")
    told = out.getvalue().splitlines()
    assert len(told) == 4
    assert told[0] == "extract: 10 of 7,200 (0 %), 1.0/s, 1 h 59 min left"
    assert told[-1] == "extract: 30 in 30 s"
    assert "\r" not in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_stages_share_one_line_in_a_notebook() -> None:
    kernel = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    progress = LineProgress(out := kernel())
    for stage, count in (("read", 3), ("publish", 0)):
        progress.start(stage, count or None)
        progress.advance(stage, count)
        progress.finish(stage)
    assert "\n" not in out.getvalue()
    shown = [line.split(":")[0].strip() for line in out.getvalue().split("\r")[1:]]
    assert shown == ["read", "publish ...", "publish"]


def test_a_build_without_a_model_shows_what_it_works_at() -> None:
    import stratagraph as sg

    out = Terminal()
    documents = [f"Ada Lund wrote letter {number} to Bremen." for number in range(40)]
    with sg.build_index(documents, embedder=sg.HashingEmbedder(), progress=LineProgress(out)):
        pass
    shown = [part.strip() for part in out.getvalue().split("\r")]
    assert {"merge ...", "graph ...", "store ...", "publish ..."} <= set(shown)
    assert any(part.startswith("extract: 40 in ") for part in shown)
    *_, last, cleared, rest = out.getvalue().split("\r")
    assert (last.strip(), cleared.strip(), rest) == ("publish ...", "", "")

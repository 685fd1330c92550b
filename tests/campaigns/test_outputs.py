"""The campaign of fuzzed outputs, small."""

from __future__ import annotations

from tests.campaigns.outputs import run


def test_fuzzed_outputs_are_read_or_refused() -> None:
    _, wrong, _ = run(400, seed=7)
    assert wrong == []

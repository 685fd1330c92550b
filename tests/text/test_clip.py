from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratagraph.text.sentences import clip


def words(text: str) -> int:
    return len(text.split())


@given(st.text(max_size=80), st.integers(0, 20))
def test_clip_keeps_a_beginning_within_the_bound(text: str, bound: int) -> None:
    cut = clip(text, bound, words)
    assert text.startswith(cut)
    assert words(cut) <= bound or cut == text

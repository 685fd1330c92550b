from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph._sentences import clip
from stratagraph.results import Hit, Retrieval, build_context


def words(text: str) -> int:
    return len(text.split())


def hit(text: str, name: str = "h") -> Hit:
    return Hit(name, "chunk", 0, text, 1.0, (name,), (f"doc-{name}",))


def test_hits_are_numbered_and_cited() -> None:
    context = build_context([hit("one two", "a"), hit("three", "b")], 100, words)
    assert context.text == "[1] one two\n\n[2] three"
    assert [(c.number, c.id, c.documents) for c in context.citations] == [
        (1, "a", ("doc-a",)),
        (2, "b", ("doc-b",)),
    ]


def test_repeats_are_left_out() -> None:
    context = build_context([hit("one two three"), hit("two three"), hit("one two three")], 100, words)
    assert len(context.citations) == 1


def test_what_does_not_fit_is_skipped_and_shorter_ones_still_come() -> None:
    context = build_context([hit("a b c"), hit("x " * 50), hit("d")], 12, words)
    assert context.text == "[1] a b c\n\n[3] d"


def test_a_best_hit_that_is_too_long_is_cut() -> None:
    context = build_context([hit("word " * 500)], 20, words)
    assert 0 < context.tokens <= 20


@given(st.lists(st.text(alphabet="ab c", max_size=40), max_size=8), st.integers(1, 30))
def test_the_budget_holds(texts: list[str], budget: int) -> None:
    context = build_context([hit(text, str(i)) for i, text in enumerate(texts)], budget, words)
    assert context.tokens <= budget


@given(st.text(max_size=80), st.integers(0, 20))
def test_clip_keeps_a_beginning_within_the_bound(text: str, bound: int) -> None:
    cut = clip(text, bound, words)
    assert text.startswith(cut)
    assert words(cut) <= bound or cut == text


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        Retrieval("q", "m", "nodes", (hit("a"),)).context(0)

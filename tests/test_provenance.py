from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratarag.provenance import allowed_under, contribute, orphaned, subtract

chunk_sets = st.lists(st.sampled_from("abcdefgh"), max_size=6)


@given(chunk_sets, chunk_sets, chunk_sets)
def test_contribution_is_a_union(one: list[str], two: list[str], three: list[str]) -> None:
    assert contribute(one, two) == contribute(two, one)
    assert contribute(contribute(one, two), three) == contribute(one, contribute(two, three))
    assert contribute(one, one) == tuple(sorted(set(one)))


@given(chunk_sets, chunk_sets, chunk_sets)
def test_deleting_twice_equals_deleting_both(sources: list[str], one: list[str], two: list[str]) -> None:
    assert subtract(subtract(sources, one), two) == subtract(sources, set(one) | set(two))


@given(chunk_sets, chunk_sets)
def test_a_summary_is_allowed_only_if_all_its_members_are(left: list[str], allowed: list[str]) -> None:
    assert allowed_under(left, set(allowed)) == (bool(left) and set(left) <= set(allowed))


def test_a_record_goes_with_its_last_source() -> None:
    assert not orphaned(("a", "b"), {"a"})
    assert orphaned(("a", "b"), {"a", "b"})

"""A few of the hostile arrays of `arrays.py`: an answer or an error with a name, never a crash or a hang."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.campaigns import arrays

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork and bounds on a process")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("hostile") / "idx"
    arrays.elsewhere(f"build({str(path)!r})")
    return str(path)


def test_every_alteration_ends_in_an_answer_or_a_named_error(folder: str) -> None:
    bad, counts = [], Counter[str]()
    for each in arrays.tried(folder, 20, seed=1):
        counts[each.outcome] += 1
        if each.outcome not in ("named", "same", "different"):
            bad.append(str(each))
    assert not bad
    assert counts["named"] > 8


@pytest.mark.parametrize(
    ("part", "array", "kind"),
    [
        ("graph", "walk.indices", "one greatest"),
        ("graph", "merge.names.rows", "one greatest"),
        ("graph", "merge.terms.starts", "64 bits"),
        ("graph", "merge.spellings.starts", "one row fewer"),
        ("graph", "walk.indptr", "one -1 or NaN"),
        ("graph", "names.distinct_lengths", "all least"),
        ("noderag", "walk.indptr", "64 bits"),
        ("noderag", "walk.indices", "one -1 or NaN"),
        ("hirag", "layered.indices", "one greatest"),
        ("hirag", "layered.indptr", "64 bits"),
        ("archrag", "index.layer0.links", "one greatest"),
        ("corpus", "chunk_documents", "one -1 or NaN"),
        ("hirag", "drift", "no rows"),
        ("noderag", "drift", "2-d"),
        ("archrag", "drift", "0-d"),
        ("graph", "units.vectors", "missing"),
    ],
)
def test_altered_arrays_are_named(folder: str, part: str, array: str, kind: str) -> None:
    (each,) = arrays.tried(folder, [arrays.Alteration(part, array, kind, 0)])
    assert each.outcome == "named", str(each)
    assert each.detail.startswith("Damaged")
    assert array.split(".", 1)[-1] in each.detail

"""The full check names everything that is wrong, not only what it meets first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import NotAnIndex
from stratagraph.store.folder import IndexFolder
from stratagraph.store.layout import made_layout
from stratagraph.store.verify import verify_folder
from tests.store.support import METHOD, fill, manifest, publish

PART = f"parts/{METHOD}.arrays"


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    made = IndexFolder.create(tmp_path / "idx")
    publish(made, {"a": ["x", "y"], "b": ["z"]})
    made.calls.put("k", "v", task="t", model="m", sources=())
    made.calls.close()
    return made


def flip(path: Path) -> None:
    """Alter the middle of a file and keep its size."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def names(problems: list[str]) -> list[str]:
    return sorted(problem.partition(":")[0] for problem in problems)


def test_every_problem_is_reported(folder: IndexFolder) -> None:
    generation = folder.path / "generations" / "1"
    (generation / "vectors/1-0.arrays").unlink()
    (generation / PART).unlink()
    flip(generation / "corpus/chunks/1-0.arrays")
    (generation / "chunks.arrays").write_bytes(b"")
    (folder.path / "calls.sqlite").write_bytes(b"no database" * 100)
    problems = folder.verify()
    calls = [problem for problem in problems if "calls.sqlite" in problem]
    assert len(calls) == 1
    expected = ["chunks.arrays", "corpus/chunks/1-0.arrays", PART, "vectors/1-0.arrays"]
    assert names([problem for problem in problems if problem not in calls]) == sorted(expected)
    assert sum(problem.endswith(": missing") for problem in problems) == 2
    assert verify_folder(folder.path) == problems


def test_a_damaged_file_does_not_hide_the_wrong_meaning_of_another(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    with folder.writer("build") as staging:
        fill(staging, {"a": ["x", "y"]})
        staging.vectors[1, 2] = np.nan
        staging.publish(manifest())
    (tmp_path / "generations" / "1" / PART).unlink()
    assert folder.verify() == [f"{PART}: missing", "vectors/1-0.arrays: holds values that no unit vector has"]


def test_a_lost_manifest_does_not_hide_a_damaged_cache(folder: IndexFolder) -> None:
    (folder.path / "generations" / "1" / "manifest.json").unlink()
    (folder.path / "calls.sqlite").write_bytes(b"no database" * 100)
    manifest_lost, cache_damaged = folder.verify()
    assert manifest_lost.endswith("manifest.json: missing")
    assert "calls.sqlite" in cache_damaged


def test_a_file_that_leads_out_of_the_folder_is_a_problem(folder: IndexFolder, tmp_path: Path) -> None:
    vectors = folder.path / "generations" / "1" / "vectors/1-0.arrays"
    vectors.rename(tmp_path / "outside.npy")
    vectors.symlink_to(tmp_path / "outside.npy")
    assert folder.verify() == [f"{vectors}: a link, where a file of the index should be"]


def test_a_folder_need_not_open_to_be_checked(folder: IndexFolder, tmp_path: Path) -> None:
    assert verify_folder(folder.path) == []
    (folder.path / "CURRENT").write_text("x")
    (problem,) = verify_folder(folder.path)
    assert "CURRENT" in problem
    made_layout(tmp_path / "begun")
    for path in (tmp_path / "begun", tmp_path / "nowhere"):
        with pytest.raises(NotAnIndex):
            verify_folder(path)

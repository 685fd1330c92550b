"""What the system refuses: a full disk, files that may not grow or be written, descriptors, locks."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import StoreError
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.folder import IndexFolder
from stratagraph.types.built import Holds
from tests.store.support import contents, publish

SMALL = 2_000_000


def build_until_full(path: Path) -> None:
    folder = IndexFolder.create(path)
    texts = [f"{number} " + "x" * 1000 for number in range(4000)]
    publish(folder, {"b": texts})


def put_until_full(calls: SqliteCalls) -> None:
    for number in range(4000):
        calls.put(str(number), "x" * 1000, task="t", model="m", sources=())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_leaves_the_previous_generation(small_disk: Path) -> None:
    folder = IndexFolder.create(small_disk / "idx")
    publish(folder, {"a": ["x"]})
    seen = contents(folder.snapshot())
    with pytest.raises(OSError, match="scratch") as raised:
        build_until_full(small_disk / "idx")
    assert raised.value.errno == errno.ENOSPC
    with folder.writer("insert") as staging:
        staging.assemble(removed=())
        with pytest.raises(OSError, match=r"No space left.*scratch\.arrays"):
            staging.create_vectors(10_000_000, copy_known=False)
        with pytest.raises(OSError, match=r"No space left.*parts.m\.arrays"):
            staging.put_part("m", [], Holds.CONTENT.of({"big": np.zeros(1_000_000)}))
    with pytest.raises(OSError, match=r"calls\.sqlite") as raised:
        put_until_full(folder.calls)
    assert raised.value.errno == errno.ENOSPC
    assert folder.interrupted() is not None
    again = IndexFolder.open(small_disk / "idx")
    assert contents(again.snapshot()) == seen
    assert again.verify() == []
    assert again.calls.get("0") == "x" * 1000
    again.close()
    folder.close()


def test_a_limit_on_file_size_is_an_error_too(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))

    code = (
        "import sys; from pathlib import Path; from tests.store.test_refusals import build_until_full\n"
        "try: build_until_full(Path(sys.argv[1]))\n"
        "except OSError as error: print(error)"
    )
    root = Path(__file__).resolve().parents[2]
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "idx")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "scratch" in child.stdout
    folder = IndexFolder.create(tmp_path / "idx")
    assert publish(folder, {"a": ["x"]}) == 1
    assert folder.verify() == []


def test_a_cache_that_cannot_be_written_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calls.sqlite"
    calls = SqliteCalls(path)
    calls.put("k", "v", task="t", model="m", sources=())
    calls.close()

    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "read-only", str(path))

    monkeypatch.setattr("stratagraph.store.calls.connect_shared", refuse)
    frozen = SqliteCalls(path)
    with pytest.warns(UserWarning, match="not cached"):
        assert frozen.get("k") == "v"
    frozen.put("new", "v", task="t", model="m", sources=())
    assert frozen.get("new") is None


def test_a_file_system_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = IndexFolder.create(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StoreError, match="has no locks"), folder.writer("insert"):
        pass

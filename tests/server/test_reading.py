"""Uploads: the process that reads them, the rows that a file owns, and what killed servers leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stratagraph.server import changing
from stratagraph.server.state import Job, Uploads
from tests.server.test_api import Client, finished


def _job() -> Job:
    return Job(1, "add", "upload")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and CPU are those of Linux")
def test_reading_that_needs_too_much_memory_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "upload.json"
    path.write_text("[" + "[],[[]]," * 6_000_000 + "[]]")
    with pytest.raises(ValueError, match=r"big\.json: reading it needs more than 500 MB of memory"):
        changing.read_upload(path, "big.json", _job())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and CPU are those of Linux")
def test_reading_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratagraph.ingest.bounded_reading.CPU_SECONDS", 1)
    path = tmp_path / "upload.json"
    path.write_text("[]")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "sitecustomize.py").write_text(
        "import json, sys\nif 'bounded_reading' in ' '.join(sys.orig_argv):\n    loads = json.loads\n"
        "    def slow(text, **options):\n"
        "        while isinstance(text, str): pass\n"
        "        return loads(text)\n"
        "    json.loads = slow\n"
    )
    with pytest.raises(ValueError, match=r"slow\.json: reading it took more than \d+ s"):
        changing.read_upload(path, "slow.json", _job())


def test_uploads_of_a_killed_server_are_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    living = Uploads()
    kept = living.folder()
    script = (
        "import os, tempfile; from pathlib import Path; from stratagraph.server.state import Uploads\n"
        f"tempfile.tempdir = {str(tmp_path)!r}; uploads = Uploads()\n"
        "(uploads.folder() / 'secret.txt').write_text('secret'); os.abort()"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGABRT
    assert list(tmp_path.rglob("secret.txt"))
    Uploads().close()
    assert not list(tmp_path.rglob("secret.txt"))
    assert kept.is_dir()
    living.close()
    assert not kept.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links are those of POSIX")
def test_links_among_temporary_folders_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").write_text("mine")
    (tmp_path / "stratagraph-upload-link").symlink_to(tmp_path / "own")
    Uploads().close()
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["letter.txt"]


def test_a_table_that_is_uploaded_again_loses_the_rows_that_it_lacks(client: Callable[..., Client]) -> None:
    server = client()
    before = "id,text\na,Ida Fenn painted the lighthouse.\nb,Olaf Strand left.\n"
    finished(server, server.put("/api/files/table.csv", content=before.encode()).json())
    after = "id,text\na,Ida Fenn painted the lighthouse.\n"
    job = finished(server, server.put("/api/files/table.csv", content=after.encode()).json())
    assert job["report"]["deleted"] == ["table.csv:b"]


def test_an_upload_replaces_the_file_of_its_name_in_a_folder(client: Callable[..., Client]) -> None:
    server = client()
    finished(server, server.put("/api/files/notes%2Fida.txt", content=b"Ida Fenn is a painter.").json())
    job = finished(server, server.put("/api/files/ida.txt", content=b"Ida Fenn is a sailor.").json())
    assert (job["report"]["added"], job["report"]["updated"]) == ([], ["notes/ida.txt"])


def test_an_upload_owns_its_own_rows_alone(client: Callable[..., Client]) -> None:
    server = client()
    other = {"id": "mine", "text": "Ida Fenn keeps the light.", "metadata": {"source": "table.csv"}}
    finished(server, server.post("/api/documents", json=[other]).json())
    finished(server, server.put("/api/files/table.csv", content=b"id,text\na,Ida Fenn paints.\n").json())
    job = finished(server, server.put("/api/files/table.csv", content=b"id,text\n").json())
    assert job["report"]["deleted"] == ["table.csv:a"]
    assert server.get("/api/document", params={"id": "mine"}).status_code == 200


def test_nothing_in_the_current_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("json", "resource", "csv", "zipfile", "email"):
        (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()\nraise SystemExit\n")
    (tmp_path / "upload.json").write_text('[{"a": 1}]')
    monkeypatch.chdir(tmp_path)
    documents, whole = changing.read_upload(Path("upload.json"), "a.json", _job())
    assert ([each.text for each in documents], whole) == (["a: 1."], True)
    assert not (tmp_path / "ran").exists()

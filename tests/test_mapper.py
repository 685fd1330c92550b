"""A build that is shared among threads or processes is the same build, whatever happens to the workers."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.errors import BudgetExceeded, EmbedderError, MapperError
from stratagraph.mapping import in_order
from stratagraph.methods import NAMES
from stratagraph.testing.contract import Caller, CountingModel, documents
from stratagraph.types.protocols import Mapper

EMBEDDER = sg.HashingEmbedder(64)
LONG = [sg.Document(d.id, f"{d.text} " * 20, {"n": n % 3}) for n, d in enumerate(documents(30))]
QUESTION = "What does the lantern of note 3 have to do with the keeper?"


@pytest.fixture(scope="module")
def processes() -> Iterator[Mapper]:
    with sg.mapper("processes", 2) as mapper:
        yield mapper


@pytest.fixture(scope="module")
def embedding_processes() -> Iterator[Mapper]:
    with sg.mapper("processes", 2, embed=True) as mapper:
        yield mapper


def files(folder: Path) -> dict[str, str]:
    """What every file of an index holds, but for its caches."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock" and "sqlite" not in path.name
    }


def answers(index: sg.Index) -> Any:
    return [
        [(hit.id, hit.score) for hit in index.retrieve(QUESTION, method=method).hits]
        for method in index.methods
    ]


@pytest.mark.parametrize(("kind", "mode"), [("threads", "sync"), ("processes", "async")])
def test_the_same_bytes_as_without(kind: str, mode: str, processes: Mapper, tmp_path: Path) -> None:
    where = processes if kind == "processes" else sg.mapper("threads", 3)
    call = Caller(mode)
    given = {"method": list(NAMES), "embedder": EMBEDDER, "progress": False}
    with (
        sg.build_index(LONG, path=tmp_path / "one", **given) as one,
        call(sg, "build_index", LONG, path=tmp_path / "other", mapper=where, **given) as other,
    ):
        assert files(one.path) == files(other.path)
        for index in (one, other):
            index.insert([sg.Document("new", LONG[0].text + " The keeper left."), *LONG[3:9]])
            index.delete(["doc-004", LONG[2].id], missing_ok=True)
        assert files(one.path) == files(other.path)
        assert answers(one) == answers(other)


class Deadly:
    """Ends its process the first time that it is used, or as often as it is told to."""

    name = "deadly"

    def __init__(self, mark: Path, always: bool = False) -> None:
        self.mark = mark
        self.always = always

    def embed_documents(self, texts: list[str]) -> Any:
        if self.always or not self.mark.exists():
            with self.mark.open("a") as file:
                file.write("died\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return EMBEDDER.embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        return EMBEDDER.embed_query(text)


def test_a_killed_worker_loses_nothing_and_repeats_no_call(
    embedding_processes: Mapper, tmp_path: Path
) -> None:
    model, undisturbed = CountingModel(), CountingModel()
    given = {"method": "lshtree", "config": {"extraction": {"mode": "llm"}}, "progress": False}
    (tmp_path / "mark").write_text("it has died")
    with sg.build_index(LONG[:20], embedder=Deadly(tmp_path / "mark"), llm=undisturbed, **given) as index:
        expected = files(index.path)
    (tmp_path / "mark").unlink()
    embedder = Deadly(tmp_path / "mark")
    with sg.build_index(
        LONG[:20], embedder=embedder, llm=model, mapper=embedding_processes, **given
    ) as index:
        assert (tmp_path / "mark").exists()
        assert sorted(model.prompts) == sorted(undisturbed.prompts)
        assert files(index.path) == expected


def test_workers_that_die_again_and_again_end_the_build_which_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratagraph.mapping.processes.DEATHS", 2)
    mark, model = tmp_path / "mark", CountingModel()
    given = {"method": "lshtree", "path": tmp_path / "idx", "llm": model, "progress": False}
    with sg.mapper("processes", 1, embed=True) as where:
        with pytest.raises(MapperError, match=r"2 workers died .* the same batch .*SIGKILL.* fewer workers"):
            sg.build_index(LONG[:20], embedder=Deadly(mark, always=True), mapper=where, **given)
        with sg.build_index(LONG[:20], embedder=Deadly(mark), mapper=where, **given) as index:
            assert index.stats()["documents"] == 20
    assert len(set(model.prompts)) == len(model.prompts)


class Refusing:
    name = "refusing"

    def embed_documents(self, texts: list[str]) -> Any:
        raise ValueError("not today")

    def embed_query(self, text: str) -> Any:
        return [1.0]


class Client(Refusing):
    def __init__(self) -> None:
        self.session = {"lock": threading.Lock()}


def test_what_cannot_be_sent_is_named_before_anything_is_done(
    processes: Mapper, embedding_processes: Mapper, tmp_path: Path
) -> None:
    path = tmp_path / "idx"
    given: dict[str, Any] = {"embedder": Client(), "mapper": embedding_processes, "progress": False}
    message = r"Client 'refusing'\.session\.lock cannot be sent .*_thread\.lock.*embed=False"
    with pytest.raises(MapperError, match=message):
        sg.build_index(LONG, path=path, **given)
    with pytest.raises(MapperError, match=message):
        sg.build_shards(LONG, path, shards=2, **given)
    assert not path.exists()
    with pytest.raises(EmbedderError, match="not today"):  # not sent unless the caller says so
        sg.build_index(LONG, path=path, embedder=Client(), mapper=processes, progress=False)


def test_an_error_in_a_worker_is_the_functions_own(embedding_processes: Mapper) -> None:
    with pytest.raises(EmbedderError, match="not today"):
        sg.build_index(LONG, embedder=Refusing(), mapper=embedding_processes, progress=False)

    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def odd(batch: int) -> int:
        raise Odd(batch, 2)

    with pytest.raises(MapperError, match=r"Odd: 1 and 2"):  # one that does not unpickle
        list(in_order(embedding_processes, odd, [1, 2]))
    assert list(in_order(embedding_processes, abs, range(-9, 0))) == list(range(9, 0, -1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "processes", "workers": 0}, "at least 1, not 0"),
        ({"kind": "dask"}, "'threads', 'processes', 'ray' or 'ray@ADDRESS', not 'dask'"),
        ({"kind": "processes", "workers": 2.5}, "whole number"),
        ({"kind": "processes", "address": "127.0.0.1:6379"}, "for Ray, not for 'processes'"),
        ({"kind": "processes", "embed": "yes"}, "embed must be True, False or None, not 'yes'"),
    ],
)
def test_wrong_wishes_are_refused(given: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        sg.mapper(**given)
    with pytest.raises(TypeError, match="no 'workers'"):
        sg.build_index(LONG, mapper=5, progress=False)


def test_without_ray_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'stratagraph\[ray\]'"):
        sg.build_index(LONG, mapper="ray", progress=False)


def test_whole_shards_are_built_by_workers(processes: Mapper, tmp_path: Path) -> None:
    given = {"shards": 4, "embedder": EMBEDDER, "progress": False, "method": "noderag"}
    with (
        sg.build_shards(LONG, tmp_path / "one", **given) as one,
        sg.build_shards(LONG, tmp_path / "other", mapper=processes, **given) as other,
    ):
        assert one.last_report.nodes == other.last_report.nodes
        for index in (one, other):
            index.insert(
                [sg.Document(f"new-{n}", f"The keeper has a lantern, number {n}.") for n in range(8)]
            )
        assert files(one.path) == files(other.path)
        assert answers(one) == answers(other)
        assert other.verify() == []


def test_a_shard_that_fails_is_named_and_the_build_resumes(processes: Mapper, tmp_path: Path) -> None:
    given = {"shards": 3, "embedder": EMBEDDER, "progress": False, "mapper": processes}
    twice = [*LONG, sg.Document(LONG[7].id, "Something else.")]
    with pytest.raises(ValueError, match="given twice") as caught:
        sg.build_shards(twice, tmp_path / "root", **given)
    assert any("in shard-" in note or "shard" in note for note in caught.value.__notes__)
    with sg.build_shards(LONG, tmp_path / "root", **given) as index:
        assert index.stats()["documents"] == len(LONG)


def test_shards_with_a_model_are_built_here_on_one_budget(processes: Mapper, tmp_path: Path) -> None:
    model = CountingModel()
    given: dict[str, Any] = {"shards": 3, "embedder": EMBEDDER, "llm": model, "mapper": processes}
    given |= {"method": "lshtree", "progress": False}
    with pytest.raises(BudgetExceeded):
        sg.build_shards(LONG[:20], tmp_path / "root", budget=sg.Budget(calls=5), **given)
    with sg.build_shards(LONG[:20], tmp_path / "root", **given) as index:
        assert index.stats()["documents"] == 20
    assert len(set(model.prompts)) == len(model.prompts)


def test_files_are_read_by_workers(processes: Mapper, tmp_path: Path) -> None:
    for n in range(40):
        (tmp_path / f"{n:02}.txt").write_text(f"Note {n}. " * 2000)
    (tmp_path / "b.md").write_text("# Title\n\nSome text.")
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n2,two\n")
    (tmp_path / "latin.txt").write_bytes("Süß und schön.".encode("latin-1"))
    (tmp_path / "blob.txt").write_bytes(bytes(range(256)) * 20)
    heard: list[list[Any]] = [[], []]
    found = [
        list(
            sg.read_documents(
                tmp_path,
                mapper=where,
                on_skip=lambda *said, own=heard[at]: own.append(said),
                on_warning=lambda *said, own=heard[at]: own.append(said),
            )
        )
        for at, where in enumerate((None, processes))
    ]
    assert found[0] == found[1]
    assert heard[0] == heard[1]
    assert len(heard[0]) == 2


def test_streamed_documents_and_those_with_sections(processes: Mapper, tmp_path: Path) -> None:
    section = sg.Section(0, {"page": 1}), sg.Section(900, {"page": 2})
    given = [
        *LONG[:10],
        sg.StreamedDocument("streamed", lambda: iter([LONG[11].text] * 3), {"from": "a stream"}),
        sg.Document("sections", LONG[12].text, {"title": "Pages"}, section),
        *LONG[13:],
    ]
    chunks = []
    for where in (None, processes):
        with sg.build_index(given, embedder=EMBEDDER, mapper=where, progress=False) as index:
            chunks.append(index.chunks())
    assert chunks[0] == chunks[1]
    assert {chunk.metadata["page"] for chunk in chunks[0]["sections"]} == {1, 2}


SCRIPT = """
import sys
import stratagraph as sg
class Mine(sg.HashingEmbedder):
    pass
docs = [f"Ada {n} has a lantern in Bremen. " * 60 for n in range(60)]
mapper = sg.mapper("processes", 2, embed=True)
index = sg.build_index(docs, embedder=Mine(32), mapper=mapper, progress=False)
print(index.stats()["documents"])
"""


def test_a_script_needs_no_guard_around_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("60\n", "", 0)


KILLED = """
import os, sys
import stratagraph as sg
from stratagraph.mapping import in_order
def work(batch):
    import os, time
    if batch > 1:
        time.sleep(60)
    return os.getpid()
for pid in in_order(sg.mapper("processes", 2), work, range(9)):
    print(pid, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="workers watch their parent on POSIX")
def test_workers_end_when_their_driver_is_killed(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    workers = {int(driver.stdout.readline()) for _ in range(2)}
    driver.kill()
    driver.wait()
    end = time.monotonic() + 30
    while any(map(_alive, workers)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(_alive, workers))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_command_line(tmp_path: Path) -> None:
    lines = [json.dumps({"id": d.id, "text": d.text}) for d in LONG]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    made = []
    for name, options in (("one", []), ("other", ["--mapper", "processes", "--workers", "2"])):
        path = tmp_path / name
        run = ["build", str(tmp_path / "docs.jsonl"), "-o", str(path), "--embedder", "hashing", *options]
        done = CliRunner().invoke(main, run)
        assert done.exit_code == 0, done.output
        made.append(files(path))
    assert made[0] == made[1]
    wrong = CliRunner().invoke(main, ["build", str(tmp_path), "-o", str(tmp_path / "x"), "--workers", "2"])
    assert wrong.exit_code == 2
    assert "--mapper processes --workers 4" in wrong.output


def test_both_frameworks(processes: Mapper, tmp_path: Path) -> None:
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core.schema import Document as LlamaDocument

    from langchain_stratagraph import TreeRetriever
    from llama_index_stratagraph import LSHTreeIndex

    path = tmp_path / "idx"
    texts = [document.text for document in LONG]
    retriever = TreeRetriever.from_documents(
        [LangChainDocument(text, id=f"d{n}") for n, text in enumerate(texts)],
        embedding=EMBEDDER,
        path=path,
        mapper=processes,
    )
    assert len(retriever.invoke(QUESTION, k=4)) == 4
    assert retriever.index._models.mapper is processes
    index = LSHTreeIndex.from_documents(
        [LlamaDocument(text=text, id_=f"d{n}") for n, text in enumerate(texts)],
        llm=False,
        embed_model=EMBEDDER,
        mapper=processes,
    )
    assert len(index.as_retriever(similarity_top_k=4).retrieve(QUESTION)) == 4
    assert index.core._models.mapper is processes

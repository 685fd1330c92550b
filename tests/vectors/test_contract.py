"""What an index promises whose vectors are in a vector store, by stores that need no package more."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.vector_stores import SimpleVectorStore

import stratagraph as sg
from stratagraph import errors
from stratagraph.testing import ScriptedChatModel
from stratagraph.types.built import DOCUMENT_FIELD, INDEX_FIELD, VECTOR_FIELD
from tests.vectors.support import QUESTIONS, Table, built, documents, embedder, found

NEW = sg.Document("hopper", "Grace Hopper read the notes of Ada Lovelace on the Rhine.", {"year": 1940})


def in_memory() -> InMemoryVectorStore:
    return InMemoryVectorStore(DeterministicFakeEmbedding(size=3))


STORES: dict[str, Callable[[], Any]] = {
    "LangChain": in_memory,
    "LlamaIndex": SimpleVectorStore,
    "own": Table,
    "own, without filters": lambda: Table(filters=False),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sg.Index]:
    with built(tmp_path_factory.mktemp("plain") / "idx") as index:
        yield index


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for where a store does not give back at once what was written."""
    monkeypatch.setattr("stratagraph.store.external._PAUSES", (0.0,))


@pytest.fixture(scope="module")
def after_changes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    """What an index that holds its vectors finds after an insert and a delete."""
    with built(tmp_path_factory.mktemp("changed") / "idx") as index:
        return found(changed(index))


def changed(index: sg.Index) -> sg.Index:
    index.insert([NEW])
    index.delete(["person 0", "o'town 3"])
    return index


@pytest.mark.parametrize("name", STORES)
def test_an_index_finds_and_changes_as_one_that_holds_its_vectors(
    name: str, plain: sg.Index, after_changes: list[tuple[str, ...]], tmp_path: Path
) -> None:
    store = STORES[name]()
    index = built(tmp_path / "idx", store)
    assert found(index) == found(plain)
    assert found(index, {"year": {"$lt": 1930}}) == found(plain, {"year": {"$lt": 1930}})
    assert index.vectors is not None
    assert index.verify() == []
    with sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=store) as opened:
        assert found(opened, lambda metadata: metadata.get("year") != 1907) == found(
            plain, lambda metadata: metadata.get("year") != 1907
        )
        assert found(changed(opened)) == after_changes
        assert opened.verify() == []


async def test_async_twins(tmp_path: Path, plain: sg.Index) -> None:
    table, arguments = Table(), {"embedder": embedder(), "progress": False}
    index = await sg.abuild_index(documents(), "lshtree", tmp_path / "idx", vectors=table, **arguments)
    await index.ainsert([NEW])
    await index.adelete("hopper")
    opened = await sg.aopen_index(tmp_path / "idx", embedder=embedder(), vectors=table)
    for question in QUESTIONS:
        assert [hit.id for hit in (await opened.aretrieve(question)).hits] == [
            hit.id for hit in plain.retrieve(question, method="lshtree").hits
        ]
    assert await opened.averify() == []


def test_the_folder_holds_no_vector_and_the_store_no_text(plain: sg.Index, tmp_path: Path) -> None:
    table = Table()
    index = built(tmp_path / "idx", table)
    size = {
        folder: sum(each.stat().st_size for each in _segments(folder)) for folder in (plain.path, index.path)
    }
    assert size[index.path] < size[plain.path] / 8
    told = {text for row in table.rows.values() for text in row["fields"].values()}
    assert not any(word in text for word in ("Ada", "town", "year", "1900") for text in told)
    assert {row["fields"][INDEX_FIELD] for row in table.rows.values()} == {index.vectors["identity"]}


def _segments(folder: Path) -> list[Path]:
    return list(folder.glob("generations/*/vectors/*"))


def test_rows_of_others_stay_and_are_never_found(plain: sg.Index, tmp_path: Path) -> None:
    table = Table(filters=False)
    theirs = table.foreign()
    index = built(tmp_path / "idx", table)
    assert found(index) == found(plain)
    index.delete([document.id for document in documents()[:-1]])
    assert {each: table.rows[each] for each in theirs} == theirs


def test_a_filter_is_put_to_the_store_as_documents(plain: sg.Index, tmp_path: Path) -> None:
    index = built(tmp_path / "idx", table := Table())
    table.asked.clear()
    where = {"year": {"$lt": 1930}}
    assert found(index, where) == found(plain, where)
    named = [where[DOCUMENT_FIELD] for where in table.asked if DOCUMENT_FIELD in where]
    assert 30 in {len(each) for each in named}


def test_two_indexes_share_a_collection(tmp_path: Path) -> None:
    table = Table()
    one, two = (built(tmp_path / name, table, "lshtree") for name in "ab")
    before = found(two)
    one.delete("person 0")
    assert found(two) == before
    assert two.verify() == []


def test_nothing_of_what_is_deleted_stays_in_the_store(tmp_path: Path) -> None:
    table = Table()
    index = built(tmp_path / "idx", table, "lshtree")
    index.insert([NEW])
    rows = len(table.rows)
    index.delete("hopper")
    assert len(table.rows) < rows
    built(tmp_path / "other", fresh := Table(), "lshtree")
    assert table.vectors() == fresh.vectors()


# A store that has not what the folder needs


def _some_removed(table: Table) -> None:
    for identity in list(table.rows)[::2]:
        del table.rows[identity]


def _altered(table: Table) -> None:
    for row in table.rows.values():
        row["fields"][VECTOR_FIELD] = "AAAA" + row["fields"][VECTOR_FIELD][4:]


@pytest.mark.parametrize("asked_before", [False, True], ids=["fresh", "vectors in memory"])
@pytest.mark.parametrize("spoil", [_some_removed, _altered, lambda table: table.rows.clear()])
def test_missing_and_altered_rows_are_found_out_and_made_again(
    spoil: Callable[[Table], None], asked_before: bool, plain: sg.Index, tmp_path: Path
) -> None:
    index = built(tmp_path / "idx", table := Table())
    if asked_before:
        found(index)
    spoil(table)
    assert any("lacks" in line and "or holds others" in line for line in index.verify())
    if not asked_before or not table.rows:
        with pytest.raises(errors.VectorStoreStale, match="verify\\(repair=True\\)"):
            found(index)
    assert index.verify(repair=True) == []
    assert found(index) == found(plain)


@pytest.mark.parametrize("changed", ["emptied", "earlier", "later"])
def test_a_store_of_another_generation_is_refused_and_mended(changed: str, tmp_path: Path) -> None:
    table = Table()
    index = built(tmp_path / "idx", table, "lshtree")
    earlier = dict(table.rows)
    kept = _copied(tmp_path)
    index.insert([NEW])
    before = found(index)
    if changed == "emptied":
        table.rows.clear()
    elif changed == "earlier":
        table.rows = earlier
    folder = kept if changed == "later" else tmp_path / "idx"
    with pytest.raises(errors.VectorStoreStale, match=f"generation {1 if changed == 'later' else 2}"):
        sg.open_index(folder, embedder=embedder(), vectors=table)
    with sg.open_index(folder, embedder=embedder(), vectors=table, repair=True) as mended:
        assert mended.verify() == []
        if changed != "later":
            assert found(mended) == before
    if changed == "later":  # the folder that went on keeps its rows
        assert index.verify() == []


def _copied(folder: Path) -> Path:
    """A folder put back from a backup."""
    import shutil

    shutil.copytree(folder / "idx", folder / "backup")
    return folder / "backup"


def test_what_a_model_wrote_is_not_made_again_without_it(tmp_path: Path) -> None:
    table, model = Table(), ScriptedChatModel()
    with sg.build_index(
        documents(), "lshtree", tmp_path / "idx", model, embedder(), progress=False, vectors=table
    ) as index:
        texts = [node.text for node in index.nodes()]
    table.rows.clear()
    with pytest.raises(errors.VectorStoreError, match="llm="):
        sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=table, repair=True)
    calls = len(model.prompts)
    with sg.open_index(tmp_path / "idx", model, embedder(), vectors=table, repair=True) as index:
        assert [node.text for node in index.nodes()] == texts
    assert len(model.prompts) == calls


@pytest.mark.parametrize(
    ("operation", "name", "call"), [("build", "put", 1), ("delete", "put", 1), ("delete", "delete", 1)]
)
def test_a_killed_process_leaves_what_the_next_one_finishes(
    operation: str, name: str, call: int, tmp_path: Path
) -> None:
    file = tmp_path / "table.json"
    if operation == "delete":
        built(tmp_path / "idx", Table(file), "lshtree").close()
    command = [sys.executable, "-m", "tests.vectors.support", str(tmp_path), name, str(call), operation]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=120)
    assert killed.returncode == -9, killed.stderr.decode()
    table = Table(file)
    if operation == "build":
        index = built(tmp_path / "idx", table, "lshtree")
    else:
        index = sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=table)
        index.delete(["person 0", "o'town 3"], missing_ok=True)
    assert index.verify() == []
    with built(tmp_path / "whole", fresh := Table(), "lshtree") as whole:
        if operation == "delete":
            whole.delete(["person 0", "o'town 3"])
        assert found(index) == found(whole)
    assert len(table.rows) == len(fresh.rows)


def test_rows_that_could_not_be_removed_are_removed_by_the_next_operation(tmp_path: Path) -> None:
    class Refusing(Table):
        refuses = True

        def delete(self, ids: Sequence[str]) -> None:
            if self.refuses:
                raise ConnectionError("connection refused")
            super().delete(ids)

    table = Refusing()
    index = built(tmp_path / "idx", table, "lshtree")
    with pytest.warns(RuntimeWarning, match="the next operation"):
        index.delete("person 0")
    assert found(index)
    assert any("not finished" in line for line in index.verify())
    with pytest.warns(RuntimeWarning, match="the next operation"):
        index.verify(repair=True)
    table.refuses = False
    assert index.verify(repair=True) == []


# Bad stores and bad input


def test_a_store_that_is_down(tmp_path: Path) -> None:
    class Down(Table):
        down = True

        def get(self, ids: Sequence[str]) -> dict[str, Any]:
            if self.down:
                raise ConnectionError("connection refused")
            return super().get(ids)

        def put(self, rows: Sequence[Any]) -> None:
            self.get([])
            super().put(rows)

    table = Down()
    with pytest.raises(errors.VectorStoreError, match="ConnectionError: connection refused"):
        built(tmp_path / "idx", table, "lshtree")
    table.down = False
    built(tmp_path / "idx", table, "lshtree").close()
    table.down = True
    with pytest.raises(errors.VectorStoreError, match="connection refused"):
        sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=table)


def test_a_store_that_is_slow(tmp_path: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    class Slow(Table):
        slow = False

        def search(self, *given: Any) -> list[tuple[str, Any]]:
            if self.slow:
                asked.set()
                over.wait(60)
            return super().search(*given)

    table = Slow()
    built(tmp_path / "idx", table, "lshtree", towns=200).close()  # few rows would be read, not searched for
    limits = sg.Limits(store_timeout=0.5)
    with sg.open_index(tmp_path / "idx", embedder=embedder(), vectors=table, limits=limits) as index:
        table.slow = True
        try:
            with pytest.raises(errors.VectorStoreError, match=r"within 0\.5 s"):
                index.retrieve("Ada Lovelace")
            assert asked.is_set()
        finally:
            over.set()


def test_a_collection_of_another_dimension(tmp_path: Path) -> None:
    class Narrow(Table):
        def put(self, rows: Sequence[Any]) -> None:
            if len(rows[0].vector) != 3:
                raise ValueError(f"expected 3 dimensions, got {len(rows[0].vector)}")

    with pytest.raises(errors.VectorStoreError, match=r"of 128 dimensions.*expected 3 dimensions"):
        built(tmp_path / "idx", Narrow(), "lshtree")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("measure", ["farthest first", "by the first number"])
def test_a_collection_of_another_measure(measure: str, tmp_path: Path) -> None:
    class Other(Table):
        def search(
            self, vector: Sequence[float], k: int, where: Mapping[str, Sequence[str]]
        ) -> list[tuple[str, Any]]:
            found = super().search(vector, len(self.rows), where)
            if measure == "farthest first":
                return found[::-1][:k]
            return sorted(found, key=lambda each: self.rows[each[0]]["vector"][0])[:k]

    with pytest.raises(errors.VectorStoreError, match="cosine, inner product or Euclidean"):
        built(tmp_path / "idx", Other(), "lshtree")
    assert not (tmp_path / "idx" / "CURRENT").exists()


@pytest.mark.usefixtures("hurried")
def test_a_store_that_forgets_or_returns_strange_ids(plain: sg.Index, tmp_path: Path) -> None:
    class Forgetful(Table):
        def get(self, ids: Sequence[str]) -> dict[str, Any]:
            return {}

    class Strange(Table):
        def search(self, *given: Any) -> list[tuple[str, Any]]:
            found = super().search(*given)
            ours = given[2][INDEX_FIELD][0]
            unknown = f"{ours[:8]}-{ours[8:12]}-{ours[12:]}-0000-000000000007"
            return [("none", None), (unknown, "?"), ("", float("nan")), *found]

    with pytest.raises(errors.VectorStoreError, match="does not give back by their ids"):
        built(tmp_path / "forgetful", Forgetful(), "lshtree")
    assert found(built(tmp_path / "strange", Strange())) == found(plain)


def test_a_store_that_finds_few_is_told_of_and_made_up_for(plain: sg.Index, tmp_path: Path) -> None:
    table = Table()
    index = built(tmp_path / "idx", table)
    table.most = 3
    with pytest.warns(RuntimeWarning, match=r"gave 3 rows where .* or rows are gone"):
        assert found(index) == found(plain)


def test_what_is_wrongly_asked_for(tmp_path: Path, plain: sg.Index) -> None:
    with pytest.raises(ValueError, match="needs path"):
        sg.build_index(documents(), vectors=Table(), progress=False)
    with pytest.raises(TypeError, match="not the class Table"):
        sg.build_index(documents(), path=tmp_path / "a", vectors=Table, progress=False)
    with pytest.raises(TypeError, match="VectorTable"):
        sg.build_index(documents(), path=tmp_path / "a", vectors="qdrant", progress=False)
    with pytest.raises(errors.VectorStoreError, match="holds its vectors in its folder"):
        sg.open_index(plain.path, embedder=embedder(), vectors=Table())
    index = built(tmp_path / "idx", table := Table(), "lshtree")
    with pytest.raises(errors.VectorStoreError, match="with vectors="):
        sg.open_index(tmp_path / "idx", embedder=embedder())
    with pytest.raises(errors.VectorStoreError, match="a copy would share its rows"):
        index.copy_to(tmp_path / "copy")
    sg.build_shards(documents(), tmp_path / "shards", 2, embedder=embedder(), progress=False).close()
    with pytest.raises(ValueError, match="shards"):
        sg.open_index(tmp_path / "shards", embedder=embedder(), vectors=table)
    with pytest.raises(ValueError, match="not for shards"):
        sg.build_shards(documents(), tmp_path / "more", 2, embedder=embedder(), vectors=table)
    assert not (tmp_path / "more").exists()


def test_an_index_moves_to_a_store_by_building_it_again(plain: sg.Index, tmp_path: Path) -> None:
    built(tmp_path / "idx").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = built(tmp_path / "idx", table := Table())
    assert index.generation == 2
    assert len(table.rows) > 1
    assert found(index) == found(plain)
    assert index.verify() == []
    assert not any(b"vectors" in path.read_bytes()[:4000] for path in _segments(index.path))

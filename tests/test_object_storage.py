"""An index is copied to a URL and served from there: whole at every moment, checked, and read only."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph import errors
from stratagraph.cli.main import main
from stratagraph.models.local import HashingEmbedder
from tests.store.support import traces_of

QUESTION = "Who founded the Kestrel Press?"
TEXTS = {
    "press": "Orla Venn founded the Kestrel Press in Dunmore.",
    "choir": "The choir of Dunlin sings on Sundays.",
    "ferry": "The ferry to Dunlin leaves at noon.",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "idx"
    documents = [sg.Document(name, text) for name, text in TEXTS.items()]
    sg.build_index(documents, "lshtree", path, embedder=HashingEmbedder(), progress=False).close()
    return path


@pytest.fixture
def local(built: Path, tmp_path: Path) -> Iterator[sg.Index]:
    with sg.open_index(shutil.copytree(built, tmp_path / "idx"), embedder=HashingEmbedder()) as index:
        yield index


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/bucket/idx"
        return
    yield f"memory://{tmp_path.name}/idx"
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def opened(url: str, **more: Any) -> sg.Index:
    return sg.open_index(url, embedder=HashingEmbedder(), **more)


def inside(url: str) -> tuple[Any, str]:
    system, root = fsspec.core.url_to_fs(url)
    return system, root


def files(url: str) -> list[str]:
    system, root = inside(url)
    return sorted(path.removeprefix(root).lstrip("/") for path in system.find(root))


def hits(index: sg.Index) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.retrieve(QUESTION).hits]


async def test_what_was_copied_answers_as_the_folder_does(local: sg.Index, url: str) -> None:
    local.copy_to(url)
    with await sg.aopen_index(url, embedder=HashingEmbedder()) as index:
        cache = index.path
        assert hits(index) == hits(local)
        assert (await index.aanswer(QUESTION)).text == local.answer(QUESTION).text
        assert index.verify() == []
        assert index.url == url.rstrip("/")
        assert index.stats()["path"] == index.url
        assert repr(index) == f"Index({index.url!r}, generation=1)"
    assert not cache.exists()


def test_reload_turns_to_what_was_published_since_and_leaves_nothing_older(local: sg.Index, url: str) -> None:
    local.copy_to(url)
    with opened(url) as index:
        before = hits(index)
        local.insert([sg.Document("inn", "The Kestrel Press was sold to an inn.")])
        local.delete("press")
        local.copy_to(url)
        assert hits(index) == before
        index.reload()
        assert hits(index) == hits(local) != before
        numbers = {name.split("/")[1] for name in files(url) if name.startswith("generations")}
        assert numbers == {str(index.stats()["generation"])}
        system, root = inside(url)
        assert not any(b"Orla Venn" in system.cat_file(path) for path in system.find(root))
        assert traces_of(index.path, "Orla Venn") == []


def test_a_change_is_refused_with_the_way_to_make_it(local: sg.Index, url: str, tmp_path: Path) -> None:
    local.copy_to(url)
    with opened(url) as index:
        with pytest.raises(errors.ReadOnly, match="copy_to"):
            index.insert(["more"])
        with pytest.raises(errors.ReadOnly, match="copy_to"):
            index.delete("choir")
        with pytest.raises(errors.ReadOnly, match="copy_to"):
            index.add_method("archrag")
        index.copy_to(tmp_path / "own")
    with sg.open_index(tmp_path / "own", embedder=HashingEmbedder()) as own:
        own.delete("choir")
        own.copy_to(url)
    with opened(url) as index:
        assert index.stats()["documents"] == 2


def test_a_cache_serves_again_while_it_is_what_is_published(
    local: sg.Index, url: str, tmp_path: Path
) -> None:
    local.copy_to(url)
    kept = tmp_path / "kept"
    with opened(url, cache_dir=kept) as index:
        folder, expected = index.path, hits(index)
    assert folder.parent == kept
    system, root = inside(url)
    for path in system.find(f"{root}/generations"):
        if not path.endswith("manifest.json"):
            system.rm_file(path)
    with opened(url, cache_dir=kept) as index:
        assert hits(index) == expected
    corpus = next(folder.rglob("corpus/chunks/*.arrays"))
    corpus.write_bytes(corpus.read_bytes()[:-1] + b"!")
    with pytest.raises(errors.Damaged, match="missing"):  # damaged here, so it is fetched, and gone there
        opened(url, cache_dir=kept)
    local.copy_to(url)
    with opened(url, cache_dir=kept) as index:
        assert hits(index) == expected


def _asked(url: str, kept: Path, found: Any) -> None:
    with opened(url, cache_dir=kept) as index:
        found.put(hits(index))


@pytest.mark.skipif(sys.platform == "win32", reason="file URLs of drives")
def test_processes_share_a_cache(local: sg.Index, tmp_path: Path) -> None:
    url, kept = f"file://{tmp_path}/bucket", tmp_path / "kept"
    local.copy_to(url)
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    workers = [context.Process(target=_asked, args=(url, kept, found)) for _ in range(2)]
    for worker in workers:
        worker.start()
    answers = [found.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert answers == [hits(local)] * 2
    assert len(list(kept.rglob("manifest.json"))) == 1


def test_an_upload_that_broke_leaves_what_was_there(
    local: sg.Index, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, _ = inside(url)
    whole = type(system).pipe_file

    def breaking(self: Any, path: str, value: bytes, **more: Any) -> None:
        if path.endswith("manifest.json"):
            raise ConnectionResetError("the line is dead")
        whole(self, path, value, **more)

    with monkeypatch.context() as broken:
        broken.setattr(type(system), "pipe_file", breaking)
        with pytest.raises(errors.RemoteError, match="the line is dead"):
            local.copy_to(url)
    with pytest.raises(errors.NotAnIndex, match="never finished"):
        opened(url)
    local.copy_to(url)
    with opened(url) as index:
        before = hits(index)
    local.delete("press")
    with monkeypatch.context() as broken:
        broken.setattr(type(system), "pipe_file", breaking)
        with pytest.raises(errors.RemoteError):
            local.copy_to(url)
    with opened(url) as index:
        assert hits(index) == before


def test_a_reader_turns_to_what_replaced_the_generation_it_was_fetching(
    local: sg.Index, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.copy_to(url)
    local.delete("choir")
    system, _ = inside(url)
    plain, raced = type(system).open, []

    def racing(self: Any, path: str, mode: str = "rb", **more: Any) -> Any:
        if "r" in mode and "/corpus/chunks/" in path and not raced:
            raced.append(path)
            local.copy_to(url)
        return plain(self, path, mode, **more)

    monkeypatch.setattr(type(system), "open", racing)
    with opened(url) as index:
        assert raced
        assert index.stats()["documents"] == 2


@pytest.mark.parametrize("damage", ["flipped", "longer", "shorter"])
def test_a_damaged_download_is_told_and_not_served(
    local: sg.Index, url: str, damage: str, tmp_path: Path
) -> None:
    local.copy_to(url)
    system, root = inside(url)
    path = next(each for each in system.find(root) if "/corpus/chunks/" in each)
    content = system.cat_file(path)
    changed = {"flipped": b"!" + content[1:], "longer": content * 2, "shorter": content[:-9]}[damage]
    system.pipe_file(path, changed)
    with pytest.raises(errors.Damaged, match=r"corpus/chunks/.*copy the index there"):
        opened(url, cache_dir=tmp_path / "kept")
    assert not list((tmp_path / "kept").rglob("corpus/chunks/*.arrays"))


@pytest.mark.parametrize("name", ["../../stolen.npy", "/stolen.npy", "a/./b.npy", "passwd", "manifest.json"])
def test_no_name_in_a_manifest_leads_out_of_the_cache(
    local: sg.Index, url: str, name: str, tmp_path: Path
) -> None:
    from stratagraph.store.manifest import _checksum

    local.copy_to(url)
    system, root = inside(url)
    path = f"{root}/generations/1/manifest.json"
    manifest = json.loads(system.cat_file(path))
    manifest.pop("checksum")
    manifest["files"][name] = {"bytes": 3, "sha256": "0" * 64, "blocks": ""}
    manifest["checksum"] = _checksum(manifest)
    system.pipe_file(path, json.dumps(manifest).encode())
    with pytest.raises(errors.Damaged, match="manifest"):
        opened(url, cache_dir=tmp_path / "kept")
    assert not list(tmp_path.rglob("stolen.npy"))


def test_a_pointer_that_is_none_is_told(local: sg.Index, url: str) -> None:
    local.copy_to(url)
    system, root = inside(url)
    for content in (b"", b"../1\n", b"1.partial\n", b"\xff\n", b"9" * 1000):
        system.pipe_file(f"{root}/CURRENT", content)
        with pytest.raises(errors.Damaged, match="CURRENT"):
            opened(url)


def test_places_that_hold_no_index_are_told(local: sg.Index, url: str) -> None:
    with pytest.raises(errors.NotAnIndex, match="holds nothing"):
        opened(url)
    system, root = inside(url)
    system.makedirs(root, exist_ok=True)
    system.pipe_file(f"{root}/holiday.jpg", b"sea")
    with pytest.raises(errors.NotAnIndex, match=r"holds holiday\.jpg"):
        opened(url)
    with pytest.raises(errors.NotAnIndex, match="nothing was written"):
        local.copy_to(url)
    assert files(url) == ["holiday.jpg"]


def test_a_folder_that_other_tools_copied_opens(local: sg.Index, tmp_path: Path) -> None:
    shutil.copytree(local.path, tmp_path / "bucket")
    with opened(f"file://{tmp_path}/bucket") as index:
        assert hits(index) == hits(local)


def test_refused_credentials_are_told(local: sg.Index, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local.copy_to(url)

    def refusing(*_: Any, **__: Any) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(type(inside(url)[0]), "cat_file", refusing)
    with pytest.raises(errors.RemoteError, match="credentials"):
        opened(url)


def test_what_is_not_installed_or_unknown_is_told(local: sg.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="fsspec knows"):
        opened("carrier-pigeon://loft/idx")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(errors.MissingExtra, match="pip install s3fs"):
        local.copy_to("s3://bucket/idx")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(errors.MissingExtra, match=r"pip install 'stratagraph\[remote\]'"):
        opened("memory://idx")


def test_arguments_that_do_not_go_together_are_told(local: sg.Index, url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cache_dir is for"):
        sg.open_index(local.path, cache_dir=tmp_path)
    with pytest.raises(ValueError, match="build in a local folder"):
        sg.build_index(["a text"], path=url, progress=False)
    assert files(url) == []


def test_shards_are_refused_by_name(tmp_path: Path, url: str) -> None:
    root = tmp_path / "shards"
    documents = [sg.Document(name, text) for name, text in TEXTS.items()]
    with sg.build_shards(documents, root, shards=2, embedder=HashingEmbedder(), progress=False) as shards:
        with pytest.raises(errors.StoreError, match="shard-0000"):
            shards.copy_to(url)
        assert shards.reload() >= 1
    assert files(url) == []
    with pytest.raises(errors.NotAnIndex, match="holds shards"):
        opened(f"file://{root}")


def test_both_frameworks_open_a_url(local: sg.Index, url: str) -> None:
    from langchain_core.embeddings import Embeddings

    from langchain_stratagraph import TreeRetriever
    from llama_index_stratagraph import LSHTreeIndex

    class Hashed(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise AssertionError("no document is embedded")

        def embed_query(self, text: str) -> list[float]:
            raise AssertionError("the folder's own embedder is found")

    local.copy_to(url)
    best = local.retrieve(QUESTION, view="chunks").hits[0].text
    assert best in {each.page_content for each in TreeRetriever.load(url, k=3).invoke(QUESTION)}
    loaded = LSHTreeIndex.load(url)
    assert best in {each.text for each in loaded.as_retriever(similarity_top_k=3).retrieve(QUESTION)}


def test_commands_take_a_url(local: sg.Index, tmp_path: Path) -> None:
    url, kept = f"file://{tmp_path}/bucket", tmp_path / "kept"
    local.copy_to(url)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    for options in ([], ["--cache-dir", str(kept)], ["--cache-dir", str(kept)]):
        asked = run("query", url, QUESTION, *options)
        assert asked.exit_code == 0, asked.output
        assert "Orla Venn" in asked.output
    assert url in run("stats", url).output
    assert "sound" in run("verify", url).output
    refused = run("delete", url, "choir")
    assert refused.exit_code != 0
    assert "read only" in refused.output


def test_a_server_of_a_url_only_reads(local: sg.Index, tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    from stratagraph import server

    url = f"file://{tmp_path}/bucket"
    local.copy_to(url)
    app = server.create_app(url, lambda progress: opened(url, progress=progress))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        about = client.get("/api/index").json()
        assert about["name"] == "bucket"
        assert about["read_only"] is True

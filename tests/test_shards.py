"""Shards are asked, changed and checked as one index."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph import demo
from stratagraph.cli.main import main
from stratagraph.errors import (
    BudgetExceeded,
    ClosedIndex,
    Damaged,
    EmbedderError,
    FormatMismatch,
    Locked,
    NotAnIndex,
    SettingsConflict,
    ShardMismatch,
    ShardMissing,
    StoreError,
)
from stratagraph.methods import NAMES, get_method
from stratagraph.store.files import Directory
from stratagraph.store.lock import WriterLock
from stratagraph.store.manifest import FORMAT
from stratagraph.testing.contract import Caller, CountingModel, documents

EMBEDDER = sg.HashingEmbedder(128)
DOCS = documents(24)
QUESTION = "What does the lantern of note 3 have to do with the keeper?"
WAYS: tuple[dict[str, Any], ...] = ({}, {"fill": False}, {"view": "chunks"})


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def build(path: Path, docs: Any = DOCS, **given: Any) -> sg.Index:
    given = {"shards": 3, **given} if "by" not in given else given
    return sg.build_shards(docs, path, embedder=EMBEDDER, progress=False, **given)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shards") / "root"
    build(path, method=list(NAMES)).close()
    return path


@pytest.fixture
def index(root: Path) -> Any:
    with sg.open_index(root, embedder=EMBEDDER) as opened:
        yield opened


@pytest.fixture(scope="module")
def whole() -> Any:
    with sg.build_index(DOCS, list(NAMES), embedder=EMBEDDER, progress=False) as built:
        yield built


def scores(found: sg.Retrieval) -> dict[str, float]:
    return {hit.id: pytest.approx(hit.score, abs=1e-5) for hit in found.hits}


@pytest.mark.parametrize("rank", ["bm25", "dense"])
@pytest.mark.parametrize("where", [None, {"topic": "theatre"}])
def test_words_and_vectors_score_as_in_one_index(
    index: sg.Index, whole: sg.Index, rank: Any, where: Any
) -> None:
    given = {"view": "chunks", "rank": rank, "where": where}
    assert scores(index.retrieve(QUESTION, 8, **given)) == scores(whole.retrieve(QUESTION, 8, **given))


def test_the_walk_finds_what_it_finds_in_one_index(tmp_path: Path) -> None:
    docs, questions = list(demo.documents()), [each.question for each in demo.showcase()]
    with (
        build(tmp_path / "root", docs, shards=4) as index,
        sg.build_index(docs, embedder=EMBEDDER, progress=False) as whole,
    ):
        shared = []
        for question in questions:
            found, expected = (each.retrieve(question, 5, view="chunks") for each in (index, whole))
            assert found.hits[0].id == expected.hits[0].id
            shared.append(len({hit.id for hit in found} & {hit.id for hit in expected}))
        assert sum(shared) >= 0.8 * 5 * len(questions)


def test_a_walk_goes_from_a_shard_to_another_by_a_name(tmp_path: Path) -> None:
    texts = {
        "a": "Orla Venn founded the Kestrel Press. Orla Venn wrote to the Kestrel Press every winter.",
        "b": "The Kestrel Press was moved to Dunmore by its printers, who were glad of it.",
        "c": "In summer the harbour smells of tar, and boys sell apples on the steps.",
        "d": "A fair is held on the green, and a fiddler plays until the lamps are lit.",
    }
    docs = [sg.Document(name, text, {"tenant": name}) for name, text in texts.items()]
    with build(tmp_path / "root", docs, by="tenant") as index:
        assert index.stats()["shards"] == 4
        found = index.retrieve("Where is what Orla Venn founded?", 4, view="chunks")
        assert [hit.documents[0] for hit in found.hits[:2]] == ["a", "b"]
        assert found.hits[1].score > 2 * found.hits[2].score


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_methods_find_k_things_in_order(index: sg.Index, method: str, way: dict[str, Any]) -> None:
    found = index.retrieve(QUESTION, 6, method=method, **way)
    ranked = [hit.score for hit in found.hits]
    known = {chunk.id for chunks in index.chunks().values() for chunk in chunks}
    assert len(found) == 6
    assert ranked == sorted(ranked, reverse=True)
    assert len({(hit.kind, hit.id) for hit in found.hits}) == 6
    assert all(hit.sources and known.issuperset(hit.sources) for hit in found.hits)


@pytest.mark.parametrize("method", NAMES)
def test_a_filter_admits_what_it_says_in_all_shards(index: sg.Index, method: str) -> None:
    wanted = {doc.id for doc in DOCS if doc.metadata["topic"] == "railway"}
    for way in WAYS:
        found = index.retrieve(QUESTION, 30, method=method, where={"topic": "railway"}, **way)
        assert {name for hit in found.hits for name in hit.documents} == wanted


def test_a_level_that_only_some_shards_have(tmp_path: Path) -> None:
    docs = [*documents(20), sg.Document("alone", "One note alone.", {"topic": "none", "number": 0})]
    docs = [sg.Document(d.id, d.text, {"half": str(d.metadata["topic"] == "none")}) for d in docs]
    with build(tmp_path / "root", docs, by="half", method="lshtree") as index:
        found = index.retrieve(QUESTION, 3, levels=(1,))
        assert {hit.level for hit in found.hits} == {1}
        with pytest.raises(ValueError, match="level 9 is not in this index"):
            index.retrieve(QUESTION, 3, levels=(9,))


def test_so_many_of_each_level(index: sg.Index) -> None:
    given = {"mode": "per_level", "k_per_level": 2, "fill": False}
    found = index.retrieve(QUESTION, 10, **given)
    levels = [hit.level for hit in found.hits]
    assert levels.count(0) == 2
    assert levels.count(1) == 2


def test_each_tenant_has_its_own_hierarchy(tmp_path: Path) -> None:
    docs = documents(36)  # a third of them have enough entities for communities
    with build(tmp_path / "root", docs, by="topic", method="archrag") as index:
        alone = [d for d in docs if d.metadata["topic"] == "railway"]
        with sg.build_index(alone, "archrag", embedder=EMBEDDER, progress=False) as own:
            expected = {node.text for node in own.nodes()}
            named = index.retrieve(
                QUESTION, 50, fill=False, where={"topic": "railway"}, relations=False, whole=True
            )
            assert expected
            assert {node.text for node in index.nodes()} > expected
            assert {hit.text for hit in named.hits if hit.kind == "community"} <= expected


def test_an_index_in_the_place_of_a_shard_is_found(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(root, path)
    shutil.rmtree(path / "shard-0001")
    shutil.copytree(path / "shard-0000", path / "shard-0001")
    with sg.open_index(path, embedder=EMBEDDER) as index:
        (problem,) = index.verify()
    assert problem.startswith("shard-0001: holds document ")
    assert "of shard-0000" in problem


def test_a_shard_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(root, path)
    shutil.rmtree(path / "shard-0001")
    (path / "shard-0001").symlink_to(root / "shard-0001")
    with pytest.raises(ShardMissing, match="shard-0001 is a link"):
        sg.open_index(path, embedder=EMBEDDER)
    with sg.open_index(path, embedder=EMBEDDER, partial=True) as index:
        assert index.stats()["missing"] == ["shard-0001"]
        assert index.verify() == ["shard-0001: missing"]


def test_changes_go_to_their_shards(tmp_path: Path, call: Caller) -> None:
    path = tmp_path / "root"
    with build(path) as index:
        before = index.generation
        more = [
            sg.Document("doc-003", "A zeppelin landed here.", {"topic": "air"}),
            sg.Document("new", "Zeppelins."),
        ]
        assert call(index, "estimate", more).embedded_texts > 0
        report = call(index, "insert", [*more, DOCS[0], sg.Document("blank", " ")])
        assert report.added == ("new",)
        assert report.updated == ("doc-003",)
        assert report.unchanged == (DOCS[0].id,)
        assert report.skipped == ("blank",)
        assert report.documents == len(DOCS) + 1 == len(index.documents())
        assert index.generation > before
        assert {hit.documents[0] for hit in index.retrieve("zeppelins", 2, rank="bm25")} == {"doc-003", "new"}
        report = call(index, "delete", ["doc-003", "nobody"], missing_ok=True)
        assert report.deleted == ("doc-003",)
        with pytest.raises(KeyError, match="doc-003"):
            call(index, "delete", ["doc-003"])
        assert call(index, "add_method", "archrag").nodes["archrag"] > 0
        assert index.methods == ("archrag",)
    assert not [
        file for file in path.rglob("*") if file.is_file() and b"zeppelin landed" in file.read_bytes()
    ]
    with sg.open_index(path, embedder=EMBEDDER) as again:
        assert "doc-003" not in again.documents()
        assert again.verify() == []


def test_a_document_may_move_and_a_value_may_be_new(tmp_path: Path) -> None:
    path = tmp_path / "root"
    with build(path, by="topic") as index:
        shards = index.stats()["shards"]
        report = index.insert([sg.Document(DOCS[0].id, "A zeppelin.", {"topic": "air"})])
        assert report.documents == len(DOCS)
        assert (report.added, report.updated, report.deleted) == ((), (DOCS[0].id,), ())
        assert index.stats()["shards"] == shards + 1
        assert index.documents()[DOCS[0].id] == {"topic": "air"}
        found = index.retrieve("zeppelin", 3, where={"topic": "air"})
        assert {hit.text for hit in found.hits} == {"A zeppelin."}
        with pytest.raises(ValueError, match="no 'topic' in its metadata"):
            index.insert([sg.Document("other", "text")])
        with pytest.raises(ValueError, match="twice, with different 'topic'"):
            index.insert([sg.Document("x", "text", {"topic": t}) for t in ("air", "sea")])


def test_another_object_sees_a_change_after_reload(root: Path, tmp_path: Path) -> None:
    with (
        build(tmp_path / "root", by="topic") as writer,
        sg.open_index(tmp_path / "root", embedder=EMBEDDER) as reader,
    ):
        writer.insert([sg.Document("new", "A zeppelin.", {"topic": "air"})])
        assert "new" not in reader.documents()
        assert reader.reload() == writer.generation
        assert "new" in reader.documents()


def test_what_is_listed_is_there_once(index: sg.Index, whole: sg.Index, tmp_path: Path) -> None:
    names = [each.id for each in index.entities()]
    assert len(names) == len(set(names))
    assert names == sorted(names)
    pairs = [frozenset((each.source, each.target)) for each in index.relations()]
    assert len(pairs) == len(set(pairs))
    assert {c.text for cs in index.chunks().values() for c in cs} == {
        c.text for cs in whole.chunks().values() for c in cs
    }
    (some,) = index.chunks("doc-007")["doc-007"]
    assert index.find_chunks([some.id]) == [some]
    assert dict(index.extractions()).keys() == {c.id for cs in index.chunks().values() for c in cs}
    for method in NAMES:
        assert sum(level.count for level in index.levels(method)) == len(list(index.nodes(method)))
        assert index.stats()["methods"][method]["nodes"]
    listed = [index.browse("documents", offset=at, limit=5) for at in range(0, 30, 5)]
    assert [each.id for page in listed for each in page.items] != []
    assert {each.id for page in listed for each in page.items} == {doc.id for doc in DOCS}
    assert {page.total for page in listed} == {len(DOCS)}
    (passage,) = index.browse("passages", within="doc-007").items
    assert passage.id == some.id
    with pytest.raises(KeyError, match="nobody"):
        index.browse("passages", within="nobody")
    assert nx.read_graphml(index.export(tmp_path / "all.graphml", "graphml"))
    assert index.retrieve(QUESTION, 5).show().html
    assert index.show("archrag").html


def test_a_copy_is_a_folder_of_shards(index: sg.Index, tmp_path: Path) -> None:
    index.copy_to(tmp_path / "copy")
    with sg.open_index(tmp_path / "copy", embedder=EMBEDDER) as copy:
        assert scores(copy.retrieve(QUESTION, 5)) == scores(index.retrieve(QUESTION, 5))
        assert copy.verify() == []


def test_a_missing_shard_is_named_and_left_out_only_on_request(root: Path, tmp_path: Path) -> None:
    path = shutil.copytree(root, tmp_path / "root")
    shutil.rmtree(path / "shard-0001")
    with pytest.raises(ShardMissing, match=r"shard-0001 is missing.*partial=True"):
        sg.open_index(path, embedder=EMBEDDER)
    with sg.open_index(path, embedder=EMBEDDER, partial=True) as index:
        assert index.stats()["missing"] == ["shard-0001"]
        assert len(index.retrieve(QUESTION, 4)) == 4
        with pytest.raises(ShardMissing, match="shard-0001"):
            index.insert([sg.Document("new", "text")])
        with pytest.raises(ShardMissing, match="shard-0001"):
            index.copy_to(tmp_path / "copy")
        assert index.verify() == ["shard-0001: missing"]


def test_shards_of_other_settings_are_refused_by_name(root: Path, tmp_path: Path) -> None:
    path = shutil.copytree(root, tmp_path / "root")
    shutil.rmtree(path / "shard-0002")
    settings = {"chunking": {"size": 77}}
    sg.build_index(
        DOCS[:3], "lshtree", path / "shard-0002", embedder=EMBEDDER, config=settings, progress=False
    ).close()
    with pytest.raises(ShardMismatch, match="shard-0002 differs from shard-0000 in methods"):
        sg.open_index(path, embedder=EMBEDDER)
    problems = CliRunner().invoke(main, ["verify", str(path)])
    assert problems.exit_code == 1
    assert "shard-0002 differs from shard-0000 in config.chunking.size: 77, not 300" in problems.output


def test_shards_open_together_if_only_one_has_the_defaults_written_out(root: Path, tmp_path: Path) -> None:
    path = shutil.copytree(root, tmp_path / "root")
    with sg.open_index(path / "shard-0002", embedder=EMBEDDER) as shard:
        own = shard.documents()
    shutil.rmtree(path / "shard-0002")
    defaults = {name: get_method(name).config_type() for name in NAMES}
    sg.build_index(
        [each for each in DOCS if each.id in own],
        list(NAMES),
        path / "shard-0002",
        embedder=EMBEDDER,
        config=sg.Config(methods=defaults),
        progress=False,
    ).close()
    with sg.open_index(path, embedder=EMBEDDER) as index:
        assert len(index.documents()) == len(DOCS)
        assert index.verify() == []


class _Refusing(sg.HashingEmbedder):
    """Fails at texts about zeppelins."""

    def embed_documents(self, texts: Sequence[str]) -> Any:
        if any("zeppelin" in text for text in texts):
            raise ValueError("no zeppelins")
        return super().embed_documents(texts)


def test_a_build_that_was_stopped_is_no_index_until_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "root"
    docs = [*DOCS, sg.Document("last", "A zeppelin landed.", {"topic": "air"})]
    with pytest.raises(EmbedderError):
        sg.build_shards(docs, path, by="topic", embedder=_Refusing(128), progress=False)
    with pytest.raises(NotAnIndex, match="stopped before its end; do the same again"):
        sg.open_index(path, embedder=EMBEDDER)
    assert "stopped before its end" in CliRunner().invoke(main, ["verify", str(path)]).output
    with sg.open_index(path, embedder=EMBEDDER, partial=True) as part:
        assert 0 < len(part.documents()) < len(docs)
        assert "stopped before its end" in part.stats()["interrupted"]
        with pytest.raises(NotAnIndex, match="do the same again"):
            part.insert(["text"])
    with build(path, docs, by="topic") as index:
        assert len(index.documents()) == len(docs)
        assert index.stats()["interrupted"] is None
        assert index.verify() == []


def test_a_build_that_was_stopped_is_owed_its_documents(tmp_path: Path) -> None:
    path = tmp_path / "root"
    docs = [*DOCS, sg.Document("last", "A zeppelin landed.", {"topic": "air"})]
    with pytest.raises(EmbedderError):
        sg.build_shards(docs, path, by="topic", embedder=_Refusing(128), progress=False)
    other = sg.Document("other", "A balloon rose.", {"topic": "air"})
    with pytest.raises(NotAnIndex, match=r"1 of them are neither built nor given now; give them too"):
        build(path, [other], by="topic")
    with build(path, [docs[-1], other], by="topic") as index:
        assert {each.id for each in [*docs, other]} == set(index.documents())
        assert index.stats()["interrupted"] is None
    build(path, [other], by="topic").close()


def test_an_index_without_shards_is_named(tmp_path: Path) -> None:
    sg.build_index(DOCS[:1], path=tmp_path / "idx", embedder=EMBEDDER, progress=False).close()
    with pytest.raises(NotAnIndex, match="holds an index without shards; nothing was written"):
        build(tmp_path / "idx")


@pytest.mark.parametrize("config", [None, {"summary_tokens": 50}])
def test_a_method_that_reached_some_shards_is_left_out_until_all_have_it(tmp_path: Path, config: Any) -> None:
    path = tmp_path / "root"
    build(path, method=["lshtree", "hirag"] if config else "lshtree").close()
    with (
        sg.open_index(path, embedder=EMBEDDER) as index,
        closing(Directory.open(path / "shard-0002")) as folder,
        WriterLock(folder, "insert"),
        pytest.raises(Locked),
    ):
        index.add_method("hirag", config)
    with sg.open_index(path, embedder=EMBEDDER) as index:
        assert index.methods == ("lshtree",)
        assert "add it again" in index.stats()["interrupted"]
        assert len(index.retrieve(QUESTION, 4)) == 4
        with pytest.raises(sg.errors.MethodMissing, match="add_method"):
            index.retrieve(QUESTION, method="hirag")
        index.insert([sg.Document("new", "A zeppelin landed.")])
        index.add_method("hirag", config)
        assert index.methods == ("lshtree", "hirag")
        assert index.stats()["interrupted"] is None
        assert index.verify() == []


def test_damage_is_told_with_its_shard(root: Path, tmp_path: Path) -> None:
    path = shutil.copytree(root, tmp_path / "root")
    (file,) = (path / "shard-0001" / "generations").glob("*/corpus/chunks/*.arrays")
    with sg.open_index(path, embedder=EMBEDDER) as index:
        file.write_bytes(file.read_bytes()[:-64])
        assert [each for each in index.verify() if each.startswith("shard-0001: corpus/chunks/")]
    with pytest.raises(Damaged, match="shard-0001"):
        sg.open_index(path, embedder=EMBEDDER)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", Damaged),
        ("[]", Damaged),
        ('{"format": 1}', FormatMismatch),
        ('{"stratagraph": 2}', FormatMismatch),
        (f'{{"stratagraph": {FORMAT}, "by": null, "shards": [{{"folder": "../elsewhere"}}]}}', Damaged),
        (
            f'{{"stratagraph": {FORMAT}, "by": "x", "shards": [{{"folder": "shard-0000", "built": true}}]}}',
            Damaged,
        ),
    ],
)
def test_a_list_that_no_version_wrote(root: Path, tmp_path: Path, text: str, error: type[Exception]) -> None:
    path = shutil.copytree(root, tmp_path / "root")
    (path / "shards.json").write_text(text)
    with pytest.raises(error, match=r"shards\.json"):
        sg.open_index(path, embedder=EMBEDDER)


def test_a_folder_of_shards_is_not_one_index(root: Path) -> None:
    with pytest.raises(NotAnIndex, match="it is a folder of shards: use build_shards"):
        sg.build_index(DOCS, path=root, embedder=EMBEDDER, progress=False)


def test_a_lost_list_of_shards_is_told(root: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    (copy / "shards.json").unlink()
    for call in (lambda: sg.open_index(copy, embedder=EMBEDDER), lambda: build(copy)):
        with pytest.raises(NotAnIndex, match=r"their list, shards\.json, is lost"):
            call()
    with sg.open_index(copy / "shard-0000", embedder=EMBEDDER) as alone:
        assert alone.retrieve(QUESTION).hits


def test_wrong_wishes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "root"
    for given in ({"shards": None}, {"shards": 2, "by": "topic"}, {"shards": 0}):
        with pytest.raises(ValueError, match="shards"):
            sg.build_shards(DOCS, path, embedder=EMBEDDER, progress=False, **given)
    for docs in ([], ["", " "]):
        with pytest.raises(ValueError, match="nothing was written"):
            build(path, docs)
    with pytest.raises(TypeError, match="document 1 is of type"):
        build(path, ["text", 7])
    assert not path.exists()
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    with pytest.raises(NotAnIndex, match=r"notes\.txt"):
        build(path)


def test_a_build_resumes_and_refuses_what_is_other(tmp_path: Path) -> None:
    path, model = tmp_path / "root", CountingModel()
    with pytest.raises(BudgetExceeded) as stopped:
        build(path, llm=model, method="archrag", budget=sg.Budget(calls=2))
    assert "shard-000" in "".join(stopped.value.__notes__)
    assert len(model.prompts) == 2
    with build(path, llm=model, method="archrag") as index:
        assert index.last_report.documents == len(DOCS)
        assert len(set(model.prompts)) == len(model.prompts)
    with build(path, llm=model, method="archrag") as index:
        assert index.last_report.usage.calls == 0
    with pytest.raises(SettingsConflict, match="build in another folder"):
        build(path, method="archrag", llm=model, config={"chunking": {"size": 90, "overlap": 9}})
    with pytest.raises(NotAnIndex, match="3 shards, not 4"):
        build(path, method="archrag", shards=4, llm=model)


def test_a_build_over_shards_brings_them_to_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "root"
    build(path, documents(8), method="lshtree").close()
    given = [*documents(6)[2:], *documents(2, start=100), sg.Document("doc-005", "Mara steered the Dunlin.")]
    given = [each for each in given if each.id != "doc-005" or each.text.startswith("Mara")]
    with build(path, given, method="hirag") as index:
        report = index.last_report
        assert set(report.added) == {"doc-100", "doc-101"}
        assert report.updated == ("doc-005",)
        assert not report.deleted
        assert index.methods == ("hirag", "lshtree")
        assert len(index.documents()) == 10
        assert index.verify() == []
    with build(path, given, method=None, prune=True) as index:
        assert set(index.last_report.deleted) == {"doc-000", "doc-001", "doc-006", "doc-007"}
        assert index.documents().keys() == {each.id for each in given}
        assert index.stats()["interrupted"] is None
        assert index.verify() == []


def test_few_documents_leave_shards_empty(tmp_path: Path) -> None:
    with build(tmp_path / "root", ["Ada wrote the letter.", "The letter is in Bremen."], shards=8) as index:
        assert index.stats()["shards"] <= 2
        assert index.retrieve("Where is the letter?", 1).hits[0].text == "The letter is in Bremen."
    with pytest.raises(ClosedIndex):
        index.retrieve("Where?")


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": d.id, "text": d.text, "metadata": dict(d.metadata)}) for d in DOCS]
    Path("docs.jsonl").write_text("\n".join(lines))
    Path("new.txt").write_text("A zeppelin landed on the green.")

    def run(*arguments: str, code: int = 0) -> Any:
        done = CliRunner().invoke(main, [*arguments, "--json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    hashing = ("--embedder", "hashing")
    assert run("build", "docs.jsonl", "-o", "idx", "--shards", "3", *hashing)["documents"] == len(DOCS)
    assert run("stats", "idx")["shards"] == 3
    assert run("insert", "idx", "new.txt", *hashing)["added"] == ["new.txt"]
    hits = run("query", "idx", "Where did the zeppelin land?", "--no-answer", *hashing)["hits"]
    assert hits[0]["documents"] == ["new.txt"]
    assert run("delete", "idx", "new.txt", *hashing)["deleted"] == ["new.txt"]
    assert run("verify", "idx") == {"problems": []}
    run("build", "docs.jsonl", "-o", "two", "--shards", "2", "--shard-by", "topic", code=2)
    shutil.rmtree("idx/shard-0000")
    assert run("query", "idx", "Who?", *hashing, code=1)["error"] == "ShardMissing"
    assert run("query", "idx", "Who?", "--partial", "--no-answer", *hashing)["hits"]
    assert run("stats", "idx", "--partial")["missing"] == ["shard-0000"]


def test_too_few_open_files_are_told(root: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(500, before[0]), before[1]))
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(5):
            os.close(taken.pop())
            with pytest.raises(StoreError, match="may not open more files"):
                sg.open_index(root, embedder=EMBEDDER)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def test_a_delete_that_was_stopped_between_shards_is_finished_by_the_same_call(
    root: Path, tmp_path: Path, call: Caller
) -> None:
    path = shutil.copytree(root, tmp_path / "copy")
    gone = [document.id for document in DOCS[:12]]
    with call(sg, "open_index", path, embedder=EMBEDDER) as index:
        folder = Directory.open(path / "shard-0001")
        with WriterLock(folder, "held"), pytest.raises(Locked):
            call(index, "delete", gone)
        folder.close()
        index.reload()
        left = index.documents().keys() & set(gone)
        assert 0 < len(left) < len(gone)
        with pytest.raises(KeyError, match="nowhere"):
            call(index, "delete", ["nowhere", *gone])
        call(index, "delete", gone)
        assert index.documents().keys() == {document.id for document in DOCS} - set(gone)
        with pytest.raises(KeyError):
            call(index, "delete", gone)
    assert json.loads((path / "shards.json").read_text("utf-8"))["deleting"] == []

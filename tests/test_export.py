"""Exports: every format holds what the index holds, and the extraction comes back whole."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx
import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph.cli.main import main
from stratagraph.errors import MethodMissing, MissingExtra
from stratagraph.methods import NAMES
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents

HEADER = '{"record": "stratagraph", "format": 1}\n'
CALL = {
    "record": "call",
    "key": "0" * 32,
    "task": "elements",
    "model": "m",
    "answer": "a",
    "sources": ["nowhere"],
}
NASTY = "A\x00\x0b <b>&\"'</b> ]]> \ufffe \U0001f600 line\r\nbreak"
CHUNKS = [
    sg.Chunk("Ada Lovelace met Charles Babbage in London.", "meeting", 0, 0, 43, {"title": "One"}, ref="r"),
    sg.Chunk("Charles Babbage built the Analytical Engine.", "meeting", 1, 44, 88, {"page": 2}, ref="r"),
    sg.Chunk("The Analytical Engine was never in London.", "other", 0, metadata={"year": 1871}),
    *(sg.Chunk(f"Ada Lovelace wrote note {n} for Charles Babbage.", f"note {n}") for n in range(20)),
]
GIVEN = {
    "other": sg.Extraction(
        units=(sg.SemanticUnit(f"Unit {NASTY}", ("Ada", "Engine")), sg.SemanticUnit("Alone.")),
        entities=(sg.EntityMention("Ada", "person", f"Wrote {NASTY}"), sg.EntityMention("Engine")),
        relations=(sg.RelationMention("Ada", "Engine", "programmed it", 7.25),),
        terms=("punched card",),
    )
}


def build(chunks: Any, extraction: Any = None) -> sg.Index:
    embedder = sg.HashingEmbedder()
    return sg.build_index(chunks, "lshtree", embedder=embedder, extraction=extraction, progress=False)


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with build(CHUNKS, GIVEN) as index:
        assert list(index.nodes())
        yield index


def state(index: sg.Index) -> list[Any]:
    """All that is derived from the extraction, and the extraction."""
    parts = (index.entities(), index.relations(), index.units(), index.nodes(), index.extractions())
    return [list(part) for part in parts]


def records(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text("utf-8").split("\n")[:-1]:
        record = json.loads(line)
        found.setdefault(record.pop("record"), []).append(record)
    return found


def test_the_extraction_comes_back_and_gives_the_same_graph(index: sg.Index, tmp_path: Path) -> None:
    imported = sg.read_extraction(index.export(tmp_path / "index.jsonl"))
    assert imported.extractions == dict(index.extractions())
    assert GIVEN["other"] in imported.extractions.values()
    with build(imported.documents, imported.extractions) as again:
        assert state(again) == state(index)
        chunks = [chunk for group in again.chunks().values() for chunk in group]
        assert chunks == [chunk for group in index.chunks().values() for chunk in group]
        question = "Who built the Analytical Engine?"
        assert again.retrieve(question, view="chunks").hits == index.retrieve(question, view="chunks").hits


def test_json_lines_hold_everything(index: sg.Index, tmp_path: Path) -> None:
    found = records(index.export(tmp_path / "deep" / "index.jsonl"))
    assert found["stratagraph"] == [{"format": 1, "methods": ["lshtree"], "chunks": 23, "calls": 0}]
    counts = {name: len(rows) for name, rows in found.items()}
    entities, relations, units, nodes, _ = state(index)
    assert counts == {
        "stratagraph": 1,
        "document": 22,
        "chunk": 23,
        "entity": len(entities),
        "relation": len(relations),
        "unit": len(units),
        "node": len(nodes),
    }
    node = max(found["node"], key=lambda each: each["level"])
    assert node["method"] == "lshtree"
    assert node["documents"]
    assert set(node["sources"]) <= {chunk["id"] for chunk in found["chunk"]}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["index.jsonl"], "nothing is left aside"


def test_graphml_is_read_by_others_and_holds_the_graph(index: sg.Index, tmp_path: Path) -> None:
    graph = networkx.read_graphml(index.export(tmp_path / "index.graphml", "graphml"))
    kinds = Counter(data["kind"] for _, data in graph.nodes(data=True))
    entities, relations, units, nodes, _ = state(index)
    assert kinds == {
        "document": 22,
        "chunk": 23,
        "entity": len(entities),
        "unit": len(units),
        "summary": len(nodes),
    }
    edges = Counter(data["relation"] for *_, data in graph.edges(data=True))
    assert edges["relation"] == len(relations)
    assert edges["part of"] == 23
    assert edges["member"] == sum(len(node.members) for node in nodes)
    assert all("kind" in data for _, data in graph.nodes(data=True)), "an edge leads to no node"
    ada = graph.nodes["entity:ada"]
    assert ada["type"] == "person"
    assert ada["text"].splitlines()[0].startswith("Wrote A\ufffd\ufffd <b>&\"'</b> ]]> \ufffd \U0001f600")
    (weight,) = (d["weight"] for *_, d in graph.edges("entity:ada", data=True) if d["relation"] == "relation")
    assert weight == 7.25


def test_neo4j_reads_the_graph_from_csv(index: sg.Index, tmp_path: Path) -> None:
    folder = index.export(tmp_path / "neo4j", "neo4j")
    assert sorted(file.name for file in folder.iterdir()) == ["nodes.csv", "relationships.csv"]
    with (folder / "nodes.csv").open(encoding="utf-8", newline="") as file:
        nodes = {row["id:ID"]: row for row in csv.DictReader(file)}
    with (folder / "relationships.csv").open(encoding="utf-8", newline="") as file:
        edges = list(csv.DictReader(file))
    graph = index.to_networkx()
    assert nodes.keys() == set(graph)
    assert graph.nodes["entity:ada"]["type"] == "person"
    assert [entity.id for entity in index.entities(["ada", "nobody"])] == ["ada"]
    assert len(edges) == graph.number_of_edges()
    assert all(edge[":START_ID"] in nodes and edge[":END_ID"] in nodes for edge in edges)
    assert {row[":LABEL"] for row in nodes.values()} == {"Document", "Chunk", "Entity", "Unit", "Summary"}
    assert {edge[":TYPE"] for edge in edges} == {"PART_OF", "MENTIONS", "RELATION", "MEMBER", "SOURCE"}
    assert nodes["entity:ada"]["text"] == graph.nodes["entity:ada"]["text"]
    assert {row["level:int"] for row in nodes.values() if row[":LABEL"] == "Summary"} >= {"1"}
    (weight,) = {
        float(e["weight:double"]) for e in edges if e[":TYPE"] == "RELATION" and "entity:ada" in e.values()
    }
    assert weight == 7.25


def test_parquet_holds_the_same_tables(index: sg.Index, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    folder = index.export(tmp_path / "tables", "parquet")
    expected = records(index.export(tmp_path / "index.jsonl"))
    for name in ("document", "chunk", "entity", "relation", "unit", "node"):
        file = "entities" if name == "entity" else f"{name}s"
        rows = pyarrow.read_table(folder / f"{file}.parquet").to_pylist()
        for row in rows:
            for column in ("metadata", "extraction"):
                if column in row:
                    row[column] = json.loads(row[column])
        assert rows == expected[name]


def test_a_method_s_nodes_alone(index: sg.Index, tmp_path: Path) -> None:
    assert "node" in records(index.export(tmp_path / "a.jsonl", method="lshtree"))
    with pytest.raises(ValueError, match="no method 'nothing'"):
        index.export(tmp_path / "b.jsonl", method="nothing")
    assert not (tmp_path / "b.jsonl").exists()
    with pytest.raises(MethodMissing, match="archrag"):
        index.to_networkx("archrag")


def test_wrong_formats_and_missing_extras_write_nothing(
    index: sg.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ValueError, match="no format 'xlsx'; choose from graphml, jsonl, neo4j, parquet, markdown, html"
    ):
        index.export(tmp_path / "x", "xlsx")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stratagraph\[parquet\]'"):
        index.export(tmp_path / "x", "parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_fails_leaves_the_earlier_one(
    index: sg.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = index.export(tmp_path / "index.jsonl")
    before = path.read_bytes()

    def fails(self: sg.Index) -> Iterator[Any]:
        raise OSError("disk full")

    monkeypatch.setattr(sg.Index, "relations", fails)
    with pytest.raises(OSError, match="disk full"):
        index.export(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ('{"passage_id": "a", "entities": []}\n', r"bad\.jsonl:1: not an export of stratagraph.*read_openie"),
        ('{"record": "stratagraph", "format": 2}\n', "format 2, which another version"),
        (
            '{"record": "stratagraph", "format": 1}\n{"record": "chunk", "id": "a"}\n',
            r"bad\.jsonl:2: not a chunk",
        ),
        (f"{HEADER}{json.dumps(CALL | {'answer': None})}\n", r"bad\.jsonl:2: not a call.*answer: .*string"),
        (f"{HEADER}{json.dumps(CALL | {'key': '../x'})}\n", r"bad\.jsonl:2: the key .*'\.\./x'"),
        (f"{HEADER}{json.dumps(CALL)}\n", r"bad\.jsonl:2: .*quotes chunk 'nowhere'"),
        ('{"record": "stratagraph", "format": 1}\nnot json\n', r"bad\.jsonl:2: not JSON"),
    ],
)
def test_files_that_are_no_export(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        sg.read_extraction(path, cache=tmp_path / "calls.sqlite")
    assert list(tmp_path.iterdir()) == [path], "nothing is kept of a file that cannot be read"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """The export of an index that a model wrote by all methods, and its nodes."""
    path = tmp_path_factory.mktemp("written")
    with by_model(documents(40), CountingModel(), path=path / "index") as index:
        return index.export(path / "index.jsonl"), {name: list(index.nodes(name)) for name in NAMES}


def by_model(documents: Any, model: CountingModel, **given: Any) -> sg.Index:
    given = {"embedder": FakeEmbedder(), "progress": False, **given}
    return sg.build_index(documents, NAMES, llm=model, **given)


def test_nodes_that_a_model_wrote_come_back_without_a_call(
    written: tuple[Path, dict[str, list[Any]]], tmp_path: Path
) -> None:
    export, nodes = written
    model, cache = CountingModel(lambda prompt: "not what the export says"), tmp_path / "calls.sqlite"
    imported = sg.read_extraction(export, cache=cache)
    given = {"extraction": imported.extractions, "cache": cache}
    with by_model(imported.documents, model, **given) as again:
        assert not model.prompts
        assert {name: list(again.nodes(name)) for name in NAMES} == nodes
        assert records(again.export(tmp_path / "again.jsonl"))["call"] == records(export)["call"]
    model = CountingModel()
    with by_model(imported.documents, model, embedder=sg.HashingEmbedder(), **given) as again:
        assert 0 < len(model.prompts) < len(records(export)["call"]), "some groups are other ones"
        assert {each.text for each in again.nodes("noderag")} & {each.text for each in nodes["noderag"]}
        assert again.stats()["dimension"] == sg.HashingEmbedder().dimension


@pytest.mark.parametrize("lost", ["chunk", "call"])
def test_an_export_that_was_cut_off_is_refused(
    lost: str, written: tuple[Path, dict[str, list[Any]]], tmp_path: Path
) -> None:
    lines = written[0].read_text().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if f'"record": "{lost}"' in line)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:last]))
    with pytest.raises(ValueError, match=rf"cut.jsonl has \d+ {lost}s, and its first line tells of \d+"):
        sg.read_extraction(tmp_path / "cut.jsonl", cache=tmp_path / "calls.sqlite")
    assert not (tmp_path / "calls.sqlite").exists()


def test_the_answers_of_all_shards_come_back(tmp_path: Path) -> None:
    given: dict[str, Any] = {"method": "lshtree", "embedder": FakeEmbedder(), "progress": False}
    model, again, cache = CountingModel(), CountingModel(), tmp_path / "calls.sqlite"
    with sg.build_shards(documents(60), tmp_path / "a", 2, llm=model, **given) as index:
        imported = sg.read_extraction(index.export(tmp_path / "index.jsonl"), cache=cache)
        nodes = list(index.nodes())
    given |= {"extraction": imported.extractions, "cache": cache}
    with sg.build_shards(imported.documents, tmp_path / "b", 2, llm=again, **given) as index:
        assert list(index.nodes()) == nodes
    assert model.prompts
    assert not again.prompts


def test_hostile_answers_replace_none_and_are_read_like_those_of_a_model(
    written: tuple[Path, dict[str, list[Any]]], tmp_path: Path
) -> None:
    export, nodes = written
    hostile, cache = tmp_path / "hostile.jsonl", tmp_path / "calls.sqlite"
    lines = [json.loads(line) for line in export.read_text("utf-8").splitlines()]
    broken = [{**line, "answer": "{] \x00"} if line["record"] == "call" else line for line in lines]
    hostile.write_text("".join(json.dumps(line) + "\n" for line in broken), "utf-8")
    imported = sg.read_extraction(hostile, cache=cache)
    model, given = CountingModel(), {"extraction": imported.extractions}
    with by_model(imported.documents, model, cache=cache, **given) as again:
        assert model.prompts, "what cannot be read is asked for"
        assert all("Summary" in each.text for each in again.nodes("archrag") if each.metadata.get("by"))
    cache = tmp_path / "own.sqlite"
    sg.read_extraction(export, cache=cache)
    sg.read_extraction(hostile, cache=cache)
    with by_model(imported.documents, model, cache=cache, **given) as again:
        assert {name: list(again.nodes(name)) for name in NAMES} == nodes


@pytest.mark.parametrize("kind", ["jsonl", "neo4j"])  # a file, a folder
def test_an_export_removes_what_a_killed_one_left(index: sg.Index, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out"
    code = (
        "import os, signal, sys, stratagraph as sg\n"
        "from stratagraph.export import tables\n"
        "def killed(*given):\n"
        "    yield 'chunk', (os.kill(os.getpid(), signal.SIGKILL) for _ in range(1))\n"
        "tables.tables = sys.modules['stratagraph.export.graph'].tables = killed\n"
        "sg.open_index(sys.argv[1]).export(sys.argv[2], format=sys.argv[3])\n"
    )
    assert index.path is not None
    child = [sys.executable, "-c", code, str(index.path), str(path), kind]
    assert subprocess.run(child, check=False, timeout=120).returncode == -signal.SIGKILL
    assert list(tmp_path.rglob(".*.part"))
    running = (path if path.is_dir() else tmp_path) / f".x{path.name}.{os.getpid()}.part"
    running.touch()
    index.export(path, format=kind)
    assert list(tmp_path.rglob(".*.part")) == [running]


def test_the_command(index: sg.Index, tmp_path: Path) -> None:
    def call(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["export", str(index.path), *arguments])

    out = tmp_path / "x.jsonl"
    told = json.loads(call("-o", str(out), "--json").stdout)
    assert told == {"path": str(out), "format": "jsonl", "bytes": out.stat().st_size}
    for kind in ("graphml", "parquet", "html"):
        assert call("--format", kind, "-o", str(tmp_path / kind)).output.startswith("written: ")
    page = (tmp_path / "html").read_text("utf-8")
    assert call("--html", "-o", str(tmp_path / "h.html")).exit_code == 0
    assert (tmp_path / "h.html").read_text("utf-8") == page
    asked = call("--html", "--question", "Who is Ada?", "--embedder", "hashing", "-o", str(out))
    assert asked.exit_code == 0, asked.output
    assert "Question: Who is Ada?" in out.read_text("utf-8")

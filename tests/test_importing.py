"""Import of extractions that exist: nothing lost without being counted, nothing credited to a wrong text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stratagraph.errors import MissingExtra
from stratagraph.importing import (
    Imported,
    from_graph_documents,
    from_property_graph,
    read_graphrag,
    read_openie,
)
from stratagraph.ingest.loaders import read_documents
from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import Chunk, Document, EntityMention, RelationMention
from tests.ingest.graph.reference import grouped

GOLDEN = Path(__file__).with_name("golden") / "imports"


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def noted(imported: Imported, start: str) -> int:
    """The count of the one note that begins so; 0 if there is none."""
    found = [count for note, count in imported.notes.items() if note.startswith(start)]
    assert len(found) < 2
    return sum(found)


def check_whole(imported: Imported) -> None:
    """What every import promises, whatever it was made from."""
    keys = [item.ref or item.document_id for item in imported.documents if isinstance(item, Chunk)]
    assert len(keys) == len(set(keys))
    for extraction in imported.extractions.values():
        names = {canonical(entity.name) for entity in extraction.entities}
        used = [end for relation in extraction.relations for end in (relation.source, relation.target)]
        used += [name for unit in extraction.units for name in unit.entities]
        assert {canonical(name) for name in used} <= names
        assert "" not in names
        assert all(0.1 <= relation.strength <= 10 for relation in extraction.relations)


def test_openie_of_musique(shared_data):
    folder = shared_data / "musique_train100"
    imported = read_openie(folder / "openie.jsonl", documents=read_documents([folder / "corpus.jsonl"]))
    check_whole(imported)
    assert len(imported.documents) == len(imported.extractions) == 1890
    assert all(chunk.ref == chunk.document_id in imported.extractions for chunk in imported.documents)
    joined, facts = noted(imported, "triples of more than three"), noted(imported, "triples without two ends")
    assert (joined, facts, joined + facts) == (115, 70, 185)
    assert noted(imported, "passages without triples") == 2
    kept = sum(len(extraction.relations) for extraction in imported.extractions.values())
    triples = sum(len(record["triples"]) for record in rows(folder / "openie.jsonl"))
    kept_otherwise = ("relations of an entity to itself", "relations with an end", "relations stated twice")
    assert kept == triples - facts - sum(noted(imported, note) for note in kept_otherwise)


def plain(imported: Imported) -> dict[str, Any]:
    """What was imported, as golden files have it."""
    return {
        "documents": [
            [each.document_id, each.ref, each.ordinal, each.start, each.end, dict(each.metadata), each.text]
            for each in imported.documents
        ],
        "extractions": {
            key: {
                "units": [[unit.text, *unit.entities] for unit in found.units],
                "entities": [[entity.name, entity.type, entity.description] for entity in found.entities],
                "relations": [[r.source, r.target, r.description, r.strength] for r in found.relations],
            }
            for key, found in imported.extractions.items()
        },
        "reports": [
            [each.id, each.title, each.summary, each.rating, each.level, each.parent, *each.members]
            for each in imported.reports
        ],
        "notes": imported.notes,
    }


def check_golden(imported: Imported, name: str) -> None:
    """What a folder or file among the golden ones says was imported, and what every import promises."""
    check_whole(imported)
    path = GOLDEN / name / "expected.json" if (GOLDEN / name).is_dir() else GOLDEN / f"{name}.json"
    assert plain(imported) == json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("name", ["openie", "openie-triples", "openie-noise", "hipporag"])
def test_openie_is_imported_as_the_golden_file_says(name):
    (file,) = (GOLDEN / name).glob("openie*")
    check_golden(read_openie(file), name)


@pytest.mark.parametrize(
    ("name", "suffix", "listed"),
    [
        *(("graphrag", suffix, "") for suffix in (".parquet", ".jsonl", ".json")),
        *(("graphrag-older", ".parquet", ids) for ids in ('["u1", "u2"]', "['u1', 'u2']", "u1,u2", "u1, u2")),
        ("graphrag-noise", ".jsonl", ""),
    ],
)
def test_tables_of_graphrag_are_imported_as_the_golden_file_says(tmp_path, name, suffix, listed):
    tables = {file.stem: rows(file) for file in (GOLDEN / name).glob("*.jsonl")}
    for record in (record for records in tables.values() for record in records):
        if listed and record.get("text_unit_ids") == "u1,u2":
            record["text_unit_ids"] = listed
    check_golden(read_graphrag(write_tables(tmp_path / "output", suffix, **tables)), name)


def test_documents_of_the_callers_own_get_the_extractions_of_their_texts():
    mine = [Document("d1", "Ada lived in Bonn.", {"lang": "en"}), Document("d2", "Nothing known.")]
    matched = read_openie(GOLDEN / "hipporag" / "openie_results.json", documents=mine)
    assert matched.documents[0] == Chunk("Ada lived in Bonn.", "d1", 0, 0, 18, {"lang": "en"}, ref="d1")
    assert matched.documents[1] is mine[1]
    assert noted(matched, "documents without an extraction") == 1
    assert len(matched.extractions) == 2


FIRST = b'{"passage_id": "a", "entities": [], "triples": []}\n\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FIRST + b'{"passage_id": "b", "entities": [', r"openie\.jsonl:3: not JSON: .* at character 34"),
        (FIRST + b'["a list"]', r"openie\.jsonl:3: a JSON list where an object"),
        (FIRST + b'{"passage_id": "b", "text": "\xff"}', r"openie\.jsonl:3: not UTF-8"),
        (
            FIRST + b'{"id": "b", "text": "words"}',
            r"openie\.jsonl:3: neither entities nor triples; the keys are id",
        ),
        (FIRST + b'{"entities": ["Ada"], "triples": []}', r"openie\.jsonl:3: no passage id"),
        (FIRST + b"[" * 100_000, r"openie\.jsonl:3: not"),
        (b'{\n  "docs": [\n    {"idx": }\n  ]\n}', r"openie\.jsonl:3: not JSON"),
        (b'{\n  "other": 1\n}', r"openie\.jsonl: no passage id"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path, content, message):
    path = tmp_path / "openie.jsonl"
    path.write_bytes(content + b"\n")
    with pytest.raises(ValueError, match=message):
        read_openie(path)


def test_the_whole_christmas_carol(shared_data):
    folder = shared_data / "graphrag_christmas_carol"
    imported = read_graphrag(folder)
    check_whole(imported)
    assert noted(imported, "relations naming an entity that is not there") == 84
    assert len(imported.documents) == len(imported.extractions) == 42
    assert {chunk.document_id for chunk in imported.documents} == {"A Christmas Carol"}
    assert [chunk.ordinal for chunk in imported.documents] == list(range(42))

    entities, relations = rows(folder / "entities.jsonl"), rows(folder / "relationships.jsonl")
    mentions = {m.name: m for e in imported.extractions.values() for m in e.entities if m.description}
    assert all(mentions[row["name"]].description == row["description"].strip() for row in entities)
    for row in relations:  # the dangling ones among them
        strength = row["weight"] / len(row["text_unit_ids"])
        stated = RelationMention(row["source"], row["target"], row["description"].strip(), strength)
        holders = {key for key, found in imported.extractions.items() if stated in found.relations}
        assert holders == set(row["text_unit_ids"])

    assert len(imported.reports) == 122
    assert {report.level for report in imported.reports} == {0, 1, 2, 3}
    names = {row["name"] for row in entities}
    assert all(report.members and report.summary and report.rating for report in imported.reports)
    assert {member for report in imported.reports for member in report.members} <= names


def test_a_shared_description_is_counted_once_when_merged(shared_data):
    imported = read_graphrag(shared_data / "graphrag_christmas_carol")
    (entities, relations, _), _ = grouped(list(imported.extractions.values()))
    gutenberg = next(entity for entity in entities if entity.name == "PROJECT GUTENBERG")
    assert len(gutenberg.fragments) == 1
    assert len(gutenberg.chunks) > 1
    pair = next(r for r in relations if {r.source, r.target} == {"christmas carol", "charles dickens"})
    assert pair.weight == pytest.approx(20)


ENTITIES = [
    {"id": "e1", "human_readable_id": 0, "title": "ADA", "type": "PERSON", "description": "A poet."},
    {"id": "e2", "human_readable_id": 1, "title": "BEN", "type": "PERSON", "description": "A guest."},
]


def write_tables(folder, suffix=".parquet", **tables):
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in tables.items():
        if suffix == ".parquet":
            pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pyarrow.Table.from_pylist(records), folder / f"{name}.parquet")
        else:
            write_lines(folder / f"{name}{suffix}", records)
    return folder


def test_folders_that_hold_no_graphrag_index(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        read_graphrag(tmp_path / "missing")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"no table of entities and text_units .* found notes\.txt"):
        read_graphrag(tmp_path)
    write_tables(tmp_path, ".jsonl", entities=ENTITIES)
    with pytest.raises(ValueError, match="no table of text_units"):
        read_graphrag(tmp_path)


def test_a_damaged_parquet_file_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    write_tables(tmp_path, entities=ENTITIES)
    (tmp_path / "text_units.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"text_units\.parquet: not readable as parquet"):
        read_graphrag(tmp_path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    for name in ("entities", "text_units"):
        (tmp_path / f"{name}.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stratagraph\[parquet\]'"):
        read_graphrag(tmp_path)


@pytest.fixture
def llama():
    """The graph classes of LlamaIndex, by name."""
    types = pytest.importorskip("llama_index.core.graph_stores.types")
    schema = pytest.importorskip("llama_index.core.schema")
    stores = pytest.importorskip("llama_index.core.graph_stores")
    return SimpleNamespace(
        Store=stores.SimplePropertyGraphStore,
        TextNode=schema.TextNode,
        Relationship=schema.NodeRelationship,
        Related=schema.RelatedNodeInfo,
        Entity=types.EntityNode,
        Passage=types.ChunkNode,
        Relation=types.Relation,
    )


def text_nodes(llama):
    """Two passages of one document with what an extractor left in their metadata."""
    source = {llama.Relationship.SOURCE: llama.Related(node_id="doc")}

    def relation(label, target, **properties):
        return llama.Relation(label=label, source_id="Ada", target_id=target, properties=properties)

    ada, ben = llama.Entity(name="Ada", label="PERSON"), llama.Entity(name="Ben")
    poet = llama.Entity(name="Ada", label="PERSON", properties={"description": "A poet."})
    first = {"nodes": [ada, ben], "relations": [relation("MARRIED_TO", "Ben")], "page": 1}
    second = {"nodes": [poet], "relations": [relation("lived in", "Bonn", weight=4)], "page": 2}
    return [
        llama.TextNode(
            id_="n1",
            text="Ada married Ben.",
            metadata=first,
            relationships=source,
            start_char_idx=0,
            end_char_idx=16,
        ),
        llama.TextNode(id_="n2", text="Ada, a poet, lived in Bonn.", metadata=second, relationships=source),
    ]


def test_text_nodes_as_an_extractor_returns_them(llama):
    check_golden(from_property_graph(text_nodes(llama)), "text-nodes")


def stored(llama):
    """The same in a store, as an index writes it: passages first, each part with its passage's id."""
    store = llama.Store()
    nodes = text_nodes(llama)
    parts = [(node.metadata.pop("nodes"), node.metadata.pop("relations"), node.id_) for node in nodes]
    store.upsert_llama_nodes(nodes)
    for entities, relations, passage in parts:
        for part in (*entities, *relations):
            part.properties["triplet_source_id"] = passage
        store.upsert_nodes(entities)
        store.upsert_relations(relations)
    links = [("SOURCE", "n1", "doc"), ("SOURCE", "n2", "doc"), ("NEXT", "n1", "n2")]
    store.upsert_relations([llama.Relation(label=a, source_id=b, target_id=c) for a, b, c in links])
    return store


@pytest.mark.parametrize("form", ["store", "graph", "dict", "index"])
def test_a_store_in_each_of_its_forms(llama, form):
    store = stored(llama)
    forms = {"store": store, "graph": store.graph, "index": SimpleNamespace(property_graph_store=store)}
    check_golden(from_property_graph(store.to_dict() if form == "dict" else forms[form]), "graph-store")


def test_a_graph_without_texts_cites_itself(llama):
    nodes = [
        llama.Passage(id_="n1", text="Ada sang.", properties={"ref_doc_id": "None"}),
        llama.Entity(name="Ada"),
        llama.Entity(name="Ben", label="PERSON", properties={"description": "A guest."}),
        llama.Entity(name="Nobody"),
    ]
    relations = [
        llama.Relation(label="MENTIONS", source_id="n1", target_id="Ada"),
        llama.Relation(label="LEFT", source_id="Ben", target_id="Bonn"),
        llama.Relation(label="x", source_id="Ben", target_id="Ada", properties={"triplet_source_id": "gone"}),
    ]
    check_golden(from_property_graph([*nodes, *relations]), "graph-without-texts")


def test_a_chunk_node_without_an_id_is_named_by_its_text(llama):
    chunk, entity = llama.Passage(text="Ada sang."), llama.Entity(name="Ada")
    link = llama.Relation(label="MENTIONS", source_id=chunk.id, target_id="Ada")
    imported = from_property_graph([(chunk, link, entity)])
    assert imported.extractions[imported.documents[0].ref].entities == (EntityMention("Ada"),)
    assert imported.documents[0].ref != chunk.id  # which is another one in each process


def graph_document(source, nodes, edges):
    """What langchain_community's class of that name holds."""
    made = {name: SimpleNamespace(id=name, type=kind, properties=own) for name, kind, own in nodes}

    def node(name):
        return made.get(name) or SimpleNamespace(id=name, type="Node", properties={})

    relationships = [
        SimpleNamespace(source=node(a), type=kind, target=node(b), properties=own)
        for a, kind, b, own in edges
    ]
    return SimpleNamespace(nodes=list(made.values()), relationships=relationships, source=source)


def langchain_document(**fields):
    return pytest.importorskip("langchain_core.documents").Document(**fields)


def test_graph_documents():
    told = {"source": "tale.txt", "start_index": 5}
    given = [
        graph_document(
            langchain_document(page_content="Ada met Ben.", metadata=told),
            [("Ada", "Person", {"description": "A poet."}), ("Ben", "Node", {})],
            [
                ("Ada", "MET_WITH", "Ben", {}),
                ("Ada", "LIVES_IN", "Bonn", {"description": "Ada is from Bonn."}),
            ],
        ),
        graph_document(langchain_document(page_content="Ben left.", metadata={"source": "tale.txt"}), [], []),
        graph_document(langchain_document(page_content="Cleo came.", id="c"), [("Cleo", "Person", {})], []),
        graph_document(langchain_document(page_content="Cleo came.", id="c"), [("Cleo", "Person", {})], []),
    ]
    check_golden(from_graph_documents(given), "graph-documents")


def test_graph_documents_as_dictionaries_and_without_a_text():
    node = {"id": 7, "type": "Number", "properties": {}}
    edge = {"source": node, "target": {"id": "Ada"}, "type": "LUCKY_FOR", "properties": {}}
    source = {"page_content": "Seven.", "metadata": {}, "id": None}
    given = [
        {"nodes": [node], "relationships": [], "source": source},
        {"nodes": [node], "relationships": [edge], "source": None},
    ]
    check_golden(from_graph_documents(given), "graph-dictionaries")


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (from_property_graph, [42, "graph", {"nodes": {}}, [object()], [("a", "b")]]),
        (from_graph_documents, ["text", [object()], {"nodes": []}, graph_document(None, [], [])]),
    ],
)
def test_what_is_no_graph_is_refused(read, values):
    for value in values:
        with pytest.raises(TypeError, match=r"property graph|graph document"):
            read(value)


def test_openie_goes_to_the_callers_own_split(tmp_path):
    records = [{"passage_id": f"n{i}", "entities": ["Ada"], "triples": []} for i in (1, 2, 3)]
    chunks = [Chunk(f"Ada {i}", "doc", i, ref=f"n{i}") for i in (1, 2)]
    imported = read_openie(write_lines(tmp_path / "openie.jsonl", records), documents=chunks)
    assert imported.documents == chunks
    assert noted(imported, "passages that are not among the documents") == 1
    assert set(imported.extractions) == {"n1", "n2", "n3"}

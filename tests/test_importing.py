"""Import of extractions that exist: nothing lost without being counted, nothing credited to a wrong text."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from stratagraph.errors import MissingExtra
from stratagraph.importing import (
    Imported,
    from_graph_documents,
    from_property_graph,
    read_graphrag,
    read_openie,
)
from stratagraph.ingest.graph.merge import finish, merge
from stratagraph.ingest.loaders import read_documents
from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import (
    Chunk,
    Document,
    EntityMention,
    Extraction,
    RelationMention,
    SemanticUnit,
)


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


def test_openie_without_texts_has_extractions_only(tmp_path):
    record = {"passage_id": 7, "entities": ["Ada"], "triples": [["Ada", "wrote", "the letter"]]}
    imported = read_openie(write_lines(tmp_path / "openie.jsonl", [record]))
    fact = "Ada wrote the letter"
    assert not imported.documents
    assert imported.extractions == {
        "7": Extraction(
            (SemanticUnit(fact, ("Ada", "the letter")),),
            (EntityMention("Ada"), EntityMention("the letter")),
            (RelationMention("Ada", "the letter", fact),),
        )
    }
    assert imported.notes == {"ends of triples that are not listed: added as entities": 1}


@pytest.mark.parametrize(
    ("triple", "facts", "note"),
    [
        (["Ada", "joins", "Ben", "at", "Bonn"], ["Ada joins Ben at Bonn"], "triples of more than three"),
        (["Ada", "sang"], ["Ada sang"], "triples without two ends"),
        (["Ada", "", "Ben"], ["Ada Ben"], "triples with an empty part"),
        (["", "met", "Ben"], ["met Ben"], "triples without two ends"),
        ([["Ada", "met", "Ben"]], ["Ada met Ben"], "triples with lists inside"),
        (["Ada", "met", ["Ben", "Bob"]], ["Ada met Ben", "Ada met Bob"], "triples with lists inside"),
        ([["Ada", "Ben"], "met", ["Bob", "Cy"]], ["Ada, Ben met Bob, Cy"], "triples with lists inside"),
        (["Ada", "met", []], ["Ada met"], "triples with lists inside"),
        (["Ada", "born in", 1815], ["Ada born in 1815"], None),
        ({"subject": "Ada", "predicate": "met", "object": "Ben"}, ["Ada met Ben"], None),
        (["Ada", "Ada met Ben in Bonn.", "Ben"], ["Ada met Ben in Bonn."], None),
        (["Ada", "is", "ADA"], ["Ada is ADA"], "relations of an entity to itself"),
        (["Ada", "costs", "$"], ["Ada costs $"], "relations with an end"),
        (["Ada", "said", "word " * 100], ["Ada said " + ("word " * 100).strip()], "relations with an end"),
        (["Ada"], [], "triples that are no triples"),
        ([], [], "triples that are no triples"),
        ([[[[["Ada", "met", "Ben"]]]]], [], "triples that are no triples"),
        (["Ada", None, None], [], "triples that are no triples"),
        ("Ada met Ben", [], "triples that are no triples"),
        (None, [], "triples that are no triples"),
    ],
)
def test_what_is_no_triple_is_read_or_counted(tmp_path, triple, facts, note):
    record = {"passage_id": "p", "entities": ["Ada", "Ben", "Bob", "Bonn", "1815"], "triples": [triple]}
    imported = read_openie(write_lines(tmp_path / "openie.jsonl", [record]))
    check_whole(imported)
    assert [unit.text for unit in imported.extractions["p"].units] == facts
    if note:
        assert noted(imported, note) == 1
    else:
        assert not imported.notes


def test_noise_among_entities_is_counted(tmp_path):
    noisy = ["Ada", "ADA", "", "?!", None, {"name": "Ben"}, "x" * 201, ["Bonn"], True]
    records = [
        {"passage_id": "a", "entities": noisy, "triples": [["Ada", "met", "Ben"]] * 2},
        {"passage_id": "b", "entities": [], "triples": []},
        {"passage_id": "a", "entities": "Cleo", "triples": [["Ada", "met", "Cleo"]]},
    ]
    imported = read_openie(write_lines(tmp_path / "openie.jsonl", records))
    assert [entity.name for entity in imported.extractions["a"].entities] == ["Ada", "Ben", "Cleo"]
    assert imported.extractions["b"] == Extraction()
    assert imported.notes == {
        "entities listed twice in a passage: taken once": 1,
        "entities whose name is too long, or no word: left out": 6,
        "entities or triples that are no list: taken as a list of one": 1,
        "relations stated twice in a passage: taken once": 1,
        "passages listed twice: extractions joined": 1,
        "passages without triples: kept with their entities": 1,
        "passages without anything: kept with an empty extraction": 1,
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_hipporag_file_brings_its_texts(tmp_path, indent):
    found = {"extracted_entities": ["Ada"], "extracted_triples": [["Ada", "lived in", "Bonn"]]}
    docs = [{"idx": "chunk-1", "passage": "Ada lived in Bonn.", **found}]
    docs.append({"title": "Ada", "passage": "Ada\nShe lived in Bonn.", **found})
    path = tmp_path / "openie_results.json"
    path.write_text(json.dumps({"docs": docs, "avg_ent_chars": 3.0}, indent=indent), encoding="utf-8")
    imported = read_openie(path)
    check_whole(imported)
    first, second = imported.documents
    assert (first.text, first.document_id, first.ref, first.end) == (
        "Ada lived in Bonn.",
        "chunk-1",
        "chunk-1",
        18,
    )
    assert second.metadata == {"title": "Ada"}
    assert list(imported.extractions) == ["chunk-1", second.ref]

    mine = [Document("d1", "Ada lived in Bonn.", {"lang": "en"}), Document("d2", "Nothing known.")]
    matched = read_openie(path, documents=mine)
    assert matched.documents[0] == Chunk("Ada lived in Bonn.", "d1", 0, 0, 18, {"lang": "en"}, ref="d1")
    assert matched.documents[1] is mine[1]
    assert noted(matched, "documents without an extraction") == 1
    assert set(matched.extractions) == {"d1", second.ref}


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
    merged = finish(merge(enumerate(imported.extractions.values())))
    gutenberg = next(entity for entity in merged.entities if entity.name == "PROJECT GUTENBERG")
    assert len(gutenberg.fragments) == 1
    assert len(gutenberg.chunks) > 1
    pair = next(r for r in merged.relations if {r.source, r.target} == {"christmas carol", "charles dickens"})
    assert pair.weight == pytest.approx(20)


UNITS = [
    {"id": "u1", "text": "Ada met Ben.", "document_ids": ["d"], "n_tokens": 4},
    {"id": "u2", "text": "Ben left Bonn.", "document_ids": ["d"], "n_tokens": 4},
]
ENTITIES = [
    {"id": "e1", "human_readable_id": 0, "title": "ADA", "type": "PERSON", "description": "A poet."},
    {"id": "e2", "human_readable_id": 1, "title": "BEN", "type": "PERSON", "description": "A guest."},
]
RELATION = {"id": "r1", "source": "ADA", "target": "BEN", "description": "They met.", "weight": 3.0}
COMMUNITIES = [{"id": "c", "community": 4, "level": 1, "parent": -1, "entity_ids": ["e1", "e2"]}]
REPORTS = [{"id": "x", "community": 4, "level": 1, "title": "Friends", "summary": "Two.", "rank": 7.5}]


def write_tables(folder, suffix=".parquet", **tables):
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in tables.items():
        if suffix == ".parquet":
            pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pyarrow.Table.from_pylist(records), folder / f"{name}.parquet")
        else:
            write_lines(folder / f"{name}{suffix}", records)
    return folder


def in_units(records, *units):
    return [{**record, "text_unit_ids": ids} for record, ids in zip(records, units, strict=True)]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json"])
def test_the_tables_of_current_graphrag(tmp_path, suffix):
    claim = {"id": "v", "subject_id": "CY", "object_id": "NO", "description": "Cy fled.", "text_unit_id": ""}
    write_tables(
        tmp_path / "output",
        suffix,
        text_units=UNITS[::-1],
        entities=in_units([*ENTITIES, {"id": "e3", "title": "CY"}], ["u1"], ["u1", "u2"], ["u1"]),
        relationships=[{**RELATION, "text_unit_ids": ["u1", "u2", "gone"]}],
        documents=[{"id": "d", "title": "tale.txt", "text": "...", "text_unit_ids": ["u1", "u2"]}],
        communities=[*COMMUNITIES, {**COMMUNITIES[0], "id": "c2", "community": 5}],
        community_reports=REPORTS,
        covariates=[claim, {**claim, "text_unit_id": "u2"}],
    )
    imported = read_graphrag(tmp_path)
    check_whole(imported)
    title = {"title": "tale.txt"}
    assert imported.documents == [
        Chunk("Ada met Ben.", "d", 0, metadata=title, ref="u1"),
        Chunk("Ben left Bonn.", "d", 1, metadata=title, ref="u2"),
    ]
    assert imported.extractions["u1"].relations == (RelationMention("ADA", "BEN", "They met.", 1.5),)
    assert imported.extractions["u1"].units == (SemanticUnit("They met.", ("ADA", "BEN")),)
    assert EntityMention("ADA") in imported.extractions["u2"].entities  # its description is not from there
    assert SemanticUnit("Cy fled.", ("CY",)) in imported.extractions["u2"].units
    (report,) = imported.reports
    assert (report.id, report.rating, report.level, report.parent) == ("4", 7.5, 1, "")
    assert report.members == ("ADA", "BEN")
    assert imported.notes == {
        "references to text units that are not there: left out": 1,
        "ends of relations and claims that their text unit does not list: added as entities": 2,
        "claims without text or text unit: left out": 1,
        "communities without a report: left out": 1,
    }


@pytest.mark.parametrize("listed", ['["u1", "u2"]', "['u1', 'u2']", "u1,u2", "u1, u2"])
def test_the_tables_and_columns_of_older_graphrag(tmp_path, listed):
    names = [{"name": entity["title"], **entity} for entity in ENTITIES]
    for record in names:
        del record["title"]
    write_tables(
        tmp_path,
        create_final_text_units=[
            {"id": "u1", "text": "Ada met Ben.", "relationship_ids": ["r2"]},
            {"id": "u2", "text": "Ben left Bonn.", "relationship_ids": []},
        ],
        create_final_entities=[{**record, "text_unit_ids": listed} for record in names],
        create_final_relationships=[
            {**RELATION, "text_unit_ids": listed, "weight": float("nan")},
            {**RELATION, "id": "r2", "target": "CARL", "text_unit_ids": ""},
            {**RELATION, "id": "r3", "text_unit_ids": ""},
        ],
        create_final_nodes=[{"title": name["name"], "community": "4", "level": 0} for name in names],
        create_final_community_reports=[{**REPORTS[0], "community": 4.0, "parent": 2.0}],
    )
    imported = read_graphrag(tmp_path)
    check_whole(imported)
    assert [chunk.document_id for chunk in imported.documents] == ["u1", "u2"]
    assert RelationMention("ADA", "BEN", "They met.", 1.0) in imported.extractions["u2"].relations
    assert RelationMention("ADA", "CARL", "They met.", 3.0) in imported.extractions["u1"].relations
    assert (imported.reports[0].id, imported.reports[0].parent) == ("4", "2")
    assert imported.reports[0].members == ("ADA", "BEN")
    assert noted(imported, "relations naming an entity that is not there") == 1
    assert noted(imported, "relations of no text unit") == 1
    assert noted(imported, "text units that name no document: each") == 2


def test_noisy_text_units_are_counted(tmp_path):
    units = [
        *UNITS,
        UNITS[0],
        {"id": "u3", "text": " "},
        {"id": "u4", "text": "x", "document_ids": ["d", "e"]},
    ]
    entities = [*in_units(ENTITIES, ["u1"], ["u3"]), {"id": "e3", "title": " ", "text_unit_ids": ["u1"]}]
    write_tables(tmp_path, ".jsonl", text_units=units, entities=entities, relationships=[])
    imported = read_graphrag(tmp_path)
    assert [chunk.ref for chunk in imported.documents] == ["u1", "u2", "u4"]
    assert imported.notes == {
        "text units whose id came before: left out": 1,
        "text units without id or text: left out": 1,
        "text units of several documents: given to the first": 1,
        "references to text units that are not there: left out": 1,
        "entities of no text unit: left out, nothing says where they are from": 1,
        "entities whose name is too long, or no word: left out": 1,
        "passages without anything: kept with an empty extraction": 2,
        "table of community_reports not found: imported without": 1,
    }


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
    imported = from_property_graph(text_nodes(llama))
    check_whole(imported)
    assert imported.documents == [
        Chunk("Ada married Ben.", "doc", 0, 0, 16, {"page": 1}, ref="n1"),
        Chunk("Ada, a poet, lived in Bonn.", "doc", 1, metadata={"page": 2}, ref="n2"),
    ]
    assert imported.extractions["n1"] == Extraction(
        (SemanticUnit("Ada married to Ben", ("Ada", "Ben")),),
        (EntityMention("Ada", "PERSON"), EntityMention("Ben")),
        (RelationMention("Ada", "Ben", "Ada married to Ben"),),
    )
    assert imported.extractions["n2"].entities[0] == EntityMention("Ada", "PERSON", "A poet.")
    assert imported.extractions["n2"].relations[0].strength == 4
    assert imported.notes == {"relations naming an entity that is not there: kept, both ends as entities": 1}


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
    imported = from_property_graph(store.to_dict() if form == "dict" else forms[form])
    check_whole(imported)
    first, second = imported.documents
    assert (first.ref, first.document_id, first.start, first.end) == ("n1", "doc", 0, 16)
    assert (second.ref, second.ordinal, second.metadata) == ("n2", 1, {"page": 2})
    assert imported.extractions["n1"].relations == (RelationMention("Ada", "Ben", "Ada married to Ben"),)
    assert EntityMention("Ada", "PERSON", "A poet.") in imported.extractions["n2"].entities
    assert EntityMention("Ada", "PERSON") in imported.extractions["n1"].entities  # described in n2 alone
    assert "doc" not in {e.name for found in imported.extractions.values() for e in found.entities}
    assert imported.notes == {
        "links between passages and documents: left out, chunks know their documents": 3,
    }


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
    imported = from_property_graph([*nodes, *relations])
    check_whole(imported)
    assert imported.extractions["n1"] == Extraction((), (EntityMention("Ada"),))
    passage, own = imported.documents
    assert (passage.document_id, own.ref, own.document_id) == ("n1", "graph:Ben", "graph:Ben")
    assert own.text == "Ben (PERSON): A guest.\nBen left Bonn\nBen x Ada"
    assert own.metadata == {"origin": "graph"}
    assert {r.target for r in imported.extractions["graph:Ben"].relations} == {"Bonn", "Ada"}
    assert noted(imported, "relations without a source text") == 2
    assert noted(imported, "entities without a source text") == 1
    assert noted(imported, "entities without source text, description or relation") == 1


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
    imported = from_graph_documents(given)
    check_whole(imported)
    first, second, third = imported.documents
    assert (first.document_id, first.ordinal, first.start, first.end) == ("tale.txt", 0, 5, 17)
    assert (second.document_id, second.ordinal) == ("tale.txt", 1)
    assert (third.document_id, third.ref) == ("c", "c")
    assert imported.extractions[first.ref] == Extraction(
        (
            SemanticUnit("Ada met with Ben", ("Ada", "Ben")),
            SemanticUnit("Ada is from Bonn.", ("Ada", "Bonn")),
        ),
        (EntityMention("Ada", "Person", "A poet."), EntityMention("Ben"), EntityMention("Bonn")),
        (
            RelationMention("Ada", "Ben", "Ada met with Ben"),
            RelationMention("Ada", "Bonn", "Ada is from Bonn."),
        ),
    )
    assert imported.notes == {
        "relations naming an entity that is not there: kept, both ends as entities": 1,
        "graph documents of the same source: extractions joined": 1,
        "passages without anything: kept with an empty extraction": 1,
    }


def test_graph_documents_as_dictionaries_and_without_a_text():
    node = {"id": 7, "type": "Number", "properties": {}}
    edge = {"source": node, "target": {"id": "Ada"}, "type": "LUCKY_FOR", "properties": {}}
    source = {"page_content": "Seven.", "metadata": {}, "id": None}
    imported = from_graph_documents(
        [
            {"nodes": [node], "relationships": [], "source": source},
            {"nodes": [node], "relationships": [edge], "source": None},
        ]
    )
    check_whole(imported)
    text, own = imported.documents
    assert imported.extractions[text.ref] == Extraction((), (EntityMention("7", "Number"),))
    assert (own.text, own.ref) == ("7 lucky for Ada", "graph:7")
    assert noted(imported, "relations without a source text") == 1


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

"""What held when: documents dated by a metadata field, `as_of` and `recency`."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from langchain_core.documents import Document as LangDocument
from llama_index.core import Document as LlamaDocument

import stratagraph as sg
from langchain_stratagraph import PPRRetriever, StrataVectorStore, create_search_tool
from llama_index_stratagraph import WalkIndex
from stratagraph.cli.main import main
from stratagraph.methods import NAMES
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.types.dates import day_of

QUESTION = "Who is the chief executive of Acme?"
DATED: dict[str, Any] = {
    "Jane Roe": "2021-05-01",
    "John Doe": 2024,
    "Max Holt": "03/04/2025",
    "Ida Berg": datetime.date(2022, 2, 3),
}


def documents() -> list[sg.Document]:
    return [
        sg.Document(name, f"The chief executive of Acme is {name}.", {"published": day, "team": "a"})
        for name, day in DATED.items()
    ]


@pytest.fixture(scope="module", params=[None, 2], ids=["one", "shards"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sg.Index:
    shared: dict[str, Any] = {
        "method": list(NAMES),
        "embedder": "hashing",
        "progress": False,
        "date_key": "published",
    }
    path = tmp_path_factory.mktemp("dated") / "idx"
    if request.param is None:
        return sg.build_index(documents(), path=path, **shared)
    return sg.build_shards(documents(), path, request.param, **shared)


@pytest.mark.parametrize(
    ("value", "last", "text"),
    [
        ("2024", "2024-12-31", "2024"),
        (2024, "2024-12-31", "2024"),
        (2024.0, "2024-12-31", "2024"),
        ("2023-02", "2023-02-28", "2023-02"),
        ("2024-02", "2024-02-29", "2024-02"),
        ("2024-06-30T23:10:00+02:00", "2024-06-30", "2024-06-30"),
        (" 20240630 ", "2024-06-30", "2024-06-30"),
    ],
)
def test_a_date_counts_to_its_last_day(value: object, last: str, text: str) -> None:
    assert day_of(value) == (datetime.date.fromisoformat(last), text)


@pytest.mark.parametrize(
    "value",
    ["03/04/2024", "2024-13", "2024-06-31", "June 2024", "2024-06-30x", "", "0000", 77, True, None, ["2024"]],
)
def test_other_forms_are_not_guessed(value: object) -> None:
    assert day_of(value) is None


@pytest.mark.parametrize("method", ["walk", *NAMES])
def test_as_of_shows_what_was_there_by_then_through_every_level(index: sg.Index, method: str) -> None:
    found = index.retrieve(QUESTION, 20, method=method, as_of="2022")
    assert {name for hit in found for name in hit.documents} == {"Jane Roe", "Ida Berg"}
    assert found.undated == 1
    assert found.filtered
    assert "Doe" not in str(found.context())
    assert "Holt" not in str(found.context())
    earliest = index.retrieve(QUESTION, 20, method=method, as_of=datetime.date(2021, 12, 31))
    assert {name for hit in earliest for name in hit.documents} == {"Jane Roe"}


def test_a_list_is_no_date_and_only_the_age_between_results_counts() -> None:
    days = {"new": "2019-12-01", "old": "2019-01-01", "list": ["2001", "2002"], "far": "2099-01-01"}
    texts = [sg.Document(name, f"Acme is in {name}.", {"day": day, "t": name}) for name, day in days.items()]
    with sg.build_index(texts, date_key="day", embedder="hashing", progress=False) as built:
        assert {hit.documents[0] for hit in built.retrieve("Acme", as_of="2022")} == {"new", "old"}
        found = built.retrieve("Where is Acme?", recency=5, where={"t": ["new", "old"]})
        assert [hit.documents[0] for hit in found] == ["new", "old"]
        assert found.trace[0]["recency"] == 1.0  # which tells nothing of what the filter hides
        assert "1 document without a date is hidden" in built.retrieve("Acme", as_of="2022").note


def test_as_of_narrows_a_filter(index: sg.Index) -> None:
    where = {"published": {"$gt": "2021-12-31"}}
    found = index.retrieve(QUESTION, where=where, as_of="2022-03", method="walk")
    assert [hit.documents for hit in found] == [("Ida Berg",)]
    assert not index.retrieve(QUESTION, where={"team": "b"}, as_of="2024", method="walk").hits


@pytest.mark.parametrize("method", ["walk", *NAMES])
def test_recency_puts_the_newest_first(index: sg.Index, method: str) -> None:
    found = index.retrieve(QUESTION, method=method, recency=200)
    assert found[0].documents == ("John Doe",)
    assert found[0].date == "2024"
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    then = index.retrieve(QUESTION, method=method, recency=200, as_of="2022-12-31")
    assert then[0].documents == ("Ida Berg",)


def test_a_context_tells_dates_within_its_budget(index: sg.Index) -> None:
    found = index.retrieve(QUESTION, method="walk", as_of="2023", recency=365)
    assert found.context().text.startswith("[1] (2022-02-03; newer (before: Jane Roe, 2021-05-01)) The ")
    for budget in (8, 20, 40, 80):
        assert found.context(budget).tokens <= budget
    assert "(2021-05-01) " in index.answer(QUESTION, as_of="2021", method="walk").text


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (
            "The chief executive of Acme is Jane Roe.",
            "Since 2024, the chief executive of Acme is Ed Doe.",
            "Jane Roe",
        ),
        ("Jane Roe is the mayor of Hathe.", "Ed Doe is the mayor of Hathe.", "Jane Roe"),
        ("Acme has 300 employees in Oslo.", "Acme now has 350 employees in Oslo.", "300"),
        ("Acme is headquartered in Paris.", "Acme is headquartered in Rome.", "Paris"),
        ("The ferry to Ostra leaves at 7:00.", "The ferry to Ostra leaves at 8:30.", "7:00"),
        ("# Lark 2023\n\nPrice: 40 EUR", "# Lark 2024\n\nPrice: 45 EUR", "40"),
        ("Price: 40 EUR", "Price: 45 EUR", ""),
        ("Invoice 77 totals 400 euros.", "Invoice 78 totals 500 euros.", ""),
        ("Jane Roe is an engineer at Acme.", "Ed Doe is an engineer at Acme.", ""),
        ("Acme opened an office in Paris.", "Acme opened an office in Rome.", ""),
        ("The 2021 budget of Acme is 5 million.", "The 2022 budget of Acme is 6 million.", ""),
        ("Room 4 holds 20 people.", "Room 5 holds 30 people.", ""),
        ("Acme is headquartered in Paris.", "Acme is headquartered in Paris.", ""),
        ("The capital of France is Paris.", "The capital of Spain is Paris.", ""),
        ("The chief of Acme is Ed Doe.", "The chief of Acme is Jane Roe. The chief of Acme is Ed Doe.", ""),
        ("An office of Acme is located in Paris.", "An office of Acme is located in Rome.", ""),
        ("Acme has a fleet of 10,000 ships.", "Acme has a fleet of 10000 ships.", ""),
        ("Acme opened 3 shops.", "Acme opened 5 shops.", ""),
    ],
)
def test_the_newer_of_two_versions_is_marked(old: str, new: str, value: str) -> None:
    texts = {"old": (old, "2021"), "new": (new, "2024")}
    given = [sg.Document(name, text, {"day": day}) for name, (text, day) in texts.items()]
    with sg.build_index(given, date_key="day", embedder="hashing", progress=False) as index:
        found = index.retrieve(new)
        before = {hit.documents[0]: hit.before for hit in found}
        assert before == {"old": "", "new": f"{value}, 2021" if value else ""}
        assert (f"(2024; newer (before: {value}, 2021))" in found.context().text) == bool(value)
        assert index.answer(found).text.count("newer") == bool(value)


def test_what_cannot_be_dated_is_said(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"embedder": "hashing", "progress": False}
    with sg.build_index(documents(), **shared) as undated, pytest.raises(ValueError, match="date_key"):
        undated.retrieve(QUESTION, as_of="2024")
    with sg.build_index(documents(), date_key="team", **shared) as wrong:
        with pytest.raises(ValueError, match=r"no document has one.*'team'"):
            wrong.retrieve(QUESTION, recency=3)
        assert wrong.last_report is not None
        assert wrong.last_report.notes == {"documents without a date in 'team'": 4}
    with sg.build_index(documents(), date_key="published", **shared) as dated:
        assert dated.last_report is not None
        assert dated.last_report.notes == {"documents without a date in 'published'": 1}
        for wrong_date in ("yesterday", "", "03/04/2024", True):
            with pytest.raises(ValueError, match="as_of must be a date"):
                dated.retrieve(QUESTION, as_of=wrong_date)
        for half_life in (0, -1, "3", float("inf"), True, 10**400, 1e-320):
            with pytest.raises(ValueError, match="recency must be a half-life"):
                dated.retrieve(QUESTION, recency=half_life)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="date_key must be the name"):
        sg.build_index(documents(), config={"date_key": 3}, **shared)


def test_a_folder_gets_its_dates_later(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"path": tmp_path / "idx", "embedder": "hashing", "progress": False}
    sg.build_index(documents(), **shared).close()
    sg.build_index(documents(), date_key="published", **shared).close()
    with sg.open_index(tmp_path / "idx", embedder="hashing") as again:
        assert again.retrieve(QUESTION, as_of="2021")[0].documents == ("Jane Roe",)
        again.insert([sg.Document("new", "The chief executive of Acme is Eve Lund.", {"published": "2020"})])
        assert again.retrieve(QUESTION, as_of="2020")[0].documents == ("new",)


def test_both_frameworks_take_dates() -> None:
    texts = {each.id: (each.text, {"published": str(each.metadata["published"])}) for each in documents()}
    retriever = PPRRetriever.from_documents(
        [LangDocument(text, metadata=metadata, id=name) for name, (text, metadata) in texts.items()],
        embedding="hashing",
        date_key="published",
        as_of="2022",
    )
    found = retriever.invoke(QUESTION)
    assert {document.metadata["stratagraph_date"] for document in found} == {"2021-05-01", "2022-02-03"}
    (newest,) = retriever.invoke(QUESTION, recency=100, k=1)
    assert "Ida Berg" in newest.page_content
    for later in (retriever, retriever.bind(as_of="2024")):  # a call only narrows
        assert not any("2024" in each.page_content for each in later.invoke(QUESTION))
    assert len(retriever.invoke(QUESTION, as_of="2021")) == 1
    assert retriever.as_document_index().get(["John Doe", "Jane Roe"])[0].id == "Jane Roe"
    assert "2 documents" in create_search_tool(retriever).description
    index = WalkIndex.from_documents(
        [LlamaDocument(text=text, metadata=metadata, id_=name) for name, (text, metadata) in texts.items()],
        embed_model=HashingEmbedder(),
        date_key="published",
    )
    nodes = index.as_retriever(as_of="2021").retrieve(QUESTION)
    assert [node.node.ref_doc_id for node in nodes] == ["Jane Roe"]
    assert "1 document" in index.as_retriever_tool(as_of="2021").metadata.description
    given = [LangDocument(text, metadata=metadata, id=name) for name, (text, metadata) in texts.items()]
    store = StrataVectorStore.from_documents(given, "hashing", date_key="published", as_of="2022")
    vector = store.index.embeddings([store.index.find_chunks(["John Doe"])[0].id])[0].tolist()
    assert all("John Doe" not in each.page_content for each in store.similarity_search_by_vector(vector, k=4))
    assert [each.id for each in store.get_by_ids(["John Doe", "Ida Berg"])] == ["Ida Berg"]
    with pytest.raises(TypeError, match="takes filter and as_of, and no 'min_score'"):
        store.similarity_search_by_vector(vector, min_score=0.9)


def test_the_command_line_takes_dates(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    rows = [{"id": d.id, "text": d.text, "published": str(d.metadata["published"])} for d in documents()]
    notes.write_text("\n".join(map(json.dumps, rows)))
    idx, run = str(tmp_path / "idx"), CliRunner()
    arguments = ["build", str(notes), "-o", idx, "--embedder", "hashing", "--date-key", "published"]
    built = run.invoke(main, arguments)
    assert built.exit_code == 0
    assert "documents without a date in 'published'" in built.output
    asked = run.invoke(main, ["query", idx, QUESTION, "--as-of", "2021", "--no-answer"])
    assert "(2021-05-01) The chief executive of Acme is Jane Roe." in asked.output
    assert "Doe" not in asked.output
    wrong = run.invoke(main, ["query", idx, QUESTION, "--as-of", "soon"])
    assert wrong.exit_code != 0
    assert "as_of must be a date" in wrong.output

"""Mistakes of the first hour: each is refused at once, and the message says what to do instead."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.cli.lines import report_lines
from stratagraph.errors import ClosedIndex, EmbedderMismatch, NotAnIndex
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

DOCUMENTS = [
    sg.Document("ferry", "The ferry to Ostra leaves at seven.", {"year": 1901}),
    sg.Document("brook", "Ada Brook is the captain of the ferry.", {"year": 1902}),
]


PARTS = ("chunking", "extraction", "limits")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sg.Index]:
    path = tmp_path_factory.mktemp("newcomer") / "idx"
    with sg.build_index(DOCUMENTS, "lshtree", path, embedder=FakeEmbedder(), progress=False) as index:
        yield index


def build(documents: Any = DOCUMENTS, *arguments: Any, **settings: Any) -> sg.Index:
    return sg.build_index(
        documents, *arguments, **{"embedder": FakeEmbedder(), "progress": False, **settings}
    )


@pytest.mark.parametrize("documents", [None, 3, Path("notes"), "notes", {"text": "x"}, DOCUMENTS[0]])
def test_one_thing_instead_of_documents(index: sg.Index, documents: Any) -> None:
    for call in (build, sg.estimate, index.insert, index.estimate):
        with pytest.raises(TypeError, match=r"pass \[text\], for files pass read_documents\(\[path\]\)"):
            call(documents)


@pytest.mark.parametrize("framework", ["langchain_core.documents", "llama_index.core.schema"])
def test_documents_of_a_framework_are_sent_to_its_classes(framework: str) -> None:
    kind = pytest.importorskip(framework).Document
    item = kind(page_content="x") if framework.startswith("langchain") else kind(text="x")
    with pytest.raises(
        TypeError, match=f"{framework.partition('.')[0]}.*langchain_stratagraph, llama_index_"
    ):
        build([item])


NO_DOCUMENT = r"document 1 is of type \S+; give strings.*read_documents"
NO_JSON = r"metadata of document 'a' is not JSON: "
NO_METHOD = "a name or a list of names of walk, lshtree, archrag, noderag, hirag"
NO_EXTRACTION = r"of what an importer returns, give `\.extractions`"


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "message"),
    [
        *(
            (([DOCUMENTS[0], item],), {}, TypeError, NO_DOCUMENT)
            for item in (Path("notes"), {"text": "x"}, None)
        ),
        (([DOCUMENTS[0], ("id", "text")],), {}, TypeError, NO_DOCUMENT),
        (([sg.Document("a", "text", None)],), {}, ValueError, NO_JSON + "it is of type NoneType"),
        (([sg.Document("a", "text", {"o": object()})],), {}, ValueError, NO_JSON + ".*'o'.*builtins.object"),
        (([sg.Document("a", "text", {"b": 1, 7: 2})],), {}, ValueError, NO_JSON + ".*the key 7 of type int"),
        ((DOCUMENTS, 7), {}, TypeError, NO_METHOD),
        ((DOCUMENTS, []), {}, ValueError, "at least one method of lshtree"),
        (
            (),
            {"llm": ScriptedChatModel},
            TypeError,
            r"not the class ScriptedChatModel: give ScriptedChatModel\(\)",
        ),
        ((), {"embedder": FakeEmbedder}, TypeError, r"not the class FakeEmbedder: give FakeEmbedder\(\)"),
        ((), {"embedder": "all-minilm-l12"}, ValueError, r"'all-minilm-l12'.*'minilm' and 'hashing'"),
        *(((), {"config": {part: 100}}, TypeError, f"{part} must be a .*, not 100") for part in PARTS),
        ((), {"progress": "yes"}, TypeError, "True, False or a Progress of your own, not 'yes'"),
        ((), {"extraction": [sg.Extraction()]}, TypeError, NO_EXTRACTION),
        ((), {"extraction": sg.Imported([], {}, {})}, TypeError, NO_EXTRACTION),
    ],
)
def test_a_build_refuses(arguments: Any, settings: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(*arguments, **settings)


@pytest.mark.parametrize("option", ["top_k", "similarity_top_k", "filter", "n_results"])
def test_an_argument_by_another_librarys_name(index: sg.Index, option: str) -> None:
    for call in (index.retrieve, index.answer):
        with pytest.raises(
            TypeError, match=f"no argument '{option}': it takes k, method, view, where, .*k_per_level"
        ):
            call("When does the ferry leave?", **{option: 3})


A_FILTER = r"a mapping such as \{'year': \{'\$gte': 1901\}\}.*'year > 1901'"


@pytest.mark.parametrize(
    ("call", "given", "settings", "error", "message"),
    [
        ("retrieve", " ", {}, ValueError, "blank: ' '; give the words"),
        (
            "retrieve",
            ["Who?", "When?"],
            {},
            TypeError,
            "not list; for several questions there is retrieve_many",
        ),
        ("answer", {"question": "Who?"}, {}, TypeError, r"must be a string, not dict$"),
        ("retrieve", "ferry", {"where": "year > 1901"}, TypeError, A_FILTER),
        ("delete", None, {}, TypeError, "a string or a list of strings, not NoneType"),
        ("answer", "When?", {"max_tokens": 0}, ValueError, "max_tokens must be"),
        ("answer", "When?", {"max_tokens": "100"}, TypeError, "max_tokens must be"),
        ("stream", "When?", {"max_tokens": None}, TypeError, "max_tokens must be"),
    ],
)
def test_an_index_refuses(
    index: sg.Index, call: str, given: Any, settings: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(getattr(index, call)(given, **settings))


def test_arrays_whose_texts_are_alike_are_different_filters(index: sg.Index) -> None:
    years = [np.arange(5000) * 10, np.arange(5000) * 10]
    years[1][2500] = 1901
    assert repr(years[0]) == repr(years[1])
    found = [index.retrieve("ferry", where={"year": {"$in": each}}).hits for each in years]
    assert not found[0]
    assert {hit.documents for hit in found[1]} == {("ferry",)}


def test_opening_without_the_embedder_of_the_build(index: sg.Index) -> None:
    with pytest.raises(EmbedderMismatch, match=r"with 'fake-64'.*none was given.*\(embedder=\.\.\.\)"):
        sg.open_index(index.path)
    with pytest.raises(EmbedderMismatch, match=r"with 'fake-64'.*embedder given is 'fake-32'"):
        sg.open_index(index.path, embedder=FakeEmbedder(32))


def test_opening_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(NotAnIndex, match=r"holds nothing.*the path of build_index"):
        sg.open_index(tmp_path)


def test_asking_after_closing(tmp_path: Path) -> None:
    kept, temporary = build(path=tmp_path / "idx"), build()
    assert kept.documents()
    for each in (kept, temporary):
        each.close()
        each.close()
    for read in (kept.documents, kept.chunks, lambda: kept.retrieve("ferry")):
        with pytest.raises(ClosedIndex, match="open it again with open_index"):
            read()
    with pytest.raises(ClosedIndex, match=r"was a temporary one; .*path=\.\.\."):
        temporary.retrieve("ferry")


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("ordinal", ["1", True, 1.0, np.int64(1)], "a whole number"),
        ("text", [2], "a string"),
        ("prefix", [None], "a string"),
    ],
)
def test_fields_of_a_chunk_of_another_type(field: str, values: list[Any], expected: str) -> None:
    for value in values:
        chunk = sg.Chunk(**{"text": "Two.", "document_id": "ferry", field: value})
        with pytest.raises(TypeError, match=f"chunk 1, of document 'ferry': {field} must be {expected}, not"):
            sg.build_index([sg.Chunk("One.", "ferry"), chunk], progress=False)


def test_a_budget_of_another_kind() -> None:
    with pytest.raises(TypeError, match="calls must be a number, got '100'"):
        sg.Budget("100")  # type: ignore[arg-type]


def test_an_asynchronous_model_under_the_synchronous_name(index: sg.Index) -> None:
    class Model:
        name = "model"

        async def complete(self, prompt: str, *, schema: Any = None) -> str:
            return "seven"

    with pytest.warns(RuntimeWarning, match=r"returned coroutine .*`async def acomplete`"):
        index.answer("When does the ferry leave?", llm=Model())


def test_small_sums_are_not_shown_as_nothing() -> None:
    bill = sg.estimate(DOCUMENTS, "noderag", llm=ScriptedChatModel(), prices=sg.Prices(0.15, 0.60))
    assert bill.cost is not None
    assert 0 < bill.cost < 0.005
    assert f"cost: {bill.cost:.4f}" in str(bill)


@pytest.mark.parametrize("value", ["3", 2.5, True, None])
def test_llama_index_k_that_is_no_number(index: sg.Index, value: Any) -> None:
    adapters = pytest.importorskip("llama_index_stratagraph")
    with pytest.raises(TypeError, match="similarity_top_k must be a whole number"):
        adapters.LSHTreeIndex(core=index).as_retriever(similarity_top_k=value)


def test_a_report_of_an_update_is_a_few_lines_without_zeros() -> None:
    with build() as index:
        report = index.insert(["Tomas Quill <b>kept</b> the lamp."])
    lines = repr(report).splitlines()
    assert lines[0] == "BuildReport of insert, generation 2"
    assert "  documents: 3 in 3 chunks" in lines
    assert "  changes: 1 added" in lines
    assert len(lines) <= 6
    assert not any(re.search(r"=0[,)]", repr(usage)) for usage in report.stages.values())
    assert report._repr_html_().count("<tr>") == len(lines) - 1


def test_a_report_shows_the_notes_that_count_most() -> None:
    notes = {f"small {n}": 1 for n in range(40)} | {"large": 7, "nothing": 0}
    report = sg.BuildReport("build", 1, 1, 1, {}, notes=notes)
    assert "7 large; and 29 other notes" in repr(report)
    assert "nothing" not in repr(report)
    lines = list(report_lines(report, "idx"))
    assert sum(line.startswith("note: small") for line in lines) == 11
    assert "note: 29 other notes; --json lists all" in lines


def test_an_open_index_after_asyncio_run_leaves_nothing_to_say_at_exit() -> None:
    script = (
        "import asyncio, stratagraph as sg\n"
        "async def main():\n"
        "    index = await sg.abuild_index(['Ada met Bo.'], embedder='hashing', progress=False)\n"
        "    await index.aretrieve('Who met Bo?')\n"
        "    return index\n"
        "index = asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

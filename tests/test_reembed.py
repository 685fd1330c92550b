"""Other vectors over the same extraction: no call extracts again, and the index is that of a new build."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratagraph as sg
from stratagraph import demo
from stratagraph.cli.main import main
from stratagraph.errors import BudgetExceeded, EmbedderError, EmbedderMismatch, SettingsConflict
from stratagraph.testing import FakeEmbedder
from tests.clients.writer import written

DOCUMENTS = demo.documents()[:10]
METHODS = ["walk", "lshtree", "archrag", "noderag", "hirag"]
OLD, NEW = FakeEmbedder(32), "hashing"


class Writer:
    """A model that writes the same to the same prompt, and counts its calls by the prompt's beginning."""

    name = "writer"

    def __init__(self) -> None:
        self.calls = 0

    def complete(self, prompt: Any, *, schema: Any = None) -> str:
        self.calls += 1
        return written(f"{prompt.system}\n{prompt.user}")


def build(method: str, path: Path | None, embedder: Any = OLD, llm: Any = None, **settings: Any) -> sg.Index:
    return sg.build_index(DOCUMENTS, method, path, llm=llm, embedder=embedder, progress=False, **settings)


def contents(index: sg.Index) -> Any:
    """All nodes and the graph, in no order: rows may differ."""
    nodes = {
        method: Counter((n.id, n.kind, n.level, n.text) for n in index.nodes(method))
        for method in index.methods
    }
    return nodes, Counter(map(str, index.entities())), Counter(map(str, index.relations())), index.levels


def hits(index: sg.Index) -> list[tuple[str, str]]:
    return [(hit.id, f"{hit.score:.4f}") for hit in index.retrieve("Who kept the lamp of Cape Ellery?", k=8)]


@pytest.mark.parametrize(("method", "cached"), [("lshtree", True), *((each, False) for each in METHODS)])
def test_the_index_is_that_of_a_new_build_and_nothing_is_extracted_again(
    method: str, cached: bool, tmp_path: Path
) -> None:
    model = Writer()
    build(method, tmp_path / "idx", llm=model).close()
    if not cached:
        (tmp_path / "idx" / "calls.sqlite").unlink(missing_ok=True)
    with sg.open_index(tmp_path / "idx", model, OLD) as index:
        told, before = index.estimate_reembed(NEW), model.calls
        report = index.reembed(NEW)
        assert "extract" not in report.stages or not report.stages["extract"].calls
        assert model.calls - before == report.usage.calls
        # Hashed vectors of expected summaries stand in for the new ones.
        assert told.calls == pytest.approx(report.usage.calls, rel=0.3, abs=1)
        assert (report.operation, report.generation, report.documents) == ("reembed", 2, len(DOCUMENTS))
        with build(method, None, NEW, Writer()) as fresh:
            assert contents(index)[:3] == contents(fresh)[:3]
            assert hits(index) == hits(fresh)
        assert index.verify() == []
    with pytest.raises(EmbedderMismatch, match=r"index\.reembed"):
        sg.open_index(tmp_path / "idx", model, OLD)
    with sg.open_index(tmp_path / "idx", model) as index:  # the recorded name is that of a local embedder
        index.insert(["The lamp of Cape Ellery was sold in 1902."])
        assert "sold in 1902" in index.retrieve("When was the lamp sold?", k=1).hits[0].text


def test_the_same_embedder_changes_nothing_and_says_so(tmp_path: Path) -> None:
    with build("lshtree", tmp_path / "idx") as index:
        report = index.reembed(FakeEmbedder(32))
        assert (report.generation, index.generation) == (1, 1)
        assert list(report.notes) == ["nothing done: the vectors are of this embedder already"]


def test_a_failing_embedder_or_a_small_budget_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    class Failing(FakeEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            raise RuntimeError("no such server")

    with build("archrag", tmp_path / "idx", llm=Writer()) as index:
        before = hits(index)
        with pytest.raises(EmbedderError, match="no such server"):
            index.reembed(Failing(48))
        assert hits(index) == before
    (tmp_path / "idx" / "calls.sqlite").unlink()
    with sg.open_index(tmp_path / "idx", Writer(), OLD, budget=sg.Budget(calls=0)) as index:
        with pytest.raises(BudgetExceeded):
            index.reembed(NEW)
        assert hits(index) == before
    with sg.open_index(tmp_path / "idx", embedder=OLD) as index, pytest.raises(SettingsConflict, match="llm"):
        index.reembed(NEW)


def test_shards_are_refused_and_told_what_to_do(tmp_path: Path) -> None:
    with (
        sg.build_shards(DOCUMENTS, path=tmp_path / "idx", shards=2, embedder=OLD, progress=False) as index,
        pytest.raises(ValueError, match=r"extraction=dict\(index\.extractions\(\)\)"),
    ):
        index.reembed(NEW)


def test_the_same_object_is_pickled_with_the_new_embedder(tmp_path: Path) -> None:
    with build("walk", tmp_path / "idx") as index:
        asyncio.run(index.areembed(NEW))
        with pickle.loads(pickle.dumps(index)) as again:
            assert hits(again) == hits(index)


def test_the_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "idx")
    build("walk", tmp_path / "idx").close()

    def call(*arguments: str, code: int = 0) -> str:
        found = CliRunner().invoke(main, ["reembed", path, *arguments])
        assert found.exit_code == code, found.output
        return found.output

    assert "--embedder is needed" in call(code=2)
    assert "cost: 0" in call("--embedder", "hashing", "--estimate")
    with sg.open_index(path, embedder=OLD) as index:
        assert index.generation == 1
    assert "generation 2" in call("--embedder", "hashing")
    assert "of this embedder already" in call("--embedder", "hashing")

"""The contract where things go wrong half-way: cancelling, other models, stale views, hostile answers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.errors import ModelError, SettingsConflict
from stratagraph.store.staging import Staging
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import (
    Caller,
    CountingModel,
    assert_equal_states,
    documents,
    state,
    state_after_update,
    written_summary,
)

BOTH = pytest.mark.parametrize("case", ["lshtree-sync", "lshtree-async"], indirect=True)


@pytest.mark.parametrize("step", ["add", "assemble", "put_part", "publish"])
async def test_a_cancelled_insert_lets_go_only_when_it_has_stopped(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = "archrag"
    index = await sg.abuild_index(
        documents(30), method, tmp_path / "idx", embedder=FakeEmbedder(), progress=False
    )
    before = state(index, method)
    original = getattr(Staging, step)
    working: list[str] = []
    go_on = threading.Event()

    def slow(self: Staging, *args: Any, **kwargs: Any) -> Any:
        working.append("begun")
        go_on.wait(60)
        result = original(self, *args, **kwargs)
        working.append("ended")
        return result

    monkeypatch.setattr(Staging, step, slow)
    task = asyncio.create_task(index.ainsert(documents(5, start=30)))
    while not working:
        await asyncio.sleep(0.01)
    task.cancel()
    asyncio.get_running_loop().call_later(0.1, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert working.count("begun") == working.count("ended")
    monkeypatch.setattr(Staging, step, original)
    with await sg.aopen_index(tmp_path / "idx", embedder=FakeEmbedder()) as again:
        assert again.verify() == []
        if again.generation == 1:
            assert_equal_states(state(again, method), before)
        await again.ainsert(documents(5, start=30))
        assert again.verify() == []
        assert again.stats()["documents"] == 35


@BOTH
def test_a_model_that_ends_the_process_ends_the_build(call: Caller, method: str) -> None:
    class Quitter:
        def complete(self, prompt: str) -> str:
            raise SystemExit("no key")

    with pytest.raises(ModelError, match="SystemExit: no key"):
        call.build(documents(30), method=method, llm=Quitter())
    assert call.build(documents(5), method=method).generation == 1


def test_what_a_model_failed_at_is_made_good_by_the_next_update(call: Caller, method: str) -> None:
    refused: list[str] = []

    def sometimes(prompt: str) -> str:
        first = prompt.split("<passages>")[-1]
        if len(refused) < 4 or any(known in prompt for known in refused):
            refused.append(first[:200])
            return ""
        return written_summary(prompt)

    model = CountingModel(sometimes)
    index = call.build(documents(48), method=method, llm=model, config={"max_failures": 1.0})
    assert index.last_report.failures
    model._answer = written_summary
    report = call(index, "insert", documents(48))
    assert len(report.unchanged) == 48
    assert report.failures == ()
    healthy = call.build(documents(48), method=method, llm=CountingModel())
    assert_equal_states(state_after_update(index, method), state_after_update(healthy, method))
    asked = len(model.prompts)
    call(index, "insert", documents(48))
    assert len(model.prompts) == asked


def test_a_model_over_an_index_made_without_one(call: Caller, method: str, tmp_path: Path) -> None:
    call.build(documents(40), method=method, path=tmp_path / "idx").close()
    model = CountingModel()
    index = call.build(documents(40), method=method, path=tmp_path / "idx", llm=model)
    assert model.prompts
    assert state_after_update(index, method) == state_after_update(
        call.build(documents(40), method=method, llm=CountingModel()), method
    )


def test_without_a_model_what_one_made_is_kept(call: Caller, method: str, tmp_path: Path) -> None:
    call.build(documents(60), method=method, path=tmp_path / "idx", llm=CountingModel()).close()
    index = call(sg, "open_index", tmp_path / "idx", embedder=FakeEmbedder())
    call(index, "insert", documents(1, start=60))
    makers = [node[5]["by"] for node in state(index, method)[method]["nodes"] if "by" in node[5]]
    assert makers.count("model") > len(makers) / 2


def test_two_objects_on_one_folder(call: Caller, method: str, tmp_path: Path) -> None:
    one = call.build(documents(20), method=method, path=tmp_path / "idx")
    two = call(sg, "open_index", tmp_path / "idx", embedder=FakeEmbedder())
    call(two, "insert", documents(1, start=20))
    call(two, "delete", "doc-001")
    assert one.generation == 1
    with pytest.raises(KeyError, match="doc-001"):
        call(one, "delete", "doc-001")
    assert call(one, "delete", "doc-001", missing_ok=True).deleted == ()
    assert call(one, "delete", "doc-020").deleted == ("doc-020",)
    fresh = call.build([d for d in documents(20) if d.id != "doc-001"], method=method)
    assert_equal_states(state_after_update(one, method), state_after_update(fresh, method))


@BOTH
def test_an_update_to_blank_text_deletes(call: Caller, method: str) -> None:
    index = call.build(documents(20), method=method)
    report = call(index, "insert", [sg.Document("doc-003", "  \n")])
    assert report.deleted == ("doc-003",)
    assert "doc-003" not in index.documents()


@BOTH
def test_a_method_with_another_config_is_built_again(call: Caller) -> None:
    index = call.build(documents(60), method="lshtree")
    before = index.stats()["methods"]["lshtree"]["nodes"]["summaries"]
    call(index, "add_method", "lshtree", {"min_cluster": 2, "max_cluster": 4})
    assert index.stats()["methods"]["lshtree"]["nodes"]["summaries"] > before
    assert index.generation == 2


@BOTH
def test_limits_are_not_settings_of_the_index(call: Caller, method: str, tmp_path: Path) -> None:
    call.build(documents(10), method=method, path=tmp_path / "idx").close()
    again = call.build(
        documents(10), method=method, path=tmp_path / "idx", config={"limits": {"concurrency": 2}}
    )
    assert again.generation == 1
    with pytest.raises(SettingsConflict, match=r"chunking\.size is 300, not 100 as given.*rebuild=True"):
        call.build(
            documents(10),
            method=method,
            path=tmp_path / "idx",
            config={"chunking": {"size": 100, "overlap": 5}},
        )


@BOTH
def test_no_hits_no_question_to_the_model(call: Caller, method: str) -> None:
    model = CountingModel()
    index = call.build(documents(20), method=method, llm=model)
    asked = len(model.prompts)
    answer = call(index, "answer", "ferry", where={"topic": "nowhere"})
    assert "".join(index.stream("ferry", where={"topic": "nowhere"})) == answer.text

    async def collect() -> str:
        return "".join([piece async for piece in index.astream("ferry", where={"topic": "nowhere"})])

    assert asyncio.run(collect()) == answer.text
    assert len(model.prompts) == asked


def test_a_lone_surrogate_in_an_answer_is_replaced(call: Caller, method: str) -> None:
    model = CountingModel(lambda prompt: "half a character \ud800 here, " + written_summary(prompt))
    index = call.build(documents(30), method=method, llm=model)
    assert index.verify() == []


@BOTH
def test_texts_without_a_vector_are_reported(call: Caller, method: str) -> None:
    index = call.build(["!!! ???", "an ordinary text"], method=method)
    assert index.last_report.notes["texts without a vector, not found by similarity"] >= 1


@BOTH
def test_what_is_no_model_is_refused_before_anything_is_read(call: Caller, method: str) -> None:
    def never() -> Any:
        raise AssertionError("the documents were read")
        yield

    for wrong in ({"llm": "gpt-4"}, {"embedder": "openai"}, {"llm": 4}, {"embedder": 4}, {"budget": 5}):
        error = ValueError if isinstance(next(iter(wrong.values())), str) else TypeError
        with pytest.raises(error, match=next(iter(wrong))):
            call.build(never(), method=method, **wrong)


@BOTH
def test_settings_that_do_not_exist_are_named(call: Caller, method: str) -> None:
    for config, message in (
        ({"tokenizer": "bogus"}, "bogus"),
        ({"prompts": {"bogus/x": ""}}, "bogus/x"),
        ({"chunk": {}}, "chunk"),
        ({"chunking": {"sise": 3}}, "sise"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call.build(documents(3), method=method, config=config)


@BOTH
def test_a_list_of_questions_is_not_one(call: Caller, method: str) -> None:
    index = call.build(documents(6), method=method)
    with pytest.raises(TypeError, match="list"):
        call(index, "retrieve_many", "ferry")
    assert [r.query for r in call(index, "retrieve_many", ["ferry", "pear"], k=2)] == ["ferry", "pear"]


@BOTH
def test_the_path_of_a_file_is_not_taken_for_a_text(
    call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b.md").write_text("Ada wrote to Bremen.", "utf-8")
    with pytest.raises(ValueError, match=r"document 1 is 'a b\.md'.*read_documents"):
        call.build(["Ada wrote.", "a b.md"], path="idx")
    assert not Path("idx").exists()
    with pytest.warns(UserWarning, match=r"'letters/a\.md', which looks like a path.*read_documents"):
        call.build(["letters/a.md", "A text that ends in a name, as in see a.md"])


@BOTH
def test_metadata_that_is_no_json_or_nested_deeply_is_refused(call: Caller, tmp_path: Path) -> None:
    def nested(levels: int) -> dict[str, Any]:
        found: dict[str, Any] = {"a": 1}
        for level in range(levels - 1):
            found = {"a": [found]} if level % 2 else {"a": found}
        return found

    for value, told in (
        (nested(250), "nested deeper than 20 levels"),
        ({"when": float("inf")}, "not JSON"),
        ({"when": object()}, "not JSON"),
    ):
        for item in (sg.Document("a", "Ada wrote.", value), sg.Chunk("Ada wrote.", "a", metadata=value)):
            with pytest.raises(ValueError, match=f"document 'a' is {told}"):
                call.build([item], path=tmp_path / "idx")
            assert not (tmp_path / "idx").exists()
    index = call.build([sg.Document("a", "Ada wrote.", nested(14))])
    assert index.documents()["a"] == nested(14)

"""Builds through batch files, whose lines a model server answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("openai")

import stratagraph as sg
from stratagraph import demo
from stratagraph.cli.main import main
from stratagraph.cli.options import load_model
from stratagraph.errors import Damaged, EmbedderMismatch, NotAnIndex, TooManyFailures
from stratagraph.methods import NAMES
from stratagraph.models.batching import BatchRequest, write_requests
from stratagraph.models.providers import OpenAIChatModel
from tests.clients.openai import batched
from tests.clients.server import ModelServer, first
from tests.clients.writer import written

DOCUMENTS = list(demo.documents())[:6]
EMBEDDER = "hashing"


def name(server: ModelServer) -> str:
    return f"openai:m@{server.openai}"


def run(server: ModelServer, files: Any, results: Path) -> Path:
    """Let the server answer batch files, and write its results."""
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    found = [json.dumps(batched(server, json.loads(line))) for line in lines]
    results.write_text("\n".join(found), "utf-8")
    return results


ONE_CALL_PER_CHUNK = {"extraction": {"form": "full"}}


class Batch:
    """A build in batches in a folder of its own; `change` may spoil the results of each round."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder, self.server = folder, server
        self.path, self.requests, self.results = (folder / each for each in ("idx", "r.jsonl", "res.jsonl"))

    def write(self, documents: Any = DOCUMENTS, method: Any = "archrag", **keywords: Any) -> sg.batch.Pending:
        models = {"llm": name(self.server), "embedder": EMBEDDER}
        arguments = {"path": self.path, "method": method, "config": ONE_CALL_PER_CHUNK, **models}
        return sg.batch.write(documents, self.requests, **(arguments | keywords))

    def read(self, **keywords: Any) -> sg.batch.Pending:
        arguments = {"path": self.path, "embedder": EMBEDDER, **keywords}
        return sg.batch.read(self.results, self.requests, **arguments)

    def round(
        self, pending: sg.batch.Pending, change: Callable[[list[str]], list[str]] = list
    ) -> sg.batch.Pending:
        run(self.server, pending.files, self.results)
        self.results.write_text("\n".join(change(self.results.read_text("utf-8").splitlines())), "utf-8")
        return self.read()

    def finish(self, pending: sg.batch.Pending, most: int = 12) -> list[sg.batch.Pending]:
        rounds = [pending]
        while not rounds[-1].done:
            assert len(rounds) < most
            rounds.append(self.round(rounds[-1]))
        return rounds


def built(server: ModelServer, path: Path, method: Any = "archrag", documents: Any = DOCUMENTS) -> sg.Index:
    return sg.build_index(
        documents,
        method=method,
        path=path,
        llm=name(server),
        embedder=EMBEDDER,
        config=ONE_CALL_PER_CHUNK,
        progress=False,
    )


def contents(index: sg.Index) -> Any:
    """All that a model may have had a part in."""
    nodes = {
        method: [(each.id, each.kind, each.text, each.members, each.sources) for each in index.nodes(method)]
        for method in index.methods
    }
    return nodes, list(index.entities()), list(index.relations()), list(index.units())


def chats(server: ModelServer) -> int:
    """Requests that were made one by one."""
    return sum(path.endswith("/chat/completions") for path in server.paths)


def test_a_build_in_batches_is_a_build(tmp_path: Path) -> None:
    method = list(NAMES)
    with ModelServer() as live, ModelServer() as later:
        batch = Batch(tmp_path, later)
        rounds = batch.finish(batch.write(method=method))
        assert len(rounds) <= 8  # whatever the number of methods: they share their rounds
        assert rounds[-1].report is not None
        assert not rounds[-1].report.failures
        assert sum(each.answered for each in rounds) == later.requests
        with built(later, batch.path, method) as one, built(live, tmp_path / "live", method) as other:
            assert contents(one) == contents(other)
            assert one.stats()["spent"] == other.stats()["spent"]
            assert rounds[-1].report.usage.input_tokens == other.last_report.usage.input_tokens
        assert later.requests == live.requests
        assert chats(later) == 0
        written_out, sent = (sorted(json.dumps(b, sort_keys=True) for b in s.bodies) for s in (later, live))
        assert written_out == sent


def test_passages_that_share_a_call_come_through_and_those_that_failed_are_asked_about_alone(
    tmp_path: Path,
) -> None:
    config = {"extraction": {"mode": "llm", "form": "sentences"}}
    texts = [f"Ada {at} met Bo {at} at the gate." for at in range(9)]
    documents = [sg.Document(f"d{at}", text) for at, text in enumerate(texts)]

    def without_the_first(lines: list[str]) -> list[str]:
        values = [json.loads(line) for line in lines]
        for value in values:
            message = value["response"]["body"]["choices"][0]["message"]
            names = json.loads(message["content"])
            if len(names["sentences"]) > 1:
                message["content"] = json.dumps({**names, "sentences": names["sentences"][1:]})
        return list(map(json.dumps, values))

    with ModelServer() as server:
        batch = Batch(tmp_path, server)
        pending = batch.write(documents, "lshtree", config=config)
        assert len(batch.requests.read_text("utf-8").splitlines()) == 2
        pending = batch.round(pending, without_the_first)
        assert len(batch.requests.read_text("utf-8").splitlines()) == 1
        last = batch.finish(pending)[-1]
        assert last.report is not None
        assert not last.report.failures
        with sg.open_index(batch.path, embedder=EMBEDDER) as index:
            (ada,) = [entity for entity in index.entities() if entity.id == "ada"]
            assert ada.documents == tuple(f"d{at}" for at in range(9))


def spoilt(lines: list[str]) -> list[str]:
    """Results as they come in bad days: each kind of fault once."""
    values = [json.loads(line) for line in lines]
    foreign = {**values[0], "custom_id": "somebody-elses"}
    values[1]["response"] = {"status_code": 500, "body": {"error": {"message": "The server had an error."}}}
    values[2] = {"id": "x", "custom_id": values[2]["custom_id"], "response": None, "error": _EXPIRED}
    answer = values[3]["response"]["body"]["choices"][0]
    answer["message"]["content"] = "I would rather not."
    cut = values[4]["response"]["body"]["choices"][0]
    cut["finish_reason"], cut["message"]["content"] = "length", cut["message"]["content"][:60]
    kept = [json.dumps(value) for value in (*values[:5], *values[6:], foreign, values[0])]
    return [*kept, '{"custom_id": ', "[]", '{"custom_id": 3}', ""]


_EXPIRED = {"code": "batch_expired", "message": "This request could not be executed."}


def test_what_is_wrong_with_results_is_named_and_loses_nothing(tmp_path: Path) -> None:
    with ModelServer() as live, ModelServer() as server:
        batch = Batch(tmp_path, server)
        begun = batch.write()
        ids = [json.loads(line)["custom_id"] for line in batch.requests.read_text("utf-8").splitlines()]
        found = batch.round(begun, spoilt)
        assert found.answered == len(ids) - 3  # the two that cannot be used were taken and read
        assert list(found.again) == [ids[1], ids[2], ids[5]]
        assert "batch_expired" in found.again[ids[2]]
        assert found.ignored[0].startswith(f"{ids[0]}: several lines")
        assert "line 8" in found.ignored[1]
        assert found.ignored[4] == "somebody-elses: nobody asked for it"
        asked = [json.loads(line) for line in batch.requests.read_text("utf-8").splitlines()]
        assert [each["custom_id"] for each in asked] == [
            ids[1], ids[2], f"{ids[3]}-2", f"{ids[4]}-2", ids[5]
        ]  # fmt: skip
        assert "could not be used" in str(asked[2]["body"]["messages"])
        for word in ("3 asked again", "5 calls", "5 ignored in the results"):
            assert word in str(found)
        assert batch.finish(found)[-1].done
        with built(server, batch.path) as one, built(live, tmp_path / "live") as other:
            assert contents(one) == contents(other)
        assert chats(server) == 0


def test_results_may_be_read_twice_and_in_parts(tmp_path: Path) -> None:
    with ModelServer() as server:
        batch = Batch(tmp_path, server)
        begun = batch.write()
        half = batch.round(begun, lambda lines: lines[:3])
        assert (half.answered, half.calls) == (3, begun.calls - 3)
        again = batch.read()
        assert (again.answered, again.calls) == (0, half.calls)
        assert [each.partition(": ")[2] for each in again.ignored] == ["taken before"] * 3
        other = tmp_path / "other.jsonl"
        run(server, again.files, other)
        both = sg.batch.read([batch.results, other], batch.requests, path=batch.path, embedder=EMBEDDER)
        assert both.answered == half.calls
        assert not both.again
        assert batch.finish(both)[-1].done


def _as_live(spoil: Callable[[str, str], str], tmp_path: Path, mode: Any = "ok") -> sg.batch.Pending:
    """A batch and a live build with a model that always goes wrong at the same texts: both are equal."""
    servers = [ModelServer(mode, write=lambda prompt: spoil(prompt, written(prompt))) for _ in range(2)]
    with servers[0] as live, servers[1] as later:
        batch = Batch(tmp_path, later)
        end = batch.finish(batch.write())[-1]
        with sg.open_index(batch.path, embedder=EMBEDDER) as one, built(live, tmp_path / "live") as other:
            assert contents(one) == contents(other)
            assert other.last_report is not None
            assert end.report is not None
            assert [(each.stage, each.item) for each in end.report.failures] == [
                (each.stage, each.item) for each in other.last_report.failures
            ]
        assert later.requests == live.requests
        return end


def test_two_unreadable_answers_are_a_failure_of_their_unit_as_they_are_live(tmp_path: Path) -> None:
    passage = DOCUMENTS[2].text[:60]
    end = _as_live(
        lambda prompt, text: "no" if "<passage" in prompt and passage in prompt else text, tmp_path
    )
    assert len(end.failures) == 1
    assert "in the repaired answer" in end.failures[0].reason
    assert "failed for good" in str(end)


def test_too_many_failures_end_the_build_and_are_asked_again(tmp_path: Path) -> None:
    with ModelServer(first(4, "context")) as server:
        batch = Batch(tmp_path, server)
        begun = batch.write()
        with pytest.raises(TooManyFailures, match="maximum context length"):
            batch.round(begun)
        batch.results.write_text(json.dumps({"custom_id": "x", "response": None, "error": {"code": "?"}}))
        assert batch.read().calls == 4


def test_a_server_that_refuses_temperature_and_schemas(tmp_path: Path) -> None:
    with ModelServer(supports=()) as server:
        batch = Batch(tmp_path, server)
        begun = batch.write()
        assert all("response_format" in json.loads(line)["body"] for line in batch.requests.open())
        refused = batch.round(begun)
        assert refused.calls == begun.calls == len(refused.again)
        assert not any("response_format" in json.loads(line)["body"] for line in batch.requests.open())
        server.mode = lambda number: "400"
        cold = batch.round(refused)
        assert cold.calls == begun.calls
        assert not any("temperature" in json.loads(line)["body"] for line in batch.requests.open())
        server.mode = "ok"
        later = batch.round(cold)
        assert later.answered == begun.calls
        assert not any("temperature" in json.loads(line)["body"] for line in batch.requests.open())


def test_an_insert_in_batches(tmp_path: Path) -> None:
    with ModelServer() as live, ModelServer() as server:
        built(server, tmp_path / "idx", documents=DOCUMENTS[:4]).close()
        before = chats(server)
        batch = Batch(tmp_path, server)
        with pytest.raises(ValueError, match="holds an index of archrag"):
            batch.write(DOCUMENTS[4:], method="hirag")
        pending = batch.write(DOCUMENTS[4:], method=None)
        assert pending.stages["extract"].calls == 2
        end = batch.finish(pending)[-1]
        assert end.report is not None
        assert end.report.operation == "insert"
        with built(live, tmp_path / "live", documents=DOCUMENTS[:4]) as other:
            other.insert(DOCUMENTS[4:])
            with sg.open_index(batch.path, embedder=EMBEDDER) as one:
                assert contents(one) == contents(other)
        assert chats(server) == before


def test_rows_that_a_file_has_no_more_are_deleted_by_batches(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,text\na,Ada wrote to Bo.\nb,Bo met Cy in Rome.\n")
    with ModelServer() as server:
        built(server, tmp_path / "idx", documents=sg.read_documents(table)).close()
        table.write_text("id,text\na,Ada wrote to Cy.\n")
        batch = Batch(tmp_path, server)
        pending = batch.write(sg.read_documents(table), method=None)
        assert not pending.done
        report = batch.finish(pending)[-1].report
        assert report is not None
        assert (report.updated, report.deleted) == (("table.csv:a",), ("table.csv:b",))


def test_documents_of_all_kinds_and_extractions_come_through(tmp_path: Path) -> None:
    chunks = [sg.Chunk(f"Bo met Cy in {place}.", "c", at) for at, place in enumerate(("Rome", "Oslo"))]
    streamed = sg.StreamedDocument("s", lambda: iter(["Ada wrote ", "the letter."]), {"year": 1843})
    pages = sg.Document("pages", "Ada met Cy." + " " * 40 + "Bo met Cy.", {}, (sg.Section(0, {"page": 1}),))
    given = {"plain": sg.Extraction(entities=(sg.EntityMention("Given", "person", "A name."),))}
    documents = ["Ada saw Bo.", sg.Document("plain", "Nothing."), streamed, pages, *chunks]
    with ModelServer() as server:
        batch = Batch(tmp_path, server)
        pending = batch.write(iter(documents), extraction=given)
        assert pending.stages["extract"].calls == 5
        assert batch.finish(pending)[-1].done
        with sg.open_index(batch.path, embedder=EMBEDDER) as index:
            assert set(index.documents()) >= {"plain", "s", "c", "pages"}
            assert len(index.documents()) == 5
            assert index.chunks()["pages"][0].metadata["page"] == 1
            assert index.documents()["s"] == {"year": 1843}
            assert "given" in {each.id for each in index.entities()}


def test_an_embedder_by_name_is_remembered(tmp_path: Path) -> None:
    with ModelServer() as server:
        for given in ("hashing", f"openai:e@{server.openai}", f"ollama:e@{server.ollama}"):
            batch = Batch(tmp_path / given.partition(":")[0], server)
            batch.folder.mkdir()
            command_line = given != "hashing"
            pending = batch.write(
                DOCUMENTS[:2], embedder=load_model("embedder", given) if command_line else given
            )
            run(server, pending.files, batch.results)
            assert batch.read(embedder=None).answered == pending.calls


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    with ModelServer() as server:
        batch = Batch(tmp_path, server)
        with pytest.raises(TypeError, match=r"OpenAI's protocol.*OllamaChatModel"):
            batch.write(llm=f"ollama:m@{server.ollama}")
        assert not batch.path.exists()
        with pytest.raises(ValueError, match="needs a model"):
            batch.write(llm=None)
        with pytest.raises(TypeError, match="must be a list"):
            batch.write("one text")
        begun = batch.write()
        run(server, begun.files, batch.results)
        with pytest.raises(NotAnIndex, match=r"batch\.write"):
            batch.read(path=tmp_path / "nowhere")
        with pytest.raises(ValueError, match=r"asks m .*and llm is other"):
            batch.read(llm=f"openai:other@{server.openai}")
        with pytest.raises(EmbedderMismatch, match="begun with embedder"):
            batch.read(embedder=f"openai:e@{server.openai}")
        empty = tmp_path / "empty.jsonl"
        empty.write_text("\nnot a line\n")
        with pytest.raises(ValueError, match=r"no result of a batch.*line 2: not JSON"):
            sg.batch.read(empty, batch.requests, path=batch.path, embedder=EMBEDDER)
        assert batch.finish(batch.read())[-1].done
        with pytest.raises(ValueError, match="no batch is under way"):
            batch.read()
        assert not (batch.path / "journal.sqlite").exists()


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    import sqlite3

    with ModelServer() as server:
        batch = Batch(tmp_path, server)
        run(server, batch.write().files, batch.results)
    with sqlite3.connect(batch.path / "journal.sqlite") as connection:
        connection.execute("UPDATE inputs SET value = '{}' WHERE position = 0")
    connection.close()
    with pytest.raises(Damaged, match="what it holds of a batch"):
        batch.read()


def test_no_key_is_needed_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    pending = sg.batch.write(
        DOCUMENTS[:2], tmp_path / "r.jsonl", path=tmp_path / "idx", llm="openai:gpt-4o-mini", method="hirag"
    )
    assert pending.calls == 1  # both documents are short
    line = json.loads((tmp_path / "r.jsonl").read_text("utf-8").splitlines()[0])
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"]["model"] == "gpt-4o-mini"
    assert line["body"]["response_format"]["type"] == "json_schema"


def test_files_hold_what_a_service_takes(tmp_path: Path) -> None:
    requests = [
        BatchRequest(str(n), "s", "i", {"model": "a" if n < 7 else "b", "n": "x" * 50}, 1, 1)
        for n in range(9)
    ]
    files = write_requests(requests, tmp_path / "r.jsonl", most_lines=3)
    assert [file.name for file in files] == ["r.jsonl", "r.2.jsonl", "r.3.jsonl", "r.4.jsonl"]
    assert [len(file.read_text().splitlines()) for file in files] == [3, 3, 1, 2]
    assert len(write_requests(requests, tmp_path / "small.jsonl", most_bytes=300)) > 4
    assert not list(tmp_path.glob("*.part"))


def test_the_asynchronous_twins_and_a_cache_that_another_folder_shares(tmp_path: Path) -> None:
    cache = tmp_path / "calls"

    async def go(server: ModelServer) -> sg.batch.Pending:
        where: dict[str, Any] = {"path": tmp_path / "idx", "embedder": EMBEDDER, "cache": cache}
        requests, results = tmp_path / "r.jsonl", tmp_path / "res.jsonl"
        pending = await sg.batch.awrite(DOCUMENTS[:3], requests, llm=name(server), method="archrag", **where)
        while not pending.done:
            await asyncio.to_thread(run, server, pending.files, results)
            pending = await sg.batch.aread(results, requests, **where)
        return pending

    with ModelServer() as server:
        assert asyncio.run(go(server)).done
        models: Any = {"llm": OpenAIChatModel("m", base_url=server.openai), "embedder": EMBEDDER}
        with sg.build_index(DOCUMENTS[:3], "archrag", **models, cache=cache, progress=False) as again:
            assert again.last_report.usage.cached_calls
            assert again.last_report.usage.calls == 0
        assert chats(server) == 0


def test_the_command_line(tmp_path: Path) -> None:
    def call(*arguments: str, code: int = 0) -> str:
        found = CliRunner().invoke(main, ["batch", *arguments])
        assert found.exit_code == code, found.output
        return found.output

    folder, index, requests = tmp_path / "texts", str(tmp_path / "idx"), str(tmp_path / "r.jsonl")
    folder.mkdir()
    for place, document in enumerate(DOCUMENTS[:3]):
        (folder / f"{place}.txt").write_text(document.text, "utf-8")
    common = ["-o", requests, "--embedder", EMBEDDER]
    assert "--llm is needed" in call("write", index, str(folder), *common, code=2)
    with ModelServer() as server:
        models = ["--llm", name(server), "--method", "archrag"]
        written_out = call("write", index, str(folder), *common, *models)
        assert "pending: extract: 1 call, about" in written_out
        assert f"written: {requests}" in written_out
        results = run(server, [Path(requests)], tmp_path / "res.jsonl")
        found = json.loads(call("read", index, str(results), *common, "--json"))
        assert found["answered"] == 1
        while found["report"] is None:
            run(server, map(Path, found["files"]), results)
            found = json.loads(call("read", index, str(results), *common, "--json"))
        assert chats(server) == 0
    assert found["report"]["documents"] == 3
    assert "no batch is under way" in call("read", index, str(results), *common, code=1)

"""The bill: what is estimated, what the server counts, what a build says it cost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

import stratagraph as sg
from stratagraph import demo
from stratagraph.errors import BudgetExceeded
from stratagraph.models.providers import OpenAIChatModel
from tests.clients.server import ModelServer

DOCUMENTS = list(demo.documents())[:24]
PRICES = sg.Prices(1.0, 3.0)


def name(server: ModelServer) -> str:
    return f"openai:m@{server.openai}"


def price(server: ModelServer) -> float:
    return PRICES.cost(server.input_tokens, server.output_tokens)


@pytest.mark.parametrize("method", ["lshtree", "archrag", "noderag", "hirag"])
def test_an_estimate_is_near_what_the_server_counts(method: str) -> None:
    with ModelServer() as server:
        llm = name(server)
        found = sg.estimate(DOCUMENTS, method, llm=llm, embedder="hashing", prices=PRICES)
        assert server.requests == 0
        sg.build_index(DOCUMENTS, method, llm=llm, embedder="hashing", progress=False).close()
        assert found.calls == pytest.approx(server.requests, rel=0.15, abs=1)
        assert found.input_tokens == pytest.approx(server.input_tokens, rel=0.15)
        assert found.output_tokens == pytest.approx(server.output_tokens, rel=0.15)
        assert found.cost == pytest.approx(price(server), rel=0.15)


def test_what_a_build_cost_is_told_everywhere(tmp_path: Path) -> None:
    with ModelServer() as server:
        index = sg.build_index(
            DOCUMENTS[:12],
            "lshtree",
            path=tmp_path / "idx",
            llm=name(server),
            embedder="hashing",
            budget=sg.Budget(prices=PRICES),
            progress=False,
        )
        report = index.last_report
        assert report is not None
        assert report.cost == pytest.approx(price(server))
        assert sum(used.calls for used in report.models.values()) == server.requests
        spent = index.stats()["spent"]
        assert (spent["calls"], spent["output_tokens"]) == (server.requests, server.output_tokens)
        assert spent["cost"] == pytest.approx(price(server))
        assert f"Cost: {price(server):.4f}" in index.show_report().html
        index.insert(DOCUMENTS[12:20])
        index.close()
        with sg.open_index(tmp_path / "idx", embedder="hashing") as opened:
            later = opened.stats()["spent"]
            assert later["calls"] == server.requests > spent["calls"]
            assert later["cost"] is None  # the server is one's own: nobody knows what it costs


def assert_all_is_told(index: sg.Index, server: ModelServer, lost: int = 0) -> None:
    """Report and statistics have every request, but for so many that were out when a process was killed."""
    spent, report = index.stats()["spent"], index.last_report
    assert report is not None
    assert server.requests - lost <= spent["calls"] <= server.requests
    assert (
        report.usage.calls
        == spent["calls"]
        == report.stages["earlier runs"].calls
        + sum(used.calls for stage, used in report.stages.items() if stage != "earlier runs")
    )
    if not lost:
        assert spent["output_tokens"] == server.output_tokens
        assert report.cost == pytest.approx(price(server))


def test_what_was_paid_before_a_budget_ended_a_build_is_told(tmp_path: Path) -> None:
    def build(server: ModelServer, **bounds: int) -> sg.Index:
        budget = sg.Budget(prices=PRICES, **bounds)
        given: Any = {"llm": name(server), "embedder": "hashing", "budget": budget, "progress": False}
        return sg.build_index(DOCUMENTS[:12], "archrag", tmp_path / "i", **given)

    with ModelServer() as server:
        for calls in (4, 3):
            with pytest.raises(BudgetExceeded):
                build(server, calls=calls)
        assert server.requests == 7
        with build(server) as index:
            assert_all_is_told(index, server)
            assert index.last_report is not None
            assert index.last_report.stages["earlier runs"].calls == 7
            before = server.requests
            index.insert(DOCUMENTS[12:14])
            assert "earlier runs" not in index.last_report.stages
            assert index.stats()["spent"]["calls"] == server.requests > before


def test_what_was_paid_before_a_kill_is_told(tmp_path: Path) -> None:
    code = (
        "import sys, stratagraph as sg; from stratagraph import demo; "
        "sg.build_index(list(demo.documents())[:12], 'archrag', sys.argv[1], llm=sys.argv[2], "
        "embedder='hashing', config={'limits': {'concurrency': 1}}, progress=False)"
    )
    with ModelServer(lambda number: "ok" if number < 6 else "hang") as server:
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "i"), name(server)])
        while server.requests < 7 and child.poll() is None:
            time.sleep(0.01)
        child.kill()
        child.wait()
        assert server.requests == 7
        server.mode = "ok"
        given: Any = {"llm": name(server), "embedder": "hashing", "progress": False}
        with sg.build_index(DOCUMENTS[:12], "archrag", tmp_path / "i", **given) as index:
            assert_all_is_told(index, server, lost=1)


def test_an_unknown_price_is_unknown_and_no_call_costs_nothing(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from stratagraph.cli.main import main

    (tmp_path / "a.txt").write_text("Ada met Charles in London. They spoke of engines.\n" * 30, "utf-8")
    with ModelServer() as server:
        common = [str(tmp_path / "a.txt"), "--method", "archrag", "--llm", name(server)]
        said = CliRunner().invoke(main, ["estimate", *common]).output
        assert "cost: unknown (no price is known" in said
        built = CliRunner().invoke(main, ["build", *common, "-o", str(tmp_path / "i")]).output
        assert "cost: unknown" in built
        assert "cost: unknown" in CliRunner().invoke(main, ["stats", str(tmp_path / "i")]).output
    free = sg.build_index(DOCUMENTS[:3], embedder="hashing", progress=False)
    assert free.last_report is not None
    assert free.last_report.cost == 0
    assert free.stats()["spent"]["cost"] == 0


def test_a_known_model_has_its_price() -> None:
    pytest.importorskip("genai_prices")
    found = sg.estimate(DOCUMENTS[:5], llm="openai:gpt-4o-mini")
    assert found.cost == pytest.approx((found.input_tokens * 0.15 + found.output_tokens * 0.6) / 1e6)


@pytest.mark.parametrize("tokens", [500, 6_000])
def test_a_budget_of_tokens_holds_at_the_server(tokens: int, tmp_path: Path) -> None:
    with ModelServer(latency=0.01) as server:
        with pytest.raises(BudgetExceeded, match=f"tokens={tokens}"):
            sg.build_index(
                DOCUMENTS,
                "archrag",
                path=tmp_path / "i",
                llm=name(server),
                embedder="hashing",
                budget=sg.Budget(tokens=tokens),
                progress=False,
            )
        # One call under way may write more than was expected of it.
        assert server.input_tokens + server.output_tokens <= tokens * 1.15


def test_an_estimate_of_a_question_is_of_a_whole_answer() -> None:
    with ModelServer() as server:
        index = sg.build_index(
            DOCUMENTS[:20], "archrag", llm=name(server), embedder="hashing", progress=False
        )
        found = index.estimate_question("Who met whom?")
        server.reset()
        index.answer("Who met whom?")
        assert found.calls == server.requests
        assert found.input_tokens == pytest.approx(server.input_tokens, rel=0.25)
        assert found.stages["answer"].output_tokens == 150


def test_estimates_in_the_frameworks() -> None:
    documents = pytest.importorskip("langchain_core.documents")
    schema = pytest.importorskip("llama_index.core.schema")
    from langchain_stratagraph import HierarchicalRetriever
    from llama_index_stratagraph import ArchRAGIndex

    def counts(found: sg.Estimate) -> tuple[int, int, int]:
        return found.calls, found.input_tokens, found.output_tokens

    llm: Any = "openai:m@http://127.0.0.1:9/v1"
    texts = [each.text for each in DOCUMENTS[:8]]
    core = sg.estimate([sg.Chunk(t, str(n)) for n, t in enumerate(texts)], "archrag", llm=llm)
    given = [documents.Document(t, id=str(n)) for n, t in enumerate(texts)]
    found = HierarchicalRetriever.estimate(given, llm=llm, prices=PRICES)
    assert counts(found) == counts(core)
    assert found.cost is not None
    llm = OpenAIChatModel("m", base_url="http://127.0.0.1:9/v1")
    nodes = [schema.Document(text=t, id_=str(n)) for n, t in enumerate(texts)]
    other = ArchRAGIndex.estimate(nodes, llm=llm, embed_model=False)
    assert other.calls == pytest.approx(core.calls, rel=0.15)

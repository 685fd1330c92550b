"""Clients of the core, the server, the MCP tools and the frameworks: filters hold in every way out.

A question has a filter that admits the documents of one tenant. It is asked by the core, REST, MCP, or a tool
or retriever of LangChain that is made with the filter and called with another one; for hits, context, graph,
answer or events, with a model and without. Silent: words of the other tenant, in what comes back or in what
the model reads.
"""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

from httpx import ASGITransport, AsyncClient

import stratagraph as sg
from langchain_stratagraph import PPRRetriever, create_search_tool
from stratagraph.mcp import create_server
from stratagraph.server import Settings, create_app
from tests.campaigns.trials import Tally

METHODS = ("archrag", "noderag", "hirag", "lshtree")
WAYS = ("walk", *METHODS)
PEOPLE = ("Mara Quill", "Tomas Weir", "Ida Fenn", "Ansel Morrow")
PLACES = ("Bremen", "Ostra", "Cape Ellery", "Skerry")
SECRETS = tuple(f"zq{word}zq" for word in ("kestrel", "sorrow", "crown", "falcon", "ledger", "amber"))
"""Words of the documents of the other tenant alone."""
QUESTIONS = (
    *(f"Who is {person}?" for person in PEOPLE),
    *(f"What happened in {place}?" for place in PLACES),
    "What does Mara Quill owe?",
    "How are Tomas Weir and Ostra connected?",
    "What do these notes tell of as a whole?",
)


class Reading:
    """A model that answers anything, and keeps what it read."""

    name = "reading"

    def __init__(self) -> None:
        self.read: list[str] = []

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        self.read.append(prompt)
        return "{}" if schema else "They met at the quay [1]."


def documents() -> list[sg.Document]:
    """Notes of two tenants about the same people and places; those of `closed` have secrets."""
    chance = random.Random(5)
    made = []
    for number in range(40):
        one, other = chance.sample(PEOPLE, 2)
        place, tenant = chance.choice(PLACES), ("open", "closed")[number % 2]
        text = f"{one} met {other} in {place}, and {other} sailed to {chance.choice(PLACES)} on day {number}."
        if tenant == "closed":
            secret, again = chance.sample(SECRETS, 2)
            text += (
                f" {one} owes {secret.title()} {again.title()} the {secret} of {place}. {again} fears {one}."
            )
        made.append(sg.Document(f"note-{number}", text, {"tenant": tenant, "number": number}))
    return made


def _filter(chance: random.Random) -> dict[str, Any]:
    base = chance.choice(
        [
            {"tenant": "open"},
            {"tenant": {"$eq": "open"}},
            {"tenant": {"$ne": "closed"}},
            {"tenant": {"$in": ["open", "other"]}},
            {"tenant": {"$nin": ["closed"]}},
            {"$not": {"tenant": "closed"}},
            {"$or": [{"tenant": "open"}, {"tenant": "other"}]},
            {"number": {"$in": list(range(0, 40, 2))}},
        ]
    )
    more = {"number": {"$lt": chance.randrange(1, 60)}}
    return chance.choice([base, base, {"$and": [base, more]}])


async def _leaves(
    way: str, question: dict[str, Any], index: sg.Index, client: AsyncClient, tools: Any
) -> str:
    where, asked = question["where"], question["question"]
    options = {name: question[name] for name in ("k", "method") if name in question}
    if way == "core":
        found = await index.aretrieve(asked, where=where, **options)
        page = await asyncio.to_thread(found.show)
        return f"{found.hits} {found.trace} {found.context(3000)} {page.html}"
    if way == "answer":
        answered = await index.aanswer(asked, where=where, **options)
        return f"{answered} {answered.retrieval.hits} {answered.retrieval.trace}"
    if way == "tool of LangChain":
        tool = create_search_tool(index, filters={"tenant": "", "number": ""}, where=where, **options)
        call = {"tenant": "closed"}, {"tenant": "open"}, {"number": 1}, {"number": 2}, {}
        return " ".join([str(await tool.ainvoke({"query": asked, **each})) for each in call])
    if way == "retriever of LangChain":
        retriever = PPRRetriever(index=index, where=where, k=options.get("k", 8))
        calls: tuple[Any, ...] = {}, {"tenant": "closed"}, {"number": 1}, {"number": {"$gte": 0}}, None
        return str([await retriever.ainvoke(asked, where=each) for each in calls])
    if way.startswith("/api/"):
        return (await client.post(way, json=question)).raise_for_status().text
    given = {"question": asked, "where": where, **options}
    if way == "answer tool":
        given.pop("k", None)
    called = await tools.call_tool(way.removesuffix(" tool"), given)
    assert not called.is_error, called.content
    return str(called)


OUT = ("core", "answer", "/api/search", "/api/graph", "/api/answer", "/api/ask", "/api/guided",
       "search tool", "answer tool", "explain tool",
       "tool of LangChain", "retriever of LangChain")  # fmt: skip


async def _filters(work: Path, trials: int, chance: random.Random) -> None:
    rows = {way: Tally(f"filters: {way}") for way in OUT}
    model = Reading()
    for llm in (model, None):
        opened = [sg.open_index(work / "idx", llm, sg.HashingEmbedder())]
        app = create_app(work / "idx", lambda _: opened[0], Settings(rate=1e9, answers=1e9))  # noqa: B023
        tools = create_server(work / "idx", lambda: opened[0], answers=1e9)  # noqa: B023
        ways = [way for way in OUT if way != "/api/guided" or llm is not None]
        async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
            told = await _leaves("core", {"question": QUESTIONS[0], "where": None}, opened[0], client, tools)
            assert any(secret in told.casefold() for secret in SECRETS)
            for number in range(trials // 2):
                way = ways[number % len(ways)]
                question = {"question": chance.choice(QUESTIONS), "where": _filter(chance)}
                question |= chance.choice([{}, {"k": chance.randrange(1, 50)}])
                question |= chance.choice([{}, {"method": chance.choice(WAYS)}])
                row = rows[way]
                row.trials += 1
                model.read.clear()
                try:
                    told = await _leaves(way, question, opened[0], client, tools)
                except Exception as error:
                    row.note("unnamed", f"{question}: {type(error).__name__}: {error}")
                    continue
                told = (told + " ".join(model.read)).casefold()
                if leaked := [secret for secret in SECRETS if secret in told]:
                    row.note("silent", f"{question}: {leaked}")
                row.outcomes["answered"] += 1
        opened[0].close()


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    logging.getLogger("stratagraph").setLevel(logging.ERROR)
    embedder = sg.HashingEmbedder()
    sg.build_index(documents(), list(METHODS), work / "idx", embedder=embedder, progress=False).close()
    asyncio.run(_filters(work, trials, random.Random(seed)))

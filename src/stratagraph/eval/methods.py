"""The package's methods as rankers, through its public API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stratagraph.api import build_index
from stratagraph.config import Config
from stratagraph.eval.measuring import AnswerFailed, Meter
from stratagraph.eval.names import RowName, settings_of
from stratagraph.eval.results import Indexing
from stratagraph.eval.workbench import Passage, Ranker, Workbench
from stratagraph.index import Index
from stratagraph.models.budget import Budget
from stratagraph.types.question import WALK, Length
from stratagraph.types.records import Failure, Usage


class MethodRanker:
    """A method of an index in one view, with search options; `failures` are those of its build."""

    def __init__(self, index: Index, name: str, row: RowName, failures: Sequence[Failure] = ()) -> None:
        self.name = name
        options = "".join(f", {key}={value!r}" for key, value in row.options.items())
        options += "".join(f", built with {key}={value!r}" for key, value in row.build.items())
        self.description = f"method {row.ranker} of this package, view {row.view}{options}"
        self.own_prompt = bool(row.own_prompt)
        self.failures = failures
        self._index = index
        self._wanted = row
        self._asked: dict[str, Usage] = {}

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` hits, best first."""
        retrieval = self._index.retrieve(question, k, **self._wanted.search)
        self._asked.setdefault(question, retrieval.usage)
        return [Passage(hit.text, hit.documents) for hit in retrieval.hits]

    def context(self, question: str, k: int, budget: int) -> str:
        """The context that an answer is made from: `k` hits, packed into a budget of tokens."""
        return self._index.retrieve(question, k, **self._wanted.search).context(budget).text

    @property
    def asking(self) -> Usage:
        """Calls and tokens of the searches so far; a repeated question counts once."""
        return sum(self._asked.values(), Usage())

    async def answer(self, question: str, max_tokens: int, length: Length) -> tuple[str, Usage]:
        """The method's answer by its own prompts, and its usage; `AnswerFailed` if it would be extractive."""
        answer = await self._index.aanswer(
            question, max_tokens=max_tokens, length=length, **self._wanted.search
        )
        if answer.extractive and answer.retrieval.hits:
            fault = "the model could not answer, and excerpts of the sources would stand for it"
            raise AnswerFailed(fault, answer.usage)
        return answer.text, answer.usage


@dataclass
class _Built:
    index: Index
    made: set[str] = field(default_factory=set)
    bytes: int = 0


class MethodIndex:
    """An index to which methods are added one by one, each measured by itself.

    A row with settings of its own build has its own index, of the same extraction. `llm` and `budget` are as
    `build_index` takes them; `calls` is the file of model calls.
    """

    def __init__(self, bench: Workbench, llm: Any, budget: Budget | None, calls: Path) -> None:
        self._bench = bench
        self._llm = llm
        self._budget = budget
        self._calls = calls
        self._built: dict[str, _Built] = {}

    def add(self, name: str, row: RowName) -> tuple[Ranker, Indexing | None]:
        """Build a method unless it exists; if it fails, the others stay."""
        method = row.ranker
        key = f"{method} {json.dumps(row.build, sort_keys=True)}" if row.build else ""
        built = self._built.get(key)
        if built is not None and method in built.made:
            return MethodRanker(built.index, name, row), None
        with Meter() as meter:
            if built is None:
                built = self._built[key] = _Built(self._build(method, settings_of(row, self._bench.config)))
            elif method != WALK:
                built.index.add_method(method)
        built.made.add(method)
        report = built.index.last_report
        size = int(built.index.stats()["bytes"])
        own, built.bytes = size - built.bytes, size
        stages = {} if report is None else report.stages
        indexing = Indexing(meter.seconds, stages, own, meter.peak_memory, meter.cpu_seconds)
        return MethodRanker(built.index, name, row, () if report is None else report.failures), indexing

    def _build(self, name: str, config: Config) -> Index:
        dataset = self._bench.dataset
        extraction: dict[str, Any] = {"extraction": dataset.extractions} if dataset.extractions else {}
        return build_index(
            dataset.documents,
            name,
            llm=self._llm,
            embedder=self._bench.embedder,
            config=config,
            budget=self._budget,
            cache=self._calls,
            progress=False,
            **extraction,
        )

    def close(self) -> None:
        """Remove the indexes."""
        for built in self._built.values():
            built.index.close()

"""Rankers of passages, and what the rankers of a run share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from stratagraph.config import Config
from stratagraph.errors import ModelError
from stratagraph.eval.datasets import Dataset
from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.shared_graph import SharedGraph, ids_of, shared_graph
from stratagraph.ingest.chunk import split
from stratagraph.models.gate import Gate
from stratagraph.text import CountTokens
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Chunk


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved text and its documents: one for a passage, several for a summary."""

    text: str
    documents: tuple[str, ...]


class Ranker(Protocol):
    """A retrieval system: a name, a line of description, and a ranking."""

    @property
    def name(self) -> str:
        """Unique within a run."""
        ...

    @property
    def description(self) -> str:
        """One line on what it does."""
        ...

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` passages, best first."""
        ...


class Workbench:
    """What the rankers of a run share: one split of the corpus, one embedder, one model.

    Attributes
    ----------
    chunks
        Passages in the order of an index: by document id, then by place in the document.
    gate, judge_gates
        Gates of the model that answers and of those that judge.
    view
        `chunks` ranks passages, `nodes` whatever the ranker has, `default` what suits the method.
    waited
        Seconds that the ranker's own model calls took, by question.
    """

    def __init__(
        self,
        dataset: Dataset,
        embedder: SharedEmbedder,
        config: Config,
        gate: Gate,
        count_tokens: CountTokens,
        view: str = "default",
        judge_gates: Sequence[Gate] = (),
    ) -> None:
        self.dataset = dataset
        self.embedder = embedder
        self.config = config
        self.gate = gate
        self.judge_gates = tuple(judge_gates) or (gate,)
        self.count_tokens = count_tokens
        self.view = view
        parts = [
            chunk
            for item in dataset.documents
            for chunk in ([item] if isinstance(item, Chunk) else split(item, config.chunking, count_tokens))
        ]
        self.chunks = sorted(parts, key=lambda chunk: (chunk.document_id, chunk.ordinal))
        self.waited: dict[str, float] = {}
        self._graphs: list[SharedGraph | Exception] = []  # shared with the benches of all rows

    def apart(self, view: str) -> Workbench:
        """A copy for one ranker, with its view and a gate that counts its calls and failures."""
        other = copy(self)
        other.view = view
        other.waited = {}
        other.gate = self.gate.apart()
        other.gate.documents_of = lambda chunks: tuple(
            dict.fromkeys(self._documents[chunk] for chunk in chunks if chunk in self._documents)
        )
        return other

    @cached_property
    def _documents(self) -> dict[str, str]:
        """The document of a passage by its id, and by its row, which baselines name it by."""
        owners = [chunk.document_id for chunk in self.chunks]
        by_id = dict(zip(ids_of(self.chunks), owners, strict=True))
        return by_id | {str(row): owner for row, owner in enumerate(owners)}

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """The passages as baselines return them, by row."""
        return tuple(Passage(chunk.text, (chunk.document_id,)) for chunk in self.chunks)

    @cached_property
    def vectors(self) -> Vectors:
        """Unit vectors of the passages, shape (passages, dimension)."""
        return self.embedder.documents([chunk.text for chunk in self.chunks])

    @property
    def graph(self) -> SharedGraph:
        """The graph of the passages, extracted once by the first ranker that needs it.

        If that fails, it fails for all: the model is not asked again.
        """
        if not self._graphs:
            extractions = self.dataset.extractions
            try:
                self._graphs.append(
                    shared_graph(self.chunks, self.vectors, self.gate, self.config, extractions)
                )
            except Exception as error:
                self._graphs.append(error)
        graph = self._graphs[0]
        if isinstance(graph, Exception):
            raise graph
        return graph

    @property
    def question_entities(self) -> Mapping[str, tuple[str, ...]]:
        """Given entities by the text of the question."""
        entities = self.dataset.question_entities
        return {each.question: entities[each.id] for each in self.dataset.questions if each.id in entities}


def needs_model(bench: Workbench, what: str) -> None:
    """Raise `ModelError` if there is no language model."""
    if not bench.gate.has_llm:
        raise ModelError(f"{what} needs a language model: give --llm NAME (in Python llm=...)")

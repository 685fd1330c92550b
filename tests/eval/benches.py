"""Workbenches over small corpora with given triples, for tests of baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stratagraph.config import as_config
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.workbench import Passage, SharedEmbedder, Workbench
from stratagraph.models.gate import ModelGate
from stratagraph.testing import FakeEmbedder, MemoryCalls
from stratagraph.types.records import Document, EntityMention, Extraction, RelationMention

Facts = Mapping[str, Sequence[tuple[str, str, str]]]
"""The triples that each document states."""

STANFORD: Facts = {
    "1 thomas at stanford": [("Thomas Südhof", "is professor at", "Stanford")],
    "2 thomas on alzheimer": [("Thomas Südhof", "researches", "Alzheimer's")],
    "3 other at stanford": [("Ada Loom", "is professor at", "Stanford")],
    "4 another at stanford": [("Ben Crake", "is professor at", "Stanford")],
    "5 other on alzheimer": [("Cora Marl", "researches", "Alzheimer's")],
    "6 another on alzheimer": [("Dan Perrow", "researches", "Alzheimer's")],
    "7 elsewhere": [("Eve Hathe", "keeps bees in", "Sarn")],
}
"""The example of HippoRAG's Figure 1: one professor at Stanford works on Alzheimer's."""
STANFORD_QUESTION = "Which Stanford professor works on the neuroscience of Alzheimer's?"
STANFORD_NAMES = ("Stanford", "Alzheimer's")


def said(facts: Sequence[tuple[str, str, str]]) -> Extraction:
    names = dict.fromkeys(end for subject, _, target in facts for end in (subject, target))
    return Extraction(
        entities=tuple(map(EntityMention, names)),
        relations=tuple(RelationMention(subject, target, said) for subject, said, target in facts),
    )


def bench_of(
    facts: Facts,
    question: str,
    names: Sequence[str] = (),
    *,
    llm: object | None = None,
    view: str = "chunks",
) -> Workbench:
    """A bench whose documents say their triples, and whose one question has these names."""
    documents = tuple(
        Document(key, " ".join(f"{' '.join(fact)}." for fact in stated) or key)
        for key, stated in facts.items()
    )
    dataset = Dataset(
        "facts",
        documents,
        (Question("q", question),),
        extractions={key: said(stated) for key, stated in facts.items()},
        question_entities={"q": tuple(names)} if names else {},
    )
    gate = ModelGate(llm, None, cache=MemoryCalls())
    shared = SharedEmbedder(FakeEmbedder(256))
    return Workbench(dataset, shared, as_config(None), gate, lambda text: len(text.split()), view)


def random_facts(seed: int, documents: int = 25, entities: int = 14) -> Facts:
    """Random triples over entities whose names share words, so that some are synonyms."""
    rng = np.random.default_rng(seed)
    words = [f"{first}{last}" for first in ("kel", "dor", "min") for last in ("ab", "ed", "ix", "ol", "un")]
    names = [f"{words[n % 15]} {words[(n * 7 + 3) % 15]}{'x' * (n // 15)}" for n in range(entities)]
    facts = {}
    for number in range(documents):
        ends = rng.choice(entities, (int(rng.integers(1, 4)), 2))
        facts[f"{number:02}"] = [
            (names[a], f"{words[int(rng.integers(15))]} to", names[b]) for a, b in ends.tolist() if a != b
        ] or [(names[0], "near", names[1])]
    return facts


def ids(ranking: Sequence[Passage]) -> list[str]:
    """The documents of a ranking of passages."""
    return [passage.documents[0] for passage in ranking]

"""Deterministic models, embedders and stores for tests, without a network.

    model = ScriptedChatModel(["first answer", "second answer"], faults=["rate_limit"])
    index = stratagraph.build_index(documents, llm=model, embedder=FakeEmbedder())

A failed call counts in `model.calls`; the next call takes the next fault and the next answer.
`stratagraph.testing.contract` checks what every method guarantees of an index.
"""

from stratagraph.models.fake import (
    BlockingChatModel,
    FakeEmbedder,
    MemoryCalls,
    MemoryVectors,
    ScriptedChatModel,
    ServiceError,
)

__all__ = [
    "BlockingChatModel",
    "FakeEmbedder",
    "MemoryCalls",
    "MemoryVectors",
    "ScriptedChatModel",
    "ServiceError",
]

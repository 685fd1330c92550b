"""Models, embedders and stores for tests: deterministic, without a network, broken on demand.

    model = ScriptedChatModel(["first answer", "second answer"], faults=["rate_limit"])
    index = stratagraph.build_index(documents, llm=model, embedder=FakeEmbedder())

A broken call counts among `model.calls`, and the next one takes the next fault and the next answer.

`stratagraph.testing.contract` checks what every method promises of an index; `stratagraph.testing.opened`
shows the arrays and the searcher behind one.
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

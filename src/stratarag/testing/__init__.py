"""Models, embedders and stores for tests: deterministic, without a network, broken on demand.

    model = ScriptedChatModel(["first answer", "second answer"], faults=["rate_limit"])
    index = stratarag.build_index(documents, llm=model, embedder=FakeEmbedder())

A broken call counts among `model.calls`, and the next one takes the next fault and the next answer.

`stratarag.testing.contract` checks what every method promises of an index; `stratarag.testing.opened` shows
the arrays and the searcher behind one.
"""

from stratarag.models.fake import (
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

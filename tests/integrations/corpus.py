"""What both frameworks' tests index: short passages in which words decide what is near."""

from __future__ import annotations

from typing import Any

TOPICS = {
    "harbour": "ships cranes tide pilot quay lantern",
    "orchard": "apples grafting blossom bees cider ladder",
    "observatory": "telescope comet dome lens stars tripod",
    "foundry": "bronze mould furnace bell casting hammer",
}


def passages() -> list[tuple[str, str, dict[str, Any]]]:
    """Id, text and metadata of 24 passages, six on each topic."""
    return [
        (
            f"{topic}-{number}",
            f"In year {1900 + number} the {topic} kept its {word}. The keeper of the {word} wrote it down.",
            {"topic": topic, "year": 1900 + number},
        )
        for topic, words in TOPICS.items()
        for number, word in enumerate(words.split())
    ]


def langchain_documents() -> list[Any]:
    """The passages as LangChain's documents."""
    from langchain_core.documents import Document

    return [Document(id=name, page_content=text, metadata=data) for name, text, data in passages()]


def llama_documents() -> list[Any]:
    """The passages as LlamaIndex's documents."""
    from llama_index.core.schema import Document

    return [Document(id_=name, text=text, metadata=data) for name, text, data in passages()]


QUESTION = "Who kept the comet at the observatory?"

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

STEERED = "Who steered the ship that ran aground off Cape Ellery?"
LAMP = "Who kept the lamp?"
SHIPS = {
    "quill": "Mara Quill steered the Dunlin from 1889 until she was sold.",
    "wreck": "The Dunlin ran aground off Cape Ellery in the gale of 1895.",
    "tow": "Ships that ran aground in a gale were towed to Bremen.",
    "captain": "The captain of a ship steers by the lamp in a gale.",
    "keeper": "Tomas Quill kept the lamp of Cape Ellery.",
    "board": "The harbour board of Bremen sold an old lamp in 1902.",
}
"""Of the question `STEERED` the walk finds `quill`, by the name of the ship; vectors alone do not."""
YEARS = {"wreck": {"year": 1895}, "board": {"year": 1902}}


def langchain_ships() -> list[Any]:
    """`SHIPS` as LangChain's documents."""
    from langchain_core.documents import Document

    return [Document(id=key, page_content=text, metadata=YEARS.get(key, {})) for key, text in SHIPS.items()]


def llama_ships() -> list[Any]:
    """`SHIPS` as LlamaIndex's documents."""
    from llama_index.core.schema import Document

    return [Document(id_=key, text=text, metadata=YEARS.get(key, {})) for key, text in SHIPS.items()]

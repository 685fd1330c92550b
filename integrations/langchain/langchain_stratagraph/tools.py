"""A search tool for agents over an open index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field, create_model

from langchain_stratagraph._convert import SOURCE, to_documents
from stratagraph._sync import either, run_here
from stratagraph.errors import EXPECTED, described
from stratagraph.index import Index
from stratagraph.types.question import narrowed
from stratagraph.types.results import Retrieval

NOTHING = "Nothing was found."
_MOST = 50
_DESCRIPTION = "Search {}. Returns numbered passages and their sources. Cite passages by number, as in [2]."
_Scalar = str | int | float | bool | None


def create_search_tool(
    index: Index,
    name: str = "search",
    description: str | None = None,
    *,
    names: int = 0,
    filters: Mapping[str, str] | None = None,
    k: int = 8,
    max_tokens: int = 4000,
    **options: Any,
) -> BaseTool:
    """A tool that searches an index for an agent.

    Its arguments are `query`, `k`, and one for each field of `filters`. It returns a text with numbered
    passages, and the documents as the message's artifact, with their scores and traces: `[2]` is the second.

    Parameters
    ----------
    index
        An open index.
    name, description
        What the agent's model reads. None says how many documents there are that `where` admits.
    names
        How many of the most frequent names in them it says too; see `Index.about`.
    filters
        Fields of the documents' metadata that the agent may filter by, each with a description for its
        model. A passage is found only if its field equals the argument.
    k
        Number of hits where the agent gives none.
    max_tokens
        Tokens of the text, at most.
    **options
        Further arguments of `Index.retrieve`, such as `method`, `guided` and `where`. What the agent filters
        by narrows `where`.

    Raises
    ------
    ValueError
        If a field cannot be an argument.
    """
    fields = dict(filters or {})
    wrong = next((each for each in fields if not each.isidentifier() or each in ("query", "k")), None)
    if wrong is not None:
        raise ValueError(f"filters: {wrong!r} cannot be an argument of a tool; it needs another name")
    arguments: dict[str, Any] = {
        "query": (str, Field(description="A question or words, in plain language.")),
        "k": (int, Field(k, ge=1, le=_MOST, description="How many passages to find.")),
    }
    arguments |= {field: (_Scalar, Field(None, description=text)) for field, text in fields.items()}

    async def asearch(**arguments: Any) -> tuple[str, list[Document]]:
        query, most = arguments["query"], arguments.get("k", k)
        where = {field: arguments[field] for field in fields if arguments.get(field) is not None}
        request = {**options, "where": narrowed(options.get("where"), where or None)}
        if not query.strip():
            return NOTHING, []
        try:
            return shown(await either(index.retrieve, index.aretrieve, query, most, **request), max_tokens)
        except EXPECTED as error:  # the agent can go on
            raise ToolException(described(error)) from error

    def search(**arguments: Any) -> tuple[str, list[Document]]:
        return run_here(asearch(**arguments))

    return StructuredTool(
        name=name,
        description=_DESCRIPTION.format(index.about(names, options.get("where")))
        if description is None
        else description,
        args_schema=create_model(f"{name}_arguments", **arguments),
        func=search,
        coroutine=asearch,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def shown(retrieval: Retrieval, max_tokens: int) -> tuple[str, list[Document]]:
    """The hits as numbered passages with their sources, and as documents."""
    documents = to_documents(retrieval, traced=True)
    if not documents:
        return NOTHING, []
    context = retrieval.context(max_tokens)
    numbers = sorted({citation.number for citation in context.citations})
    names = {number: " ".join(str(documents[number - 1].metadata[SOURCE]).split()) for number in numbers}
    sources = "\n".join(f"[{number}] {name}" for number, name in names.items())
    return f"{context}\n\nSources:\n{sources}", documents

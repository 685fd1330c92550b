"""A search tool for agents, over a retriever or an open index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field, create_model

from langchain_stratagraph._base import IndexRetriever
from langchain_stratagraph._convert import SOURCE, to_documents
from langchain_stratagraph.retrievers import retriever_of
from stratagraph import Index, Retrieval
from stratagraph._sync import run_here
from stratagraph.errors import EXPECTED, described, require
from stratagraph.types.question import Where, narrowed

NOTHING = "Nothing was found."
_MOST = 50
_DESCRIPTION = "Search {}. Returns numbered passages and their sources. Cite passages by number, as in [2]."
_Scalar = str | int | float | bool | None


def create_search_tool(
    source: Index | IndexRetriever,
    name: str = "search",
    description: str | None = None,
    *,
    names: int = 0,
    filters: Mapping[str, str] | None = None,
    context_where: Callable[[Any], Where | None] | None = None,
    k: int | None = None,
    max_tokens: int = 4000,
    **options: Any,
) -> BaseTool:
    """A tool that searches for an agent. Traces show its search as a run of a retriever.

    Its arguments are `query`, `k`, and one for each field of `filters`. It returns a text with numbered
    passages, and the documents as the message's artifact, with their scores and traces: `[2]` is the second.

    Parameters
    ----------
    source
        A retriever, whose fields hold, or an open index.
    name, description
        What the agent's model reads. None says how many documents there are that `where` admits.
    names
        How many of the most frequent names in them it says too; see `Index.about`.
    filters
        Fields of the documents' metadata that the agent may filter by, each with a description for its
        model. A passage is found only if its field equals the argument.
    context_where
        Function of the context of an agent's run (`agent.invoke(..., context=...)`) that returns a filter, or
        None for no further one. The description then says nothing of the documents.
    k
        Number of hits where the agent gives none. None takes the retriever's, and 8 for an index.
    max_tokens
        Tokens of the text, at most.
    **options
        Options of the search, as for `retriever.invoke`, such as `guided` and `where`; for an index `method`
        too. All filters narrow one another.

    Raises
    ------
    ValueError
        If a field cannot be an argument.
    """
    fields = dict(filters or {})
    wrong = next((each for each in fields if not each.isidentifier() or each in ("query", "k")), None)
    if wrong is not None:
        raise ValueError(f"filters: {wrong!r} cannot be an argument of a tool; it needs another name")
    retriever, search = retriever_of(source, options)
    usual = retriever.k if k is None else k
    arguments: dict[str, Any] = {
        "query": (str, Field(description="A question or words, in plain language.")),
        "k": (int, Field(usual, ge=1, le=_MOST, description="How many passages to find.")),
    }
    arguments |= {field: (_Scalar, Field(None, description=text)) for field, text in fields.items()}

    async def afind(**arguments: Any) -> tuple[str, list[Document]]:
        query, most = arguments["query"], arguments.get("k", usual)
        where: Where | None = {
            field: arguments[field] for field in fields if arguments.get(field) is not None
        }
        if context_where is not None:
            where = narrowed(context_where(_run_context()), where or None)
        if not query.strip():
            return NOTHING, []
        try:
            return shown(await retriever.asearch(query, k=most, where=where or None, **search), max_tokens)
        except EXPECTED as error:  # the agent can go on
            raise ToolException(described(error)) from error

    def find(**arguments: Any) -> tuple[str, list[Document]]:
        return run_here(afind(**arguments))

    if description is None:
        held = (
            retriever.index.about(names, retriever.request()["where"])
            if context_where is None
            else "documents"
        )
        description = _DESCRIPTION.format(held)
    return StructuredTool(
        name=name,
        description=description,
        args_schema=create_model(f"{name}_arguments", **arguments),
        func=find,
        coroutine=afind,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _run_context() -> Any:
    """The context that the agent's run was given."""
    require("agents", "langgraph")
    from langgraph.runtime import get_runtime

    try:
        return get_runtime().context
    except (RuntimeError, KeyError, AttributeError) as error:
        raise RuntimeError(
            "context_where reads the context of an agent's run, and there is none here: call the tool in an "
            "agent, as agent.invoke(..., context=...)"
        ) from error


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

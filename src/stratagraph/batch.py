"""Builds whose model answers in batch files, at half the price where a provider has a batch API.

    pending = batch.write(documents, "requests.jsonl", path="idx", method="hirag", llm="openai:gpt-4o-mini")
    ... upload requests.jsonl to the batch API, and download its results ...
    pending = batch.read("results.jsonl", "requests.jsonl", path="idx")
    ... again, until `pending.done`: then the index is there ...

Each round holds all calls that do not wait for others: first every extraction, then every summary of a
level, and so on. Texts are embedded at once, by the embedder of the index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stratagraph._sync import blocking
from stratagraph.config import as_config
from stratagraph.errors import Damaged, EmbedderMismatch, NotAnIndex, TooManyFailures
from stratagraph.index import method_names
from stratagraph.ingest.extraction.stage import Given
from stratagraph.ingest.extraction.stored import from_json, to_json
from stratagraph.ingest.loaders import FileDocuments
from stratagraph.models.batching import CallsPending, Results, read_results, write_requests
from stratagraph.models.identity import embedder_name
from stratagraph.operations.changes import BUILD, ESTIMATE, INSERT, Change, settings_of
from stratagraph.operations.documents import Documents, check_documents
from stratagraph.operations.gates import Models
from stratagraph.operations.update import update
from stratagraph.store.folder import IndexFolder
from stratagraph.store.layout import MARKER
from stratagraph.system.threads import in_thread
from stratagraph.types.records import BuildReport, Chunk, Document, Failure, Section, Usage, content_id

__all__ = ["Pending", "aread", "awrite", "read", "write"]

StrPath = str | os.PathLike[str]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Pending:
    """The state of a build whose calls are answered in batches.

    Attributes
    ----------
    files, stages
        The request files to send now, and for each stage the calls in them and their expected tokens.
    answered
        Answers that were taken from the results.
    again
        Requests that are made again since they have no answer, with the reason, by custom id.
    ignored
        What could not be used of the results, with the reason: lines that are no results, ids that nobody
        asked for or that had been taken before, and all but the first answer to one request.
    failures
        What failed for good so far; the build goes on without it.
    report
        Of the build, once it is done.
    """

    files: Sequence[Path] = ()
    stages: Mapping[str, Usage] = field(default_factory=dict)
    answered: int = 0
    again: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    failures: Sequence[Failure] = ()
    report: BuildReport | None = None

    @property
    def calls(self) -> int:
        """Number of calls whose answers the build waits for."""
        return sum(usage.calls for usage in self.stages.values())

    @property
    def done(self) -> bool:
        """Whether the index is there."""
        return self.report is not None

    def __str__(self) -> str:
        lines = [f"{self.answered:,} answers taken"] if self.answered else []
        listed = {
            "asked again": [f"{custom_id} ({reason})" for custom_id, reason in self.again.items()],
            "ignored in the results": self.ignored,
            "failed for good": [f"{each.stage}: {each.about} ({each.reason})" for each in self.failures],
        }
        for what, items in listed.items():
            if items:
                more = ", ..." if len(items) > _SHOWN else ""
                lines.append(f"{len(items):,} {what}: {', '.join(items[:_SHOWN])}{more}")
        for stage, usage in self.stages.items():
            calls = "1 call" if usage.calls == 1 else f"{usage.calls:,} calls"
            tokens = f"about {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
            lines.append(f"pending: {stage}: {calls}, {tokens}")
        lines += [f"written: {file}" for file in self.files]
        if self.report is not None:
            lines.append("no call is pending: the index is built")
        return "\n".join(lines)


async def awrite(
    documents: Documents,
    requests: StrPath,
    *,
    path: StrPath,
    llm: Any,
    method: str | Sequence[str] | None = None,
    embedder: Any = None,
    config: Any = None,
    cache: StrPath | None = None,
    extraction: Given | None = None,
) -> Pending:
    """Write the first requests of a build as a batch file in OpenAI's format.

    Over a folder with an index it is an insert, by that index's methods and settings. The folder keeps the
    documents until the build is done, or another update is. No request is sent to the chat model, and no key
    is needed.

    Parameters
    ----------
    requests
        The file to write. What one file may not hold (50,000 requests, 200 MB, one model) goes to others
        beside it: `requests.2.jsonl`. If there is nothing to ask, none is written and the index is built.
    path
        The index folder.
    llm
        A model by name, as `"openai:gpt-4o-mini"` or `"openai:NAME@http://127.0.0.1:8000/v1"`, an
        `OpenAIChatModel`, or a mapping of these by stage. Answers are kept under its name, server and
        settings, so that `build_index` with the same model finds them.
    documents, method, embedder, config, cache, extraction
        As for `build_index`, as are errors.

    Raises
    ------
    TypeError
        If requests of the model cannot be written.
    ValueError
        If an index of other methods is there.
    """
    check_documents(documents)
    settings = as_config(config)
    methods = None if method is None else method_names(method)
    folder = await in_thread(IndexFolder.create, Path(path))
    try:
        models = _models(folder, llm, embedder, cache)
        before = folder.snapshot() if folder.generation else None
        present = () if before is None else before.manifest.methods
        if methods and present and set(methods) != set(present):
            raise ValueError(
                f"{str(folder.path)!r} holds an index of {', '.join(present)}: a batch inserts by these; "
                "leave method out, or write for another folder"
            )
        begun = _Begun(
            operation=(BUILD if before is None else INSERT).name,
            methods=methods or tuple(present),
            config=settings.to_dict(),
            max_failures=settings.max_failures,
            llm=_name_of(llm),
            embedder=embedder_name(models.embedder, None),
            embedder_given=embedder if isinstance(embedder, str) else getattr(embedder, "given_name", None),
        )
        change = Change(ESTIMATE, documents)
        recorded = {} if before is None else before.manifest.roots
        change.join(before)
        inputs = _Inputs(tuple(documents), extraction)
        if isinstance(documents, FileDocuments):
            begun = replace(begun, files=sorted(documents.files), roots=change.roots_after(recorded))
        return await _advance(folder, models, begun, inputs, Results(), Results(), requests)
    except BaseException:
        await in_thread(folder.abandon)
        raise
    finally:
        folder.close()


write = blocking(awrite)


async def aread(
    results: StrPath | Iterable[StrPath],
    requests: StrPath,
    *,
    path: StrPath,
    llm: Any = None,
    embedder: Any = None,
    cache: StrPath | None = None,
) -> Pending:
    """Read the results of a batch. Write the next requests, or build the index if there are none.

    Every answer that can be used is in the cache of calls when this returns. It may be called again with the
    same results, with those of a part of the batch, or with those of several.

    Parameters
    ----------
    results
        The file, or files, with a line for each request.
    requests
        The file to write, as for `write`.
    path
        The folder that was given to `write`.
    llm, embedder, cache
        As they were given to `write`. `llm` may be left out if it was a name, `embedder` if it was.

    Raises
    ------
    ValueError
        If there is no result in the files, no batch is under way in the folder, or the model is another one.
    NotAnIndex, EmbedderMismatch
        If the folder is no index, or the embedder is another one.
    TooManyFailures
        If more calls failed for good than `Config.max_failures` allows; those are asked for again then.
    """
    files = [results] if isinstance(results, str | os.PathLike) else list(results)
    new = await in_thread(read_results, files)
    if not (Path(path) / MARKER).is_file():
        raise NotAnIndex(f"{path} is not an index; give the folder that was given to batch.write")
    folder = await in_thread(IndexFolder.create, Path(path))
    try:
        begun, inputs, earlier = await in_thread(_remembered, folder)
        llm = begun.llm if llm is None else llm
        models = _models(folder, llm, begun.embedder_given if embedder is None else embedder, cache)
        return await _advance(folder, models, begun, inputs, new, earlier, requests)
    finally:
        folder.close()


read = blocking(aread)


def _name_of(llm: Any) -> Any:
    """The name of a model, or names by stage, to make it again; None if it has none."""
    if isinstance(llm, Mapping):
        names = {stage: _name_of(model) for stage, model in llm.items()}
        return names if all(names.values()) else None
    return llm if isinstance(llm, str) else getattr(llm, "given_name", None)


def _models(folder: IndexFolder, llm: Any, embedder: Any, cache: StrPath | None) -> Models:
    recorded = folder.snapshot().manifest if folder.generation else None
    if llm is None:
        raise ValueError("a batch needs a model: pass llm=..., the one that was given to write")
    return Models(llm, embedder, cache=cache, recorded=recorded)


async def _advance(
    folder: IndexFolder,
    models: Models,
    begun: _Begun,
    inputs: _Inputs,
    results: Results,
    earlier: Results,
    requests: StrPath,
) -> Pending:
    """Run the operation as far as the available answers allow."""
    config = replace(as_config(begun.config), max_failures=begun.max_failures)
    if folder.generation:
        config = settings_of(folder.snapshot().manifest, config)
    models.prefer_tokenizer(config.tokenizer)
    gate = models.batch_gate(folder, config, results, earlier)
    if begun.identity not in ("", gate.identity):
        raise ValueError(
            f"the batch in {str(folder.path)!r} asks {begun.identity}, and llm is {gate.identity}: answers "
            "would not be found; give the model that was given to batch.write"
        )
    embedder = embedder_name(models.embedder, None)
    if embedder != begun.embedder:
        raise EmbedderMismatch(
            f"the batch in {str(folder.path)!r} was begun with embedder {begun.embedder!r}, and this one is "
            f"{embedder!r}: give the first (embedder=...)"
        )
    gate.do_without(begun.without)
    change = Change(
        BUILD if begun.operation == BUILD.name else INSERT,
        inputs.documents,
        methods=begun.methods if begun.operation == BUILD.name else (),
        config=config,
        extraction=inputs.extraction,
        files=begun.files,
        roots=begun.roots,
    )
    report = None
    try:
        report = await update(folder, gate, models, change)
    except CallsPending:
        pass
    except TooManyFailures:  # the failed calls are made again in the next round
        if inputs.stored:
            await in_thread(_remember, folder, begun, inputs, {})
        raise
    files = await in_thread(write_requests, gate.requests.values(), requests)
    stages: dict[str, Usage] = {}
    for each in gate.requests.values():
        used = Usage(1, 0, each.input_tokens, each.output_tokens)
        stages[each.stage] = stages.get(each.stage, Usage()) + used
    requested = set(begun.asked)
    missing = [each for each in begun.asked if each not in results.replies and each in gate.requests]
    unasked = [
        f"{each}: {'taken before' if gate.knows(each) else 'nobody asked for it'}"
        for each in results.replies
        if each not in requested
    ]
    if report is None:
        now = replace(begun, identity=gate.identity, without=gate.refused, asked=tuple(gate.requests))
        await in_thread(_remember, folder, now, inputs, gate.unused)
    return Pending(
        files=files,
        stages=stages,
        answered=gate.taken,
        again={**gate.again, **dict.fromkeys(missing, "no line in the results")},
        ignored=[*results.ignored, *unasked],
        failures=tuple(gate.failures),
        report=report,
    )


@dataclass(frozen=True)
class _Begun:
    """How an operation was begun, as the folder keeps it between rounds, without its documents.

    `identity` and `embedder` are fingerprints of the models, `without` lists what the model's server refuses,
    `asked` the custom ids of the last requests, `files` the files that the documents hold whole.
    """

    operation: str
    methods: tuple[str, ...]
    config: Mapping[str, Any]
    max_failures: float
    llm: Any
    embedder: str
    embedder_given: str | None = None
    identity: str = ""
    without: Sequence[Sequence[str]] = ()
    asked: Sequence[str] = ()
    files: Sequence[str] = ()
    roots: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Inputs:
    """The documents of an operation; `stored` if the folder holds them already."""

    documents: Sequence[Any]
    extraction: Given | None = None
    stored: bool = False


def _remember(folder: IndexFolder, begun: _Begun, inputs: _Inputs, results: Mapping[str, str]) -> None:
    """Store the state of the build for its next round, with the `results` that the cache does not hold."""
    with folder.writer(begun.operation):
        settings = json.dumps(asdict(begun))
        folder.journal.keep_inputs(settings, None if inputs.stored else _lines(inputs))
        folder.journal.keep_results(results)


def _lines(inputs: _Inputs) -> Iterator[str]:
    for item in inputs.documents:
        if isinstance(item, Chunk):
            yield json.dumps({"chunk": asdict(item)})
        elif isinstance(item, str):
            yield json.dumps({"document": {"id": content_id(item), "text": item}})
        else:
            text = item.text if isinstance(item, Document) else "".join(item.blocks())
            fields = {"id": item.id, "text": text, "metadata": dict(item.metadata)}
            fields |= {"file": item.file, "root": item.root}
            if isinstance(item, Document) and item.sections:
                fields["sections"] = [[each.start, dict(each.metadata)] for each in item.sections]
            yield json.dumps({"document": fields})
    for key, value in (inputs.extraction or {}).items():
        yield json.dumps({"extraction": [key, to_json(value)]})


def _remembered(folder: IndexFolder) -> tuple[_Begun, _Inputs, Results]:
    """What `_remember` stored; `ValueError` if nothing is, `Damaged` if it cannot be read."""
    settings, *lines = folder.journal.inputs() or [""]
    result_lines = folder.journal.results()
    folder.journal.close()
    if not settings:
        raise ValueError(
            f"no batch is under way in {str(folder.path)!r}: begin one with batch.write. What was answered "
            "before is in the cache, and is not asked again"
        )
    documents: list[Document | Chunk] = []
    extraction, results = {}, Results()
    try:
        begun = _Begun(**json.loads(settings))
        for line in lines:
            ((kind, value),) = json.loads(line).items()
            if kind == "extraction":
                extraction[value[0]] = from_json(value[1])
            elif kind == "chunk":
                documents.append(Chunk(**value))
            else:
                sections = tuple(Section(start, metadata) for start, metadata in value.pop("sections", ()))
                documents.append(Document(**value, sections=sections))
        for line in result_lines:
            results.add(line)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise Damaged(f"{folder.journal.path}: what it holds of a batch cannot be read ({error})") from error
    return begun, _Inputs(documents, extraction or None, stored=True), results

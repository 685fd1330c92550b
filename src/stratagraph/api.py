"""How an index comes about: built, opened, or only estimated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stratagraph._asking import positive
from stratagraph._build import Change, settings_of
from stratagraph._documents import Documents
from stratagraph._gates import Models
from stratagraph._sync import blocking, in_thread
from stratagraph._vector_tables import as_table
from stratagraph.config import Config, as_config
from stratagraph.errors import Damaged
from stratagraph.index import Index, method_names
from stratagraph.models.budget import Budget, Limits, Prices
from stratagraph.models.estimate import Estimate
from stratagraph.pipeline.entity_resolution import Rule
from stratagraph.pipeline.extraction.stage import Given
from stratagraph.protocols import Mapper, Progress, VectorTable
from stratagraph.store.cached import CachedFolder
from stratagraph.store.checksums import Check
from stratagraph.store.folder import DEFAULT_CHECK, IndexFolder
from stratagraph.store.remote import is_url, shown
from stratagraph.store.shards import ShardedFolder, is_sharded
from stratagraph.store.spread import MOST, Spread

StrPath = str | os.PathLike[str]


async def abuild_index(
    documents: Documents,
    method: str | Sequence[str] = "lshtree",
    path: StrPath | None = None,
    llm: Any = None,
    embedder: Any = None,
    config: Any = None,
    budget: Budget | None = None,
    cache: StrPath | None = None,
    progress: bool | Progress = True,
    extraction: Given | None = None,
    resolve_rule: Rule | None = None,
    vectors: Any = None,
    mapper: str | Mapper | None = None,
) -> Index:
    """Build an index of documents and return it, open.

    A build that was stopped or killed resumes when it is called again with the same arguments: no model
    call that was answered is made twice. Over an index of the very same documents, methods and settings
    it does nothing and opens that.

    Parameters
    ----------
    documents
        Strings, `Document`s, or `Chunk`s (already split: nothing splits them again).
    method
        `"lshtree"`, or a list of methods to build over one extraction; the first is the default of
        `retrieve`.
    path
        The index folder; None means a private temporary one, gone when the index is closed.
    llm
        A chat model: an object (see `protocols.ChatModel`), a model of LangChain or LlamaIndex, a name such
        as `"openai:gpt-4o-mini"`, `"openai:NAME@http://127.0.0.1:8000/v1"` or `"ollama:llama3.1"`, or a
        mapping of these by stage: `{"extract": ..., "summarize": ..., "answer": ..., "default": ...}`. None
        works without one: extractive summaries.
    embedder
        An embedder (see `protocols.Embedder`), embeddings of LangChain or LlamaIndex, or a name such as
        `"openai:text-embedding-3-small"`, `"minilm"` or `"hashing"`; None means the local default.
    config
        A `Config`, a method's own settings, or a mapping of settings.
    budget
        Where to stop; see `Budget`.
    cache
        A file of model calls to share among indexes; None keeps them in the folder.
    progress
        True shows progress bars, or a `Progress` of your own.
    extraction
        Extractions that exist already (see `importing`), by a chunk's `ref` or a document's id; no model
        is asked about those.
    resolve_rule
        Decides over each pair of entities that may be one (see `pipeline.entity_resolution.Candidate`), where
        `ExtractionConfig.resolve` is on; None: their descriptions must be alike. Not kept in the folder.
    vectors
        A vector store of LangChain or LlamaIndex (or an object as `protocols.VectorTable`), in which
        vectors are kept and searched instead of in the folder. Over an index that holds its vectors
        itself, the same call moves them there.
    mapper
        Where what no model is paid for runs: `"threads"`, `"processes"`, `"ray"`, `"ray@ADDRESS"`, or what
        `mapper` made. None: a thread here. The result is the same byte for byte. Later updates by this
        object use it too.

    Raises
    ------
    ValueError
        If there are no documents or only blank ones, or an id comes twice with different content.
    IndexExists
        If the folder holds an index of something else.
    NotAnIndex
        If the folder holds other files.
    VectorStoreError
        If the vector store refuses, does not answer, or cannot do what is needed.
    BudgetExceeded, TooManyFailures, ModelError, EmbedderError, Locked
        As `errors` tells. What was done is kept in the folder's cache.
    """
    methods = method_names(method)
    settings = as_config(config)
    table = as_table(vectors, settings.limits.store_timeout)
    if table is not None and path is None:
        raise ValueError("vectors= needs path=...: rows in a vector store would outlive a temporary folder")
    folder = await in_thread(IndexFolder.create, None if path is None else _local(path), table)
    change = Change("build", documents, methods=methods, config=settings, extraction=extraction)
    return await _built(
        folder,
        change,
        settings,
        llm=llm,
        embedder=embedder,
        budget=budget,
        cache=cache,
        progress=progress,
        resolve_rule=resolve_rule,
        mapper=mapper,
    )


build_index = blocking(abuild_index)


async def abuild_shards(
    documents: Documents,
    path: StrPath,
    shards: int | None = None,
    by: str | None = None,
    method: str | Sequence[str] = "lshtree",
    llm: Any = None,
    embedder: Any = None,
    config: Any = None,
    budget: Budget | None = None,
    cache: StrPath | None = None,
    progress: bool | Progress = True,
    extraction: Given | None = None,
    resolve_rule: Rule | None = None,
    mapper: str | Mapper | None = None,
    vectors: None = None,
) -> Index:
    """Build several indexes side by side, and return them open as one.

    The result is an `Index` like any other: it is asked, changed and checked as one, and `open_index` opens
    it. Passages are ranked over all shards as in one index, by frequencies of names and words over all; each
    shard has a hierarchy of its own. Documents are put to their shard first, and so held in memory, but for
    those whose text is read when it is needed (`StreamedDocument`).

    A build that was stopped resumes with the same call, as that of one index does.

    Parameters
    ----------
    documents
        As for `build_index`.
    path
        The folder that will hold the shards.
    shards
        How many; documents are spread by a hash of their ids.
    by
        In the place of `shards`: a key of the documents' metadata, such as `"tenant"`. Each of its values has
        a shard of its own, with its whole hierarchy; a value that comes later gets one then.
    method, llm, embedder, config, budget, cache, progress, extraction, resolve_rule, mapper
        As for `build_index`. The budget is that of all shards together. Where nothing is paid (no chat model,
        and an embedder that workers have) and the mapper's workers see the files, they build whole shards.
    vectors
        None: a vector store (see `build_index`) holds the vectors of one index, not of shards.

    Raises
    ------
    ValueError
        If neither or both of `shards` and `by` are given, or a document has no value of the key, or `vectors`
        is anything; and as `build_index` does.
    NotAnIndex
        If the folder holds something else, or shards that are spread in another way.
    IndexExists, BudgetExceeded, TooManyFailures, ModelError, EmbedderError, Locked
        As for `build_index`; a note names the shard.
    """
    if vectors is not None:
        raise ValueError(
            "vectors= is for one index, not for shards, each of which has its vectors in its own folder"
        )
    methods, settings = method_names(method), as_config(config)
    folder = await in_thread(ShardedFolder.create, _local(path), _spread(shards, by))
    change = Change("build", documents, methods=methods, config=settings, extraction=extraction)
    return await _built(
        folder,
        change,
        settings,
        llm=llm,
        embedder=embedder,
        budget=budget,
        cache=cache,
        progress=progress,
        resolve_rule=resolve_rule,
        mapper=mapper,
    )


build_shards = blocking(abuild_shards)


async def _built(
    folder: IndexFolder | ShardedFolder, change: Change, settings: Config, **models: Any
) -> Index:
    """The index in a folder after its first build, by `_gates.Models` of these; given up if that fails."""
    try:
        recorded = folder.snapshot().manifest if folder.generation else None
        used = Models(recorded=recorded, spacy=settings.extraction.spacy, **models)
        used.prefer_tokenizer(settings.tokenizer)
        index = Index(folder, used, settings)
        await index._update(change)
    except BaseException:
        await in_thread(folder.abandon)
        raise
    return index


def _local(path: StrPath) -> Path:
    if is_url(path):
        raise ValueError(f"{shown(os.fspath(path))}: build in a local folder, and then index.copy_to(URL)")
    return Path(path)


def _spread(shards: int | None, by: str | None) -> Spread:
    if (shards is None) == (by is None):
        raise ValueError('give shards=16 or by="tenant", one of the two')
    if by is not None:
        if not isinstance(by, str) or not by:
            raise TypeError(f"by must be the name of a metadata key, not {by!r}")
        return Spread((), by)
    if positive("shards", shards or 0) > MOST:
        raise ValueError(f"shards must be at most {MOST:,}, not {shards:,}")
    return Spread.over(shards or 0)


async def aopen_index(
    path: StrPath,
    llm: Any = None,
    embedder: Any = None,
    *,
    budget: Budget | None = None,
    cache: StrPath | None = None,
    progress: bool | Progress = False,
    limits: Limits | None = None,
    resolve_rule: Rule | None = None,
    check: Check = DEFAULT_CHECK,
    spacy: str | None = None,
    partial: bool = False,
    cache_dir: StrPath | None = None,
    vectors: Any = None,
    repair: bool = False,
    mapper: str | Mapper | None = None,
) -> Index:
    """Open the index in a folder, or the shards in it. Vectors are memory-mapped and no text is loaded.

    Parameters are those of `build_index`; the settings are read from the folder, but for `limits`, which
    say how models are called from now on, and `resolve_rule`, which is not kept there. `check` says how much
    of the files is held against their checksums, now and when later generations are opened: `"sizes"` looks
    at the sizes of large ones, `"sampled"` at parts of them, `"full"` at every byte (as `Index.verify` does).
    An index whose settings name a spaCy pipeline (`ExtractionConfig.spacy`) takes new documents only if it is
    opened with the same name in `spacy`, which agrees to that: what only a folder names is not loaded.
    `mapper` is for updates, as for builds.

    Shards (`build_shards`) are opened together. If one is missing that is an error, unless `partial` asks for
    answers from the others; then they cannot be changed, and `stats()` names what is missing.

    A URL of fsspec (`"s3://..."`, `"gs://..."`, `"file://..."`; extra `remote`) opens what `Index.copy_to`
    put there, to be read only: its files are fetched, held against their checksums and served from a local
    cache, in which answers of models are kept too. The cache is a private temporary folder, or lies in
    `cache_dir`, where it serves the next time and other processes, too, for as long as it is what the URL
    holds. `Index.reload` fetches what was published since.

    `vectors` is the vector store of an index that was built with one. `repair` mends that store first
    where it is not what the folder's generation needs, as `Index.verify` does.

    Raises
    ------
    NotAnIndex, FormatMismatch, Damaged
        If the folder holds no index that this version can read.
    ShardMissing, ShardMismatch
        If a shard is not there, or differs from the others in its settings.
    EmbedderMismatch
        If the embedder is not the one that the index was built with.
    VectorStoreError, VectorStoreStale
        If the vector store is not given, does not answer, or has not the rows of the folder's generation.
    RemoteError, MissingExtra
        If the storage behind a URL refuses or does not answer, or the package for it is not installed.
    """
    running = limits or Limits()
    table = as_table(vectors, running.store_timeout)
    folder = await in_thread(_opened, path, check, partial, cache_dir, table, repair)
    try:
        manifest = folder.snapshot().manifest
        models = Models(
            llm,
            embedder,
            budget=budget,
            cache=cache,
            progress=progress,
            recorded=manifest,
            resolve_rule=resolve_rule,
            spacy=spacy,
            mapper=mapper,
        )
        models.check_embedder(manifest, folder.url or folder.path)
        index = Index(folder, models, settings_of(manifest, Config(limits=running)))
        if repair and (left := await index.averify(repair=True)):
            raise Damaged("; ".join(left))
        index._serve()
        return index
    except BaseException:
        folder.close()
        raise


open_index = blocking(aopen_index)


def _opened(
    given: StrPath,
    check: Check,
    partial: bool,
    cache_dir: StrPath | None,
    table: VectorTable | None,
    repair: bool,
) -> IndexFolder | ShardedFolder:
    if table is not None and (is_url(given) or is_sharded(Path(given))):
        raise ValueError(
            "vectors= is for one index in a local folder, not for shards or an index behind a URL"
        )
    if is_url(given):
        return CachedFolder.at(os.fspath(given), None if cache_dir is None else Path(cache_dir), check)
    if cache_dir is not None:
        raise ValueError(f"cache_dir is for an index behind a URL, and {os.fspath(given)!r} is a local path")
    path = Path(given)
    if is_sharded(path):
        return ShardedFolder.open(path, check, partial=partial)
    return IndexFolder.open(path, check, table, stale_ok=repair)


async def aestimate(
    documents: Documents,
    method: str | Sequence[str] = "lshtree",
    llm: Any = None,
    config: Any = None,
    cache: StrPath | None = None,
    prices: Prices | None = None,
    extraction: Given | None = None,
    embedder: Any = None,
) -> Estimate:
    """What `build_index` with the same arguments would cost, without a single model call.

    It runs the build itself with models that only count, so it cannot drift from it. Input tokens follow
    from the texts and our prompts. Answers are taken to be as long as the prompts ask for; extractions to
    name what the rules find, and dates, with a sentence on each. The grouping of summaries follows vectors
    by words alone, of the dimension of `embedder`, as real ones are not known yet. Calls that `cache` holds
    count as cached. What a model thinks before it writes, and repairs, come on top.
    """
    settings = as_config(config)
    models = Models(llm, embedder, cache=cache, progress=False, spacy=settings.extraction.spacy)
    models.prefer_tokenizer(settings.tokenizer)
    index = Index(IndexFolder.create(None), models, settings)
    change = Change(
        "estimate", documents, methods=method_names(method), config=settings, extraction=extraction
    )
    try:
        return await index._estimate(change, prices)
    finally:
        index.close()


estimate = blocking(aestimate)

"""Building, opening and estimating an index."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stratagraph._sync import blocking
from stratagraph.config import Config, as_config
from stratagraph.errors import Damaged
from stratagraph.index import Index, method_names
from stratagraph.ingest.extraction.stage import Given
from stratagraph.ingest.graph.entity_resolution import Rule
from stratagraph.models.budget import Budget, Limits, Prices
from stratagraph.models.estimate import Estimate
from stratagraph.models.local import default_embedder
from stratagraph.operations.changes import BUILD, ESTIMATE, REBUILD, Change, settings_of
from stratagraph.operations.documents import Documents, check_documents
from stratagraph.operations.gates import Models
from stratagraph.operations.shards.updating import estimated
from stratagraph.operations.vector_tables import as_table
from stratagraph.store.cached import CachedFolder
from stratagraph.store.checksums import Check
from stratagraph.store.folder import DEFAULT_CHECK, IndexFolder
from stratagraph.store.remote import is_url, shown
from stratagraph.store.shards import ShardedFolder, is_sharded
from stratagraph.store.spread import MOST, Spread
from stratagraph.system.threads import in_thread
from stratagraph.types.checks import positive
from stratagraph.types.protocols import Mapper, Progress, VectorTable

StrPath = str | os.PathLike[str]


async def abuild_index(
    documents: Documents,
    method: str | Sequence[str] | None = None,
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
    prune: bool | Callable[[str], bool] = False,
    rebuild: bool = False,
    date_key: str | None = None,
) -> Index:
    """Build an index of documents and return it, open.

    Calling it again with the same arguments resumes a build that was stopped, without repeating an
    answered model call. If the folder holds an index, it is brought to what is given: new documents are
    added, changed ones updated, and methods that it lacks are built. Its other documents and methods stay.

    Parameters
    ----------
    documents
        Strings, `Document`s, or `Chunk`s, which are not split again.
    method
        A method's name, or several to build over one extraction. The first is the default of `retrieve`.
        None means the methods of the index in the folder; a new one then has what the walk needs, and no chat
        model is called.
    path
        The index folder. None uses a temporary folder that is removed when the index is closed.
    llm
        A `protocols.ChatModel`, a model of LangChain or LlamaIndex, or a name such as
        `"openai:gpt-4o-mini"`, `"openai:NAME@http://127.0.0.1:8000/v1"` or `"ollama:llama3.1"`. A mapping
        chooses a model per stage: `{"extract": ..., "summarize": ..., "answer": ..., "default": ...}`.
        None builds without a model: names come from rules, summaries are extractive.
    embedder
        A `protocols.Embedder`, embeddings of LangChain or LlamaIndex, or a name such as
        `"openai:text-embedding-3-small"`, `"minilm"` or `"hashing"`. None uses the local default.
    config
        A `Config`, a method's own settings, or a mapping of settings. Settings that a mapping does not name
        are those of the index in the folder, or the defaults.
    budget
        When to stop; see `Budget`.
    cache
        A file of model answers to share among indexes. None keeps them in the index folder.
    progress
        True shows progress bars; or a `protocols.Progress` of your own.
    extraction
        Existing extractions by the `ref` of a chunk or the id of a document (see `importing`). The model is
        not asked about those.
    resolve_rule
        Decides whether two entities are the same, if `ExtractionConfig.resolve` is on: a function of an
        `ingest.graph.entity_resolution.Candidate` that returns True or False. None asks the model that
        extracts, or compares their descriptions. Not stored in the folder.
    vectors
        A vector store of LangChain or LlamaIndex, or a `protocols.VectorTable`, to hold the embeddings
        instead of the folder. An existing index is moved there.
    mapper
        Runs the work that calls no paid model: `"threads"`, `"processes"`, `"ray"`, `"ray@ADDRESS"`, or the
        result of `mapper`. None uses one thread. The index is the same, byte for byte. Updates of the
        returned index use it too.
    prune
        Delete indexed documents that are missing from `documents`, but for those of files that
        `read_documents` could not read. True deletes all of them; a function of the id decides for each.
    rebuild
        Build the index in the folder anew, of the given documents alone, with all of its methods. Settings
        and a local embedder that are not given, and answers of models, are taken from it.
    date_key
        The setting `Config.date_key`: the metadata field that dates a document, such as `"published"`.

    Raises
    ------
    ValueError
        If all documents are blank, or one id comes with two different texts.
    SettingsConflict
        If the index in the folder has other settings than given, but for `ExtractionConfig.resolve`;
        `EmbedderMismatch` if its embedder is another one.
    NotAnIndex
        If the folder holds other files.
    VectorStoreError
        If the vector store refuses, does not answer, or lacks an operation that is needed.
    BudgetExceeded, TooManyFailures, ModelError, EmbedderError, Locked
        See `errors`. Completed work stays in the folder's cache.
    """
    check_documents(documents)
    methods, settings = None if method is None else method_names(method), as_config(config)
    table = as_table(vectors, settings.limits.store_timeout)
    if table is not None and path is None:
        raise ValueError("vectors= needs path=...: rows in a vector store would outlive a temporary folder")
    folder = await in_thread(IndexFolder.create, None if path is None else _local(path), table)
    rebuild = rebuild and folder.generation > 0
    change = Change(REBUILD if rebuild else BUILD, documents, extraction=extraction, prune=prune)
    models = dict(
        llm=llm, budget=budget, cache=cache, progress=progress, resolve_rule=resolve_rule, mapper=mapper
    )
    return await _built(folder, change, methods, config, embedder, models, path, vectors, date_key)


build_index = blocking(abuild_index)


async def abuild_shards(
    documents: Documents,
    path: StrPath,
    shards: int | None = None,
    by: str | None = None,
    method: str | Sequence[str] | None = None,
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
    prune: bool | Callable[[str], bool] = False,
    date_key: str | None = None,
) -> Index:
    """Build several indexes side by side and return them, open as one `Index`.

    Passages are ranked with the word and name frequencies of all shards, as in one index. Each shard has its
    own hierarchy. Documents are assigned to shards first, so all but `StreamedDocument`s are held in memory.
    What is not named here is as for `build_index`.

    Parameters
    ----------
    path
        The folder for the shards.
    shards
        Number of shards; a hash of the document's id chooses one.
    by
        Instead of `shards`: a metadata key such as `"tenant"`. Each value gets its own shard; values that
        appear later get a new one.
    budget
        Covers all shards.
    mapper
        Without a paid model, its workers build whole shards if they see the files.
    vectors
        Must be None: a vector store holds the embeddings of one index.

    Raises
    ------
    ValueError
        If not exactly one of `shards` and `by` is given, a document has no value of the key, or `vectors` is
        given; otherwise as `build_index`.
    NotAnIndex
        If the folder holds something else, or shards with another assignment. Notes of errors name the shard.
    """
    if vectors is not None:
        raise ValueError(
            "vectors= is for one index, not for shards, each of which has its vectors in its own folder"
        )
    check_documents(documents)
    methods, _ = None if method is None else method_names(method), as_config(config)
    if (shards is None) == (by is None):
        raise ValueError('give shards=16 or by="tenant", one of the two')
    if by is not None and (not isinstance(by, str) or not by):
        raise TypeError(f"by must be the name of a metadata key, not {by!r}")
    if shards is not None and positive("shards", shards) > MOST:
        raise ValueError(f"shards must be at most {MOST:,}, not {shards:,}")
    spread = Spread((), by) if shards is None else Spread.over(shards)
    folder = await in_thread(ShardedFolder.create, _local(path), spread)
    change = Change(BUILD, documents, extraction=extraction, prune=prune)
    models = dict(
        llm=llm, budget=budget, cache=cache, progress=progress, resolve_rule=resolve_rule, mapper=mapper
    )
    return await _built(folder, change, methods, config, embedder, models, path, None, date_key)


build_shards = blocking(abuild_shards)


async def abuild_any(
    documents: Documents,
    *,
    path: StrPath | None = None,
    shards: int | str | None = None,
    rebuild: bool = False,
    **arguments: Any,
) -> Index:
    """`abuild_index`, or `abuild_shards` if `shards` is their number, or the metadata key that names them."""
    if shards is None:
        return await abuild_index(documents, path=path, rebuild=rebuild, **arguments)
    if path is None:
        raise ValueError("shards need a folder: give path=...")
    if rebuild:
        raise ValueError("rebuild=True is for one index: build shards anew in another folder")
    spread: dict[str, Any] = {"by" if isinstance(shards, str) else "shards": shards}
    return await abuild_shards(documents, path, **spread, **arguments)


build_any = blocking(abuild_any)


async def _built(
    folder: IndexFolder | ShardedFolder,
    change: Change,
    methods: tuple[str, ...] | None,
    config: Any,
    embedder: Any,
    models: dict[str, Any],
    path: StrPath | None,
    vectors: Any = None,
    date_key: str | None = None,
) -> Index:
    """Build or open the index in a folder; a new folder that fails is given up."""
    try:
        recorded = folder.snapshot().manifest if folder.generation else None
        base = None if recorded is None else settings_of(recorded, Config())
        settings = as_config(config, base)
        settings = settings if date_key is None else replace(settings, date_key=date_key)
        present = () if recorded is None else tuple(recorded.methods)
        methods = methods or present
        if recorded is not None and change.action.starts_over:
            methods = tuple(dict.fromkeys([*methods, *present]))
            embedder = default_embedder(recorded.embedder) if embedder is None else embedder
            recorded = None
        change = replace(change, methods=methods, config=settings)
        models |= dict(embedder=embedder, spacy=settings.extraction.spacy)
        used = Models(recorded=recorded, **models)
        used.prefer_tokenizer(settings.tokenizer)
        reopen = functools.partial(open_index, folder.path, limits=settings.limits, vectors=vectors, **models)
        index = Index(folder, used, settings, None if path is None else reopen)
        await index._update(change)
    except BaseException:
        await in_thread(folder.abandon)
        raise
    return index


def _local(path: StrPath) -> Path:
    if is_url(path):
        raise ValueError(f"{shown(os.fspath(path))}: build in a local folder, and then index.copy_to(URL)")
    return Path(path)


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
    """Open the index, or the shards, in a folder or behind a URL.

    Embeddings are memory-mapped, and no text is loaded. The settings are read from the folder.

    Parameters
    ----------
    path
        The folder, or a URL of fsspec such as `"s3://..."`, `"gs://..."` or `"file://..."` (extra `remote`)
        where `Index.copy_to` published an index. An index behind a URL is read-only; its files are fetched
        and checked. `Index.reload` fetches a newer generation.
    llm, embedder, budget, cache, progress, resolve_rule, mapper
        As for `build_index`.
    limits
        How models are called; replaces the recorded limits.
    check
        How much of each file is compared with its checksum: `"sizes"` checks only the size of large files,
        `"sampled"` parts of them, `"full"` every byte.
    spacy
        Allows loading this spaCy pipeline. Needed to insert into an index built with
        `ExtractionConfig.spacy`, because a name that only the folder gives is never loaded.
    partial
        Open shards even if some are missing. The index is then read-only, and `stats()` names them.
    cache_dir
        Folder for the files of an index behind a URL, reused by later and other processes. None uses a
        temporary folder.
    vectors
        The vector store that the index was built with.
    repair
        Restore missing rows of the vector store first, as `Index.verify` does.

    Raises
    ------
    NotAnIndex, FormatMismatch, Damaged
        If the folder holds no index that this version can read.
    ShardMissing, ShardMismatch
        If a shard is missing, or its settings differ from the others.
    EmbedderMismatch
        If the index was built with another embedder.
    VectorStoreError, VectorStoreStale
        If the vector store is not given, does not answer, or lacks rows of this generation.
    RemoteError, MissingExtra
        If the storage behind a URL does not answer, or its package is not installed.
    """
    running = limits or Limits()
    table = as_table(vectors, running.store_timeout)
    folder = await in_thread(_opened, path, check, partial, cache_dir, table, repair)
    try:
        manifest = folder.snapshot().manifest
        settings: dict[str, Any] = dict(
            llm=llm, embedder=embedder, budget=budget, cache=cache, progress=progress, mapper=mapper
        )
        settings |= dict(resolve_rule=resolve_rule, spacy=spacy)
        models = Models(recorded=manifest, **settings)
        models.check_embedder(manifest, folder.url or folder.path)
        opening: dict[str, Any] = dict(limits=limits, check=check, partial=partial, cache_dir=cache_dir)
        place = path if folder.url else folder.path
        reopen = functools.partial(open_index, place, vectors=vectors, **opening, **settings)
        index = Index(folder, models, settings_of(manifest, Config(limits=running)), reopen)
        if repair and (left := await index.averify(repair=True)):
            raise Damaged("; ".join(left))
        index._serve()
        return index
    except BaseException:
        folder.close()
        raise


open_index = blocking(aopen_index)


def _opened(
    place: StrPath,
    check: Check,
    partial: bool,
    cache_dir: StrPath | None,
    table: VectorTable | None,
    repair: bool,
) -> IndexFolder | ShardedFolder:
    if table is not None and (is_url(place) or is_sharded(Path(place))):
        raise ValueError(
            "vectors= is for one index in a local folder, not for shards or an index behind a URL"
        )
    if is_url(place):
        return CachedFolder.at(os.fspath(place), None if cache_dir is None else Path(cache_dir), check)
    if cache_dir is not None:
        raise ValueError(f"cache_dir is for an index behind a URL, and {os.fspath(place)!r} is a local path")
    path = Path(place)
    if is_sharded(path):
        return ShardedFolder.open(path, check, partial=partial)
    return IndexFolder.open(path, check, table, stale_ok=repair)


async def aestimate(
    documents: Documents,
    method: str | Sequence[str] | None = None,
    llm: Any = None,
    config: Any = None,
    cache: StrPath | None = None,
    prices: Prices | None = None,
    extraction: Given | None = None,
    embedder: Any = None,
) -> Estimate:
    """Estimate the cost of `build_index` with the same arguments, without calling a model.

    The build itself runs with models that only count. Input tokens follow from the texts and prompts. Output
    tokens assume answers as long as the prompts request, and extractions that name what the rules find.
    Calls that `cache` answers count as cached. Reasoning tokens and repair requests come on top. `prices` are
    those of tokens; None uses those known of the models.
    """
    settings = as_config(config)
    models = Models(llm, embedder, cache=cache, progress=False, spacy=settings.extraction.spacy)
    models.prefer_tokenizer(settings.tokenizer)
    folder = IndexFolder.create(None)
    methods = () if method is None else method_names(method)
    change = Change(ESTIMATE, documents, methods=methods, config=settings, extraction=extraction)
    try:
        return await estimated(folder, models, change, prices)
    finally:
        models.close()
        folder.close()


estimate = blocking(aestimate)

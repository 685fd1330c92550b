"""`Index`: an index folder with its models, updates and questions. It contains no algorithm."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from stratagraph import viz
from stratagraph._sync import blocking, blocking_iterator
from stratagraph.config import Config
from stratagraph.errors import StratagraphError
from stratagraph.export import export, to_networkx
from stratagraph.ingest.extraction.stage import Given
from stratagraph.methods import NAMES, WAYS, get_method, get_way
from stratagraph.models.budget import Prices
from stratagraph.models.estimate import Estimate
from stratagraph.models.task import stage_of
from stratagraph.models.tracing import span
from stratagraph.operations import listing
from stratagraph.operations.arguments import (
    DEFAULT_K,
    AnswerArguments,
    OnRetrieved,
    SearchArguments,
    check_search_options,
)
from stratagraph.operations.asking import Asking
from stratagraph.operations.browsing import MOST, TABLES, Browser, PageRequest
from stratagraph.operations.changes import (
    ADD_METHOD,
    COMPACT,
    DELETE,
    ESTIMATE,
    INSERT,
    REEMBED,
    REGROUP,
    RESTORE,
    Change,
    settings_of,
)
from stratagraph.operations.documents import Documents, matching
from stratagraph.operations.gates import Folder, Models, RecentVectors
from stratagraph.operations.inspection import inspected
from stratagraph.operations.listing import documents_of
from stratagraph.operations.reader import Answering
from stratagraph.operations.shards.reader import opened_reader
from stratagraph.operations.shards.updating import carried_out, estimated
from stratagraph.search.filters import compile_where, with_ids
from stratagraph.store.files import bytes_below
from stratagraph.store.folder import IndexFolder
from stratagraph.store.remote import is_url
from stratagraph.store.snapshot import JoinedSnapshot
from stratagraph.types.checks import positive
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import (
    SEARCH_ARGUMENTS,
    WALK,
    Guided,
    Length,
    Rank,
    SearchQuestion,
    Turn,
    View,
    Where,
)
from stratagraph.types.records import (
    BuildReport,
    CachedCall,
    Chunk,
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    Level,
    Listing,
    Metadata,
    MethodNode,
)
from stratagraph.types.results import Answer, AnswerStream, Hit, Picture, Retrieval

if TYPE_CHECKING:
    import networkx

StrPath = str | os.PathLike[str]


def method_names(method: str | Sequence[str]) -> tuple[str, ...]:
    """The methods to build that one name or several mean, checked and without duplicates.

    None for `"walk"`, which every index has.
    """
    if not isinstance(method, Iterable):
        raise TypeError(f"method must be a name or a list of names of {', '.join(WAYS)}, not {method!r}")
    names = (method,) if isinstance(method, str) else tuple(dict.fromkeys(method))
    if not names:
        raise ValueError(f"name at least one method of {', '.join(NAMES)}; None builds what the walk needs")
    return () if names == (WALK,) else tuple(get_method(name).name for name in names)


class Index:
    """An open index, returned by `build_index` and `open_index`. Use it as a context manager.

    Threads and tasks may ask questions concurrently. Each question sees the generation that is published when
    it is asked, by this or another process; what lists the index's contents sees that of the last question,
    update or `reload`. Behind a URL only `reload` looks for a newer generation. `pickle` and `copy.deepcopy`
    keep the path and the models, and open the folder again.

    Attributes
    ----------
    last_report
        Report of the last build or update through this object; None after opening.
    """

    def __init__(
        self, folder: Folder, models: Models, config: Config, reopen: Callable[..., Index] | None = None
    ) -> None:
        self._folder = folder
        self._models = models
        self._config = config
        self._reopen = reopen
        self._published: object = None
        self._reader: Answering | None = None
        self._browser: Browser | None = None
        self.last_report: BuildReport | None = None

    # What it is

    @property
    def path(self) -> Path:
        """The index folder. For an index behind a URL, the folder of its cache."""
        return self._folder.path

    @property
    def url(self) -> str | None:
        """The URL it was opened from, without a password, or None."""
        return self._folder.url

    @property
    def vectors(self) -> dict[str, str] | None:
        """The `store` that holds the embeddings and the index's `identity` in it; None if the folder does.

        Rows of this index have the identity in their field `stratagraph_index`.
        """
        return dict(self._serve().snapshot.manifest.vectors) or None

    @property
    def has_llm(self) -> bool:
        """Whether a chat model was given. Without one, answers are excerpts."""
        return self._models.llm is not None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Index({self.url or str(self.path)!r}, generation={self._folder.generation})"

    def __reduce__(self) -> tuple[Callable[[], Index], tuple[()]]:
        if self._reopen is None:
            raise TypeError(
                "an index in a temporary folder cannot be pickled or copied: the folder is removed with "
                "this object; build it with path=..."
            )
        return self._reopen, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        reopen, _ = self.__reduce__()
        return reopen()

    def close(self) -> None:
        """Release the folder, and remove it if it is temporary. May be called twice."""
        self._reader = self._browser = None
        self._models.close()
        self._folder.close()

    def reload(self) -> int:
        """Switch to the newest generation that another process or object published; returns its number.

        For an index behind a URL, the files are fetched first. Errors are those of `open_index`.
        """
        self._folder.refresh()
        if self._serve().snapshot.manifest.generation != self._folder.generation:
            snapshot = self._folder.snapshot()
            self._models.check_embedder(snapshot.manifest, self.url or self.path)
            self._config = settings_of(snapshot.manifest, self._config)
            self._reader = opened_reader(snapshot)
        return self.generation

    def _follow(self) -> None:
        """Switch to a newer generation of a local folder; one that cannot be opened is warned about once."""
        if self._reader is None or self._folder.closed or self.url is not None:
            return
        published = self._folder.published()
        if published == self._published:
            return
        self._published = published
        try:
            self.reload()
        except (StratagraphError, OSError) as error:
            warnings.warn(
                f"{self!r} still answers from generation {self.generation}, since the newer one cannot be "
                f"opened: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    def warm(self) -> None:
        """Load what questions need, so that the first one is as fast as later ones. Calls no model."""
        self._models.load()
        self._asking().warm()

    # Updates

    async def ainsert(
        self,
        documents: Documents,
        *,
        extraction: Given | None = None,
        files: Iterable[str] = (),
        prune: bool = False,
    ) -> BuildReport:
        """Add or update documents. Unchanged documents are ignored, blank ones are skipped and reported.

        The graph equals that of a build over all documents. Unchanged summaries are kept. A file owns the
        documents that were read from it: `insert(read_documents("prices.csv"))` deletes rows that the file
        has no more. Errors are those of `build_index`.

        Parameters
        ----------
        documents, extraction
            As for `build_index`.
        files
            Ids of further files (`Document.file`) that `documents` hold whole, so that their other documents
            are deleted.
        prune
            Delete the documents of files that vanished from the paths which `read_documents` was given, which
            the report else names (`vanished`).
        """
        whole = frozenset(listed(files))
        return await self._update(
            Change(INSERT, documents, config=self._config, extraction=extraction, files=whole, prune=prune)
        )

    insert = blocking(ainsert)

    async def adelete(self, ids: str | Iterable[str], *, missing_ok: bool = False) -> BuildReport:
        """Delete one or several documents by id, with everything that came from them alone.

        Summaries they contributed to are written again. None of their text remains in the folder, including
        cached model answers; a shared `cache` file is left as it is.

        `KeyError` if an id is unknown, unless `missing_ok`.
        """
        names = tuple(dict.fromkeys(listed(ids)))
        return await self._update(Change(DELETE, removed=names, missing_ok=missing_ok, config=self._config))

    delete = blocking(adelete)

    async def aadd_method(self, method: str, config: Any = None) -> BuildReport:
        """Build another method over the same corpus and extraction; `config` are its settings.

        An existing method is rebuilt if `config` differs from its settings.
        """
        name = get_method(method).name
        own = {name: config} if config is not None else {}
        settings = replace(self._config, methods={**self._config.methods, **own})
        return await self._update(Change(ADD_METHOD, methods=(name,), config=settings))

    add_method = blocking(aadd_method)

    async def aregroup(self, method: str | None = None) -> BuildReport:
        """Compute communities and clusters of a method (None: of all) again, as a new build would.

        Updates keep existing groups, which drift from those of a new build within bounds. Texts and
        embeddings of unchanged groups are kept; summaries of changed groups cost model calls. `MethodMissing`
        if the folder holds no index of that method.
        """
        names = self.methods if method is None else (self._serve().built_method(method),)
        return await self._update(Change(REGROUP, methods=names, config=self._config))

    regroup = blocking(aregroup)

    async def acompact(self) -> BuildReport:
        """Write all files anew, without what updates put out of use. No answer changes, no model is called.

        Texts and vectors that inserts replaced stay on disk until a fifth of a file is out of use or a
        document is deleted, and lists of row numbers may stay after a deletion.
        """
        return await self._update(Change(COMPACT, config=self._config))

    compact = blocking(acompact)

    async def areembed(self, embedder: Any) -> BuildReport:
        """Compute all vectors again by another embedder. No extraction is asked again.

        Communities and clusters are those of a new build with this embedder. Groups that stay the same keep
        their summaries; those of other groups cost model calls, which `estimate_reembed` counts. Vectors may
        have another dimension. The index's own embedder is not called.

        `SettingsConflict` if a model wrote the summaries and the index was opened without one; `ValueError`
        for shards.
        """
        models = self._with_embedder(embedder)
        report = await self._update(Change(REEMBED, config=self._config), models)
        self._models = models
        if self._reopen is not None:
            self._reopen = partial(self._reopen, embedder=embedder)
        return report

    reembed = blocking(areembed)

    async def aestimate_reembed(self, embedder: Any, prices: Prices | None = None) -> Estimate:
        """Estimate the cost of `reembed` without a model call or an embedding.

        The new groups are not known before the texts are embedded: it counts those that hashed vectors make.
        """
        models = self._with_embedder(embedder)
        return await estimated(self._folder, models, Change(REEMBED, config=self._config), prices)

    estimate_reembed = blocking(aestimate_reembed)

    def _with_embedder(self, embedder: Any) -> Models:
        if not isinstance(self._folder, IndexFolder):
            raise ValueError(
                "reembed is for one index, and this one consists of shards: build shards with the other "
                "embedder in another folder, with extraction=dict(index.extractions())"
            )
        return self._models.with_embedder(embedder)

    async def aestimate(
        self, documents: Documents, prices: Prices | None = None, *, extraction: Given | None = None
    ) -> Estimate:
        """Estimate the cost of inserting documents without a model call; see `stratagraph.estimate`."""
        change = Change(ESTIMATE, documents, config=self._config, extraction=extraction)
        return await estimated(self._folder, self._models, change, prices)

    estimate = blocking(aestimate)

    async def _update(self, change: Change, models: Models | None = None) -> BuildReport:
        with span(f"stratagraph {change.action.name}", {}) as recorded:
            report = await carried_out(self._folder, models or self._models, change)
            recorded.set({"stratagraph.documents": report.documents, "stratagraph.chunks": report.chunks})
            recorded.set({"stratagraph.failures": len(report.failures)})
        snapshot = self._folder.snapshot()
        self._config = settings_of(snapshot.manifest, change.config)
        self._reader = opened_reader(snapshot)
        self.last_report = report
        return report

    # Questions

    async def aretrieve(
        self,
        q: str,
        k: int = DEFAULT_K,
        method: str | None = None,
        view: View | None = None,
        where: Where | None = None,
        decompose: bool = False,
        fill: bool = True,
        rank: Rank = "walk",
        rerank: Any = None,
        min_score: float | None = None,
        guided: Guided = False,
        guided_steps: int | None = None,
        history: Sequence[Turn] | None = None,
        as_of: Any = None,
        recency: float | None = None,
        **options: Any,
    ) -> Retrieval:
        """Search the index.

        Parameters
        ----------
        q, k
            The question, and the number of hits: fewer only if the index has fewer or `fill` is False.
        method
            A method of the index, whose own nodes are returned among passages, or `"walk"` for passages by a
            walk over names and links, in any index. None means the first method, or the walk without one.
        view
            `"chunks"` searches by the walk, whatever the method.
        where
            Metadata filter; see `search.filters.compile_where`. A summary passes if all of its passages do.
        decompose
            Ask the model for the names in the question (one call). By default, rules find them.
        fill
            False returns the method's own ranking, without passages of the walk, as do options that select
            levels or types.
        rank
            How passages are ranked instead of by the walk: `"bm25"` (only passages with a word of the
            question), `"dense"` (similarity) or `"hybrid"` (both fused).
        rerank
            Reorders four times as many hits: an object with `rerank(question, texts) -> scores`, the name of
            a model of fastembed, FlashRank or sentence-transformers (see `models.rerankers`), an object with
            `choose(question, texts, k) -> places`, from 0, sync or async, whose choice leads; of LangChain a
            cross encoder, document compressor or decision model, of LlamaIndex a node postprocessor.
        min_score
            In every view, leave out hits whose embedding has a lower cosine with the question. The texts of
            hits other than passages are embedded for it. `Hit.score` stays that of the ranking.
        guided
            True asks the model which hits are needed together, and what else to search for, or for several
            queries for an overview; `"choice"` or `"overview"` forces one of the two. There are up to two
            calls, together of under 4,000 input tokens. If one fails, what was found before it stands
            (`Retrieval.guidance`).
        guided_steps
            Searches of a guided question at most, the first included; None means two. An overview takes two.
        history
            The turns of a conversation before this question, the oldest first: pairs of `"user"` or
            `"assistant"` and a text. Of the last ones (1,200 tokens) the model makes a question that stands
            alone (one call). Without a model, or if the call fails, names of the turns before are added to a
            question that has a pronoun or no name (`Retrieval.standalone`).
        as_of
            Only what was there by this date: `"2024-06-30"`, `"2024-06"` and `2024` (to their last days), or
            a date. Documents without a date are hidden, and `Retrieval.undated` counts them.
        recency
            Half-life in days: a passage or node so much older than another needs twice its score. Ages count
            from the newest result, never from the clock.
        **options
            Search options of the method; `stratagraph.search_options(method)` lists them.

        Raises
        ------
        ValueError
            If the question is blank, `k < 1`, `guided` is set without a chat model, `history` has another
            role, `as_of` or `recency` is given where nothing is dated, or a filter, view or option is invalid
            or would be ignored.
        MethodMissing
            If the folder holds no index of that method.
        EmbedderError
            If the embedder returns no vector of the index's dimension.
        """
        how = view, where, method, decompose, fill, rank, rerank, min_score, guided, guided_steps
        arguments = SearchArguments(positive("k", k), *how, history, as_of, recency, options)
        return await self._asking().retrieve(q, arguments)

    def _light(self, options: Mapping[str, Any] | None = None, **named: Any) -> bool:
        """Whether a search with these arguments asks no model and no reranker, and so waits for nobody."""
        given = {**named, **(options or {})}
        asks = any(given.get(name) for name in ("decompose", "guided", "history", "rerank"))
        return not asks and given.get("min_score") is None and self._models.local

    retrieve = blocking(aretrieve, light=_light)

    async def aretrieve_many(
        self, questions: Iterable[str], k: int = DEFAULT_K, **options: Any
    ) -> list[Retrieval]:
        """Search for several questions, concurrently if a model is asked; the rest is as for `retrieve`."""
        if isinstance(questions, str):
            raise TypeError("questions must be a list of questions; for a single one use retrieve")
        texts = list(questions)
        if self._light(options):
            return [await self.aretrieve(q, k, **options) for q in texts]
        return list(await asyncio.gather(*(self.aretrieve(q, k, **options) for q in texts)))

    retrieve_many = blocking(aretrieve_many, light=_light)

    async def aanswer(
        self,
        q: str | Retrieval,
        k: int | None = None,
        *,
        llm: Any = None,
        max_tokens: int = 4000,
        length: Length | None = None,
        on_retrieved: OnRetrieved | None = None,
        **options: Any,
    ) -> Answer:
        """Answer a question with citations: `[n]` in the text refers to `Answer.retrieval.hits[n - 1]`.

        A chat model writes the answer from the hits. Without one nothing is composed: the text are excerpts
        of the hits, quoted under their titles and places (`Answer.extractive`).

        Parameters
        ----------
        q
            A question to search for, or a `Retrieval` to answer from, for example after reranking its hits
            (`Retrieval.with_hits`). Of the options of `retrieve` it takes `history` alone.
        k, max_tokens
            Maximum numbers of hits (None: `answer_k` of the method) and of their tokens in the prompt.
        llm
            A chat model to use for this call instead of the index's own. With False excerpts are returned.
        length
            `"brief"` (the default where a model writes) or `"full"`. Excerpts have at most 120 or 500 tokens,
            by default 200.
        on_retrieved
            Async function that is awaited with the `Retrieval` between search and answer.
        **options
            As for `retrieve`. `guided` is on by default where there is a model; the answer then rests on the
            chosen hits alone.
        """
        how = AnswerArguments(max_tokens, length, on_retrieved)
        return await self._asking(llm).answer(q, _arguments(k, options), how=how)

    answer = blocking(aanswer)

    def astream(
        self,
        q: str | Retrieval,
        k: int | None = None,
        *,
        llm: Any = None,
        max_tokens: int = 4000,
        length: Length | None = None,
        on_retrieved: OnRetrieved | None = None,
        **options: Any,
    ) -> AnswerStream:
        """Answer a question as an iterator of pieces of text, as the model writes them.

        Parameters and errors are those of `answer`. Without a model there is one piece. The async version
        returns an `AnswerStream`, whose `answer` has the citations once the last piece was read.
        """
        how = AnswerArguments(max_tokens, length, on_retrieved)
        return AnswerStream(self._asking(llm).stream(q, _arguments(k, options), how=how))

    stream = blocking_iterator(astream)

    async def aestimate_question(
        self,
        q: str,
        k: int | None = None,
        prices: Prices | None = None,
        *,
        answer: bool = True,
        max_tokens: int = 4000,
        length: Length | None = None,
        **options: Any,
    ) -> Estimate:
        """Estimate the cost of `answer`, or of `retrieve`, without calling a model or the embedder.

        Hits are found by their words alone, so the prompt's tokens are approximate. `prices` are those of
        tokens; None uses those known of the models. `answer=False` estimates `retrieve`. The rest is as for
        `answer`.
        """
        gate = self._models.counting_gate(self._folder, self._config, of_build=False)
        asking = Asking(self._serve(), gate, RecentVectors())
        arguments = replace(_arguments(k, options), rerank=None, min_score=None)
        if answer:
            await asking.answer(q, arguments, how=AnswerArguments(max_tokens, length))
        else:
            await asking.retrieve(q, arguments)
        return gate.estimate(prices)

    estimate_question = blocking(aestimate_question)

    def answer_k(self, method: str | None = None) -> int:
        """The default number of hits for an answer of this method; None as for `retrieve`."""
        return get_way(self._serve().method_name(method)).answer_k

    def _asking(self, llm: Any = None) -> Asking:
        """One operation with its own gate, on the current generation."""
        self._follow()
        reader = self._serve()
        gate = self._models.gate(self._folder, self._config, llm=llm, reads=reader.snapshot.manifest)
        gate.documents_of = partial(documents_of, reader.snapshot)
        return Asking(reader, gate, self._models.recent_vectors)

    # What it holds

    @property
    def generation(self) -> int:
        """Number of the generation that questions see. Each update publishes the next one."""
        return self._serve().snapshot.manifest.generation

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the folder; the first one is the default."""
        return self._serve().methods

    def documents(self, match: str | Iterable[str] | None = None) -> dict[str, Metadata]:
        """Metadata of the documents by id: of all, or of those that `match` names.

        `match` holds ids, files, folders, or globs of ids and files. A glob is tried where nothing else fits,
        and its `*` matches slashes too.
        """
        snapshot = self._serve().snapshot
        if match is None:
            return snapshot.document_metadata()
        return snapshot.document_metadata(matching(snapshot.document_states(), listed(match)))

    def files(self) -> dict[str, str]:
        """The file of each document that was read from one, as ids by id; see `read_documents`."""
        states = self._serve().snapshot.document_states().items()
        return {identity: state.file for identity, state in states if state.file}

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        """Chunks by document id, in order: of these documents, or of all. Unknown ids are ignored."""
        ids = None if document_ids is None else set(listed(document_ids))
        return listing.chunks_of(self._serve().snapshot, ids)

    def find_chunks(self, ids: str | Iterable[str], *, where: Where | None = None) -> list[Chunk]:
        """Chunks with these ids, the index's own or the caller's (`Chunk.ref`), in corpus order.

        Unknown ids are ignored, and chunks that a filter `where` does not admit.
        """
        admits = compile_where({} if where is None else where)
        found = listing.find_chunks(self._serve().snapshot, listed(ids))
        return [each for each in found if admits(with_ids(each))]

    def neighbours(self, ids: str | Iterable[str]) -> dict[str, tuple[Chunk | None, Chunk | None]]:
        """For each chunk id, the chunks before and after it in its document; None where there is none.

        Ids are those of the index. Unknown ids are left out.
        """
        return listing.neighbours(self._serve().snapshot, listed(ids))

    def embeddings(self, ids: Sequence[str]) -> Vectors:
        """The stored unit vectors of chunks, float32, shape (len(ids), dimension), in the order of the ids.

        `KeyError` if there is no chunk with one of these ids.
        """
        snapshot = self._serve().snapshot
        rows = snapshot.row_of(ids)
        if missing := [each for each in ids if each not in rows]:
            raise KeyError(f"no chunk {missing[0]!r} in the index ({len(missing)} of {len(ids)} ids unknown)")
        return snapshot.vectors[np.array([rows[each] for each in ids], np.int64)]

    def nearest(
        self, vector: Sequence[float], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> tuple[Hit, ...]:
        """The `k` passages whose vectors have the highest cosine with a vector of the index's dimension."""
        answering, unit = self._serve(), np.array(vector, np.float32)
        dimension = answering.snapshot.vectors.shape[1]
        if answering.snapshot.size and unit.shape != (dimension,):
            raise ValueError(f"the vector has the shape {unit.shape}, and those of the index ({dimension},)")
        unit /= max(float(np.linalg.norm(unit)), 1e-30)
        options = check_search_options(WALK, {})
        question = SearchQuestion("", unit, positive("k", k), WALK, options, where, rank="dense")
        return answering.search(question)[0]

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        """Entities of the graph, ordered by normalised name; with `ids`, only those that exist."""
        return listing.entities(self._serve().snapshot, None if ids is None else listed(ids))

    def relations(self) -> Iterator[GraphRelation]:
        """Relations of the graph."""
        return listing.relations(self._serve().snapshot)

    def units(self) -> Iterator[GraphUnit]:
        """Semantic units of the graph: facts with their entities and sources."""
        return listing.units(self._serve().snapshot)

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        """Nodes of a method (None: the first) with members, sources and documents, or `MethodMissing`."""
        reader = self._serve()
        return listing.method_nodes(reader.snapshot, reader.built_method(method))

    def extractions(self) -> Iterator[tuple[str, Extraction]]:
        """Chunk ids with what was extracted from each chunk, in corpus order.

        `dict(index.extractions())` can be passed as `extraction=` when building over the same chunks.
        """
        return listing.extractions(self._serve().snapshot)

    def calls(self) -> Iterator[CachedCall]:
        """Cached calls by which models wrote names, descriptions and nodes from chunks of this index."""
        snapshot = self._serve().snapshot
        for cache in self._models.caches(self._folder):
            for call in cache.all():
                known = len(snapshot.row_of(call.sources)) == len(set(call.sources)) > 0
                if known and stage_of(call.task) == "summarize":
                    yield call

    def levels(self, method: str | None = None) -> tuple[Level, ...]:
        """Number of nodes of each kind and level of a method (None: the first), from the top level down."""
        return self._browse().levels(self._serve().built_method(method))

    def browse(
        self,
        table: str | None = None,
        *,
        level: int | None = None,
        kind: str | None = None,
        within: str | None = None,
        text: str = "",
        around: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> Listing:
        """List a page of what the index holds. Only that page is read.

        Parameters
        ----------
        table
            `"documents"`, `"passages"`, `"entities"`, or a method for its nodes. None means the first method.
        level, kind
            Only nodes of this level and kind; see `levels`.
        within
            Id of a node, to list its members; for `"passages"`, the id of a document.
        text
            Only entries that contain all of these words in their text (documents: id or metadata; entities:
            name), ignoring case.
        around
            Id of a passage in the middle of the page; replaces `offset`.
        offset, limit
            Entries to skip, and entries to list, at most 500. Documents and passages are in corpus order,
            others start with those that have most sources.

        Raises
        ------
        KeyError
            If `within` or `around` is an unknown id.
        ValueError
            If `offset < 0` or `limit` is not between 1 and 500.
        MethodMissing
            If the folder holds no index of that method.
        """
        if offset < 0 or not 1 <= limit <= MOST:
            raise ValueError(
                f"offset must be at least 0 and limit between 1 and {MOST}, not {offset} and {limit}"
            )
        name = table if table in TABLES else self._serve().built_method(table)
        return self._browse().page(PageRequest(name, level, kind, within, text, around, offset, limit))

    def until(self, as_of: Any) -> Where:
        """The filter of what was there by a date; `as_of` of `retrieve` narrows `where` by it.

        `ValueError` if that is no date, or nothing in the index is dated.
        """
        checked = SearchArguments(as_of=as_of)
        return self._serve().until(checked.as_of)

    def about(self, names: int = 0, where: Where | None = None) -> str:
        """One sentence on the contents of the index, for the description of a tool; `where` narrows it.

        `names` is how many of the most frequent names to quote, of two documents or more and of at most four
        words. Documents choose their names, and a model reads the description of a tool as instructions.
        """
        documents, frequent = self._serve().frequent_names(where, 8 * names)
        titles = [" ".join(each.replace('"', "").split()) for each in frequent if not each[0].isdigit()]
        short = [title for title in titles if len(title) <= 40 and len(title.split()) <= 4]
        quoted = ", with names such as " + ", ".join(f'"{title}"' for title in short[:names]) if short else ""
        return f"{documents:,} document{'s' if documents != 1 else ''}{quoted}"

    def _browse(self) -> Browser:
        snapshot = self._serve().snapshot
        if self._browser is None or self._browser.snapshot is not snapshot:
            self._browser = Browser(snapshot)
        return self._browser

    def export(
        self,
        path: str | os.PathLike[str],
        format: str = "jsonl",
        *,
        method: str | None = None,
        where: Where | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the index to a file or folder, and return its path.

        Parameters
        ----------
        path
            Target file; for Parquet, Neo4j and Markdown a folder. Existing files are replaced once the new
            ones are complete.
        format
            `"jsonl"`: everything; `read_extraction` reads the extraction back, and the answers of models
            (`calls`). `"graphml"`: chunks, entities, relations and nodes as one graph. `"parquet"`: one table
            per kind. `"neo4j"`: CSV files for `neo4j-admin database import`. `"markdown"`: a wiki, with a
            page for each thing of two documents or more, each node of a method, and each document.
            `"html"`: the page of `show`.
        method
            Whose nodes to include; None means all methods (for a page: the first).
        where
            With Markdown: only passages that this filter admits; see `retrieve`.
        overwrite
            With Markdown: replace pages that were edited by hand.

        Raises
        ------
        ValueError
            If the format is unknown, or pages of a wiki were edited by hand; the message names them, and
            nothing was written.
        NotAnIndex
            If the folder of a wiki holds other files.
        MethodMissing
            If the folder holds no index of that method.
        MissingExtra
            If the format is Parquet and pyarrow is not installed.
        """
        return export(self, path, format, method=method, where=where, overwrite=overwrite)

    def to_networkx(self, method: str | None = None) -> networkx.MultiDiGraph:
        """The index as a networkx graph, with the nodes of one method; None: of all methods.

        Nodes have `kind` and `label` and, where they exist, `text`, `type`, `method`, `level` and `metadata`.
        Edges have `kind` (`part of`, `mentions`, `relation`, `member`, `source`); relations also `text` and
        `weight`. `MethodMissing` and `MissingExtra` as for `export`.
        """
        names = self.methods if method is None else (self._serve().built_method(method),)
        return to_networkx(self, names)

    def show(self, method: str | None = None, *, most: int = viz.MOST_SHOWN) -> Picture:
        """Draw a method's hierarchy, at most its `most` largest nodes, for a notebook or a file."""
        return viz.hierarchy(self, self._serve().method_name(method), most=most)

    def show_report(self) -> Picture:
        """Draw tokens and seconds per stage of the last build or update through this object.

        `ValueError` if there was none. Reports are not stored in the folder.
        """
        if self.last_report is None:
            raise ValueError(
                "there is no report: this object has only opened the index. build_index, insert, delete and "
                "add_method make one"
            )
        return viz.build_report(self.last_report)

    # The folder

    def copy_to(self, path: StrPath) -> None:
        """Copy the current generation and the cached model answers to another folder, or publish it to a URL.

        An existing copy is replaced once the new one is complete. A URL of fsspec receives the generation
        without cached answers; only one process at a time may publish there.

        Raises
        ------
        NotAnIndex
            If the target holds something else.
        Locked
            If another process writes in the target.
        RemoteError
            If the storage behind a URL refuses or does not answer.
        """
        if is_url(path):
            self._folder.publish_to(os.fspath(path))
        else:
            self._folder.copy_to(Path(path))

    def stats(self) -> dict[str, Any]:
        """Counts, settings, size on disk, and what the index cost.

        `spent` sums the model calls of all updates; its `cost` is None if a price is unknown. `changed` of a
        method counts members that changed since its groups were last computed (see `regroup`).
        """
        reader = self._serve()
        manifest, shards = reader.snapshot.manifest, {}
        if isinstance(reader.snapshot, JoinedSnapshot):
            shards = {"shards": len(reader.snapshot.parts), "missing": list(reader.snapshot.missing)}
        described = {name: reader.describe(name) for name in reader.methods}
        return {
            "path": self.url or str(self.path),
            "generation": manifest.generation,
            "documents": reader.snapshot.document_count,
            "chunks": reader.snapshot.size,
            "methods": {
                name: {"nodes": dict(each.nodes), **each.details} for name, each in described.items()
            },
            "embedder": manifest.embedder,
            "dimension": manifest.dimension,
            "tokenizer": manifest.tokenizer,
            "bytes": bytes_below(self._folder.path),
            "vectors": self.vectors,
            "interrupted": self._folder.interrupted(),
            "spent": self._models.spent(manifest),
            **shards,
        }

    async def astats(self) -> dict[str, Any]:
        """The async version of `stats`."""
        return await asyncio.to_thread(self.stats)

    async def averify(self, repair: bool = False) -> list[str]:
        """Check every file against its checksum and its meaning, and return the problems, one line each.

        If all files are intact, it also checks settings, arrays and nodes, searches each method, and compares
        the rows of a vector store. An empty list means the index is sound.

        Parameters
        ----------
        repair
            Remove leftover rows of the vector store. If rows are missing, embed all texts again and publish
            them as the next generation. Returns the remaining problems. Files are not repaired.

        Raises
        ------
        VectorStoreError
            If the store does not answer, or the repair needs a model and none was given.
        """
        problems, folder = await asyncio.to_thread(self._folder.verify, inspected), self._folder
        if not (problems and repair) or not isinstance(folder, IndexFolder) or folder.table is None:
            return problems
        if await asyncio.to_thread(folder.lacks_rows):
            await self._update(Change(RESTORE, config=self._config))
        else:
            await asyncio.to_thread(folder.finish_rows)
        return await asyncio.to_thread(self._folder.verify, inspected)

    verify = blocking(averify)

    def _serve(self) -> Answering:
        """The reader of the current generation, opened on first use."""
        if self._reader is None or self._folder.closed:
            self._reader = opened_reader(self._folder.snapshot())
        return self._reader


def listed(ids: str | Iterable[str]) -> list[str]:
    """The ids as a list; a single id makes a list of one."""
    if not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a string or a list of strings, not {type(ids).__name__} {ids!r}")
    return [ids] if isinstance(ids, str) else list(ids)


def _arguments(k: int | None, options: dict[str, Any]) -> SearchArguments:
    """The search behind an answer; `options` mixes arguments of the search with the method's own."""
    search = {name: options[name] for name in SEARCH_ARGUMENTS if name in options}
    own = {name: value for name, value in options.items() if name not in SEARCH_ARGUMENTS}
    return SearchArguments(k, options=own, **search)

"""The façade: an index folder with its models, its updates and its questions. No algorithm is here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stratagraph import viz
from stratagraph._asking import DEFAULT_K, AnswerArguments, Asking, SearchArguments, positive
from stratagraph._browsing import MOST, TABLES
from stratagraph._build import RESTORE, Change, settings_of
from stratagraph._documents import Documents
from stratagraph._gates import Folder, Models, RecentVectors
from stratagraph._inspection import inspected
from stratagraph._origins import documents_of
from stratagraph._reader import Answering
from stratagraph._shards import listing
from stratagraph._shards.listing import shards_of
from stratagraph._shards.reader import opened_reader
from stratagraph._shards.updating import carried_out, estimated
from stratagraph._sync import blocking, blocking_iterator
from stratagraph.config import Config
from stratagraph.export import export, to_networkx
from stratagraph.methods import NAMES, get_method
from stratagraph.models.budget import Prices
from stratagraph.models.estimate import Estimate
from stratagraph.models.tracing import span
from stratagraph.pipeline.extraction.stage import Given
from stratagraph.pipeline.rerank import Reranker
from stratagraph.question import SEARCH_ARGUMENTS, Decompose, Length, Rank, View, Where
from stratagraph.records import (
    BuildReport,
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
from stratagraph.results import Answer, AnswerStream, Picture, Retrieval
from stratagraph.store.folder import IndexFolder
from stratagraph.store.remote import is_url

if TYPE_CHECKING:
    import networkx

StrPath = str | os.PathLike[str]


def method_names(method: str | Sequence[str]) -> tuple[str, ...]:
    """The methods meant by a name or several, each known and once."""
    if not isinstance(method, Iterable):
        raise TypeError(f"method must be a name or a list of names of {', '.join(NAMES)}, not {method!r}")
    names = (method,) if isinstance(method, str) else tuple(dict.fromkeys(method))
    if not names:
        raise ValueError(f"name at least one method of {', '.join(NAMES)}")
    return tuple(get_method(name).name for name in names)


class Index:
    """An open index. Made by `build_index` and `open_index`; a context manager.

    Questions may be asked from several threads and tasks at once. They see the generation that was
    current when the index was opened or last updated through this object.

    Attributes
    ----------
    last_report
        What the last build, insert or delete through this object did; None after opening.
    """

    def __init__(self, folder: Folder, models: Models, config: Config) -> None:
        self._folder = folder
        self._models = models
        self._config = config
        self._reader: Answering | None = None
        self._browser: listing.JoinedBrowser | None = None
        self.last_report: BuildReport | None = None

    # What it is

    @property
    def path(self) -> Path:
        """The index folder; of an index behind a URL, the folder of its cache."""
        return self._folder.path

    @property
    def url(self) -> str | None:
        """The URL that it was opened from, without a password; None for a local folder."""
        return self._folder.url

    @property
    def vectors(self) -> dict[str, str] | None:
        """The `store` that has the vectors, and under which `identity`; None: the folder has them.

        The identity is what stands in the field `stratagraph_index` of the index's rows.
        """
        return dict(self._serve().snapshot.manifest.vectors) or None

    @property
    def has_llm(self) -> bool:
        """Whether a chat model was given; without one, answers are extractive."""
        return self._models.llm is not None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Index({self.url or str(self.path)!r}, generation={self._folder.generation})"

    def close(self) -> None:
        """Let go of the folder (and remove it, if it was private and temporary). May be called twice."""
        self._reader = self._browser = None
        self._models.close()
        self._folder.close()

    def reload(self) -> int:
        """Turn to the newest generation, where another process or object wrote one; returns its number.

        Of an index behind a URL, what was published there since is fetched first.
        """
        self._folder.refresh()
        if self._serve().snapshot.manifest.generation != self._folder.generation:
            snapshot = self._folder.snapshot()
            self._config = settings_of(snapshot.manifest, self._config)
            self._reader = opened_reader(snapshot)
        return self.generation

    def warm(self) -> None:
        """Open what questions read, so that the first one is as fast as the next.

        An embedder of our own is loaded; no other model is called.
        """
        self._models.load()
        self._asking().warm()

    # Updates

    async def ainsert(self, documents: Documents, *, extraction: Given | None = None) -> BuildReport:
        """Add documents; one whose id is there already is ignored if it is the same, else replaced.

        The result equals a build over all documents; summaries that did not change are kept.
        Blank documents are skipped and listed. `extraction` and errors are as for `build_index`.
        """
        return await self._update(Change("insert", documents, config=self._config, extraction=extraction))

    insert = blocking(ainsert)

    async def adelete(self, ids: str | Iterable[str], *, missing_ok: bool = False) -> BuildReport:
        """Remove documents by id and everything that came from them alone.

        Summaries that they contributed to are written again without them; no trace of their text stays
        in the folder, cached calls included (a shared `cache` file is the caller's and stays as it is).

        Raises
        ------
        KeyError
            If an id is not in the index, unless `missing_ok`.
        """
        names = tuple(dict.fromkeys(listed(ids)))
        change = Change("delete", removed=names, missing_ok=missing_ok, config=self._config)
        return await self._update(change)

    delete = blocking(adelete)

    async def aadd_method(self, method: str, config: Any = None) -> BuildReport:
        """Build another method over the same corpus and extraction; what is there stays as it is.

        A method that is there already is built again if `config` differs from its own.
        """
        (name,) = method_names(method)
        own = {name: config} if config is not None else {}
        settings = replace(self._config, methods={**self._config.methods, **own})
        return await self._update(Change("add method", methods=(name,), config=settings))

    add_method = blocking(aadd_method)

    async def aregroup(self, method: str | None = None) -> BuildReport:
        """Make communities and clusters anew, as a build from scratch would.

        Updates keep what is there and so drift from that, within bounds (`drift.MOST_DRIFT`). Texts and
        vectors that are made of the same are kept; reports on other members are written, which costs model
        calls.

        Parameters
        ----------
        method
            Of which of the folder's methods; None means of all.

        Raises
        ------
        MethodMissing
            If the folder holds no index of that method.
        """
        names = self.methods if method is None else (self._serve().method_name(method),)
        return await self._update(Change("regroup", methods=names, config=self._config))

    regroup = blocking(aregroup)

    async def aestimate(
        self, documents: Documents, prices: Prices | None = None, *, extraction: Given | None = None
    ) -> Estimate:
        """What inserting these documents would cost, without a model call; see `stratagraph.estimate`."""
        change = Change("estimate", documents, config=self._config, extraction=extraction)
        return await self._estimate(change, prices)

    estimate = blocking(aestimate)

    async def _update(self, change: Change) -> BuildReport:
        with span(f"stratagraph {change.operation}", {}) as recorded:
            report = await carried_out(self._folder, self._models, change)
            recorded.set({"stratagraph.documents": report.documents, "stratagraph.chunks": report.chunks})
            recorded.set({"stratagraph.failures": len(report.failures)})
        snapshot = self._folder.snapshot()
        self._config = settings_of(snapshot.manifest, change.config)
        self._reader = opened_reader(snapshot)
        self.last_report = report
        return report

    async def _estimate(self, change: Change, prices: Prices | None) -> Estimate:
        return await estimated(self._folder, self._models, change, prices)

    # Questions

    async def aretrieve(
        self,
        q: str,
        k: int = DEFAULT_K,
        view: View | None = None,
        where: Where | None = None,
        method: str | None = None,
        decompose: Decompose = False,
        fill: bool = True,
        rank: Rank = "walk",
        rerank: Reranker | str | None = None,
        **options: Any,
    ) -> Retrieval:
        """Search the index.

        Parameters
        ----------
        q
            The question.
        k
            Number of hits; fewer come back only if the index has fewer, or `fill` is off.
        view
            `"nodes"`: the method's own ranking of passages and summaries, as in its paper. `"chunks"`: source
            passages. None: passages with some of the method's own nodes among them, in the share that found
            most answers in a given number of tokens (`Method.node_share`; the trace tells the `view` of each
            hit); with options other than the defaults, or without `fill`, its own ranking.
        where
            A metadata filter (see `pipeline.filters.compile_where`). A summary passes only if every
            passage below it does.
        method
            Which of the folder's methods; None means the first.
        decompose
            True or `"names"`: ask the model for the names in the question (one call), instead of the rules.
            `"questions"`: ask it for the questions of one step that this one consists of (one call; at most
            four, each with an embedding and a search of its own), and fuse what is found for them and for
            the question itself by reciprocal ranks.
        fill
            Whether passages by similarity follow where the method has fewer than `k` nodes. False gives the
            method's own results and nothing else, as do options that ask for certain levels or types.
        rank
            How passages are ranked: `"walk"`, or plainly by words (`"bm25"`, which leaves out passages that
            have none of them), by similarity (`"dense"`) or by these two fused (`"hybrid"`). With one of
            these three, passages are all that is found.
        rerank
            Any object with `rerank(question, texts) -> scores` (see `pipeline.rerank`), or the name of a
            model of fastembed, FlashRank or sentence-transformers (see `models.rerankers`): it chooses among
            four times as many hits.
        **options
            The method's search options; `stratagraph.search_options(method)` lists them.

        Raises
        ------
        ValueError
            If the question is blank, `k < 1`, or a filter, view or option is not valid.
        MethodMissing
            If the folder holds no index of that method.
        EmbedderError
            If the embedder's answer is not a vector of the index's dimension.
        """
        arguments = SearchArguments(
            positive("k", k), view, where, method, decompose, fill, rank, rerank, options
        )
        return await self._asking().retrieve(q, arguments)

    retrieve = blocking(aretrieve)

    async def aretrieve_many(
        self, questions: Iterable[str], k: int = DEFAULT_K, **options: Any
    ) -> list[Retrieval]:
        """Search for several questions at once; results in their order. Options as in `retrieve`.

        Searches run on threads. What is compiled of them runs on all cores; on a corpus of some thousand
        passages that is a small part, on a million most of it.
        """
        if isinstance(questions, str):
            raise TypeError("questions must be a list of questions; for a single one use retrieve")
        return list(await asyncio.gather(*(self.aretrieve(q, k, **options) for q in questions)))

    retrieve_many = blocking(aretrieve_many)

    async def aanswer(
        self,
        q: str | Retrieval,
        k: int | None = None,
        *,
        llm: Any = None,
        max_tokens: int = 4000,
        length: Length | None = None,
        **options: Any,
    ) -> Answer:
        """Answer a question with citations, from what `retrieve` finds or from a retrieval that is given.

        With a chat model it writes the answer from a context of at most `max_tokens`; without one the
        answer consists of the best supported sentences, word for word (`Answer.extractive`). The numbers in
        the text are places in `Answer.retrieval.hits`, from 1.

        Parameters
        ----------
        q
            The question, or a `Retrieval`: then nothing is searched again, and hits that were reranked or
            left out (`Retrieval.with_hits`) are what the answer is made of.
        k
            Number of hits retrieved for it; None takes what suits the method.
        llm
            A chat model that stands in for the index's own, in all of this operation.
        max_tokens
            Bound on what the last prompt takes of the hits.
        length
            `"brief"`: the answer, and what one needs to trust it. `"full"`: every side of the question. None
            takes what suits the method: full for ArchRAG and HiRAG, whose papers judge how much an answer
            covers. An extractive answer has four sentences, a brief one
            three, a full one eight.
        **options
            As in `retrieve`. An extractive answer takes its sentences from passages (`view="chunks"`) unless
            told otherwise.
        """
        how = AnswerArguments(max_tokens, length)
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
        **options: Any,
    ) -> AnswerStream:
        """The answer of `answer` as text in pieces, as the model writes it; in one piece without a model."""
        how = AnswerArguments(max_tokens, length)
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
        """What answering a question would cost, or with `answer=False` retrieving for it: nothing is called.

        Neither the chat model nor the embedder: the hits that the prompt is made of are those of an embedder
        that knows words alone, so that tokens are near the real ones, not equal. A question that
        `decompose="questions"` would split counts as split into as many steps as it may have at most.

        Parameters
        ----------
        q, k, max_tokens, length, **options
            As for `answer`.
        prices
            What tokens cost; None takes those that are known of the models.
        """
        gate = self._models.counting_gate(self._folder, self._config)
        asking = Asking(self._serve(), gate, self._models.count_tokens, RecentVectors())
        arguments = replace(_arguments(k, options), rerank=None)
        if answer:
            await asking.answer(q, arguments, how=AnswerArguments(max_tokens, length))
        else:
            await asking.retrieve(q, arguments)
        return gate.estimate(prices)

    estimate_question = blocking(aestimate_question)

    def answer_k(self, method: str | None = None) -> int:
        """How many hits an answer is made from where `k` is not given; it depends on the method."""
        return get_method(self._serve().method_name(method)).answer_k

    def _asking(self, llm: Any = None) -> Asking:
        """One operation: a gate of its own, on the generation that is current now."""
        reader, gate = self._serve(), self._models.gate(self._folder, self._config, llm=llm)
        gate.documents_of = partial(documents_of, reader.snapshot)
        return Asking(reader, gate, self._models.count_tokens, self._models.recent_vectors)

    # What it holds

    @property
    def generation(self) -> int:
        """Number of the generation that questions see; each update publishes the next."""
        return self._serve().snapshot.manifest.generation

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the folder, the default one first."""
        return self._serve().methods

    def documents(self) -> dict[str, Metadata]:
        """The documents in the index with their metadata, by id."""
        return self._serve().snapshot.document_metadata()

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        """The chunks of these documents, or of all, in their order; unknown ids are left out."""
        return self._serve().chunks_of(None if document_ids is None else set(listed(document_ids)))

    def find_chunks(self, ids: str | Iterable[str]) -> list[Chunk]:
        """The chunks with these ids, ours or the caller's own (`Chunk.ref`), in the order of the corpus.

        Unknown ids are left out; several chunks may share an id of the caller's.
        """
        return self._serve().find_chunks(listed(ids))

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        """The entities of the index's graph, by normalised name, with what they came from.

        With `ids`, those of them that exist.
        """
        return listing.entities(self._serve().snapshot, None if ids is None else listed(ids))

    def relations(self) -> Iterator[GraphRelation]:
        """The relations of the index's graph, with what they came from."""
        return listing.relations(self._serve().snapshot)

    def units(self) -> Iterator[GraphUnit]:
        """The semantic units of the index's graph: facts, with the entities in them and their sources."""
        return listing.units(self._serve().snapshot)

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        """The nodes of a method (None: the first), with their members, sources and documents.

        What a node's members are (nodes of the level below, entities, chunks) depends on the method and
        the level.

        Raises
        ------
        MethodMissing
            If the folder holds no index of that method.
        """
        reader = self._serve()
        return listing.method_nodes(reader.snapshot, reader.method_name(method))

    def extractions(self) -> Iterator[tuple[str, Extraction]]:
        """What was extracted from each chunk, with the chunk's id, in the order of the corpus.

        As a dictionary it is what `extraction=` takes, for the same chunks in another index.
        """
        return listing.extractions(self._serve().snapshot)

    def levels(self, method: str | None = None) -> tuple[Level, ...]:
        """How many nodes of each kind a method (None: the first) has on each level, from the top down."""
        return self._browse().levels(self._serve().method_name(method))

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
        """A page of what the index holds; what is not on it is not read, however much there is.

        Parameters
        ----------
        table
            `"documents"`, `"passages"`, `"entities"`, or a method, whose nodes are listed; None: the first
            method's.
        level, kind
            Of a method's nodes, those of this level and kind (`levels` tells which there are).
        within
            The id of a node, whose members are listed; for `"passages"` that of a document.
        text
            Words that everything listed has in its text (a document in its id or metadata, an entity
            in its name), in any case.
        around
            The id of a passage, which is in the middle of the page; then `offset` does not count.
        offset, limit
            The page: how many to pass over, and how many to list, up to 500. Those with the most sources come
            first, documents and passages in their own order.

        Raises
        ------
        KeyError
            If there is no node or document of the id `within`, or no passage `around`.
        ValueError
            If `offset` is below 0 or `limit` not between 1 and 500.
        MethodMissing
            If the folder holds no index of that method.
        """
        if offset < 0 or not 1 <= limit <= MOST:
            raise ValueError(
                f"offset must be at least 0 and limit between 1 and {MOST}, not {offset} and {limit}"
            )
        name = table if table in TABLES else self._serve().method_name(table)
        return self._browse().page(
            name,
            level=level,
            kind=kind,
            within=within,
            text=text,
            around=around,
            offset=offset,
            limit=limit,
        )

    def _browse(self) -> listing.JoinedBrowser:
        snapshot = self._serve().snapshot
        if self._browser is None or self._browser.snapshot is not snapshot:
            self._browser = listing.JoinedBrowser(snapshot)
        return self._browser

    def export(
        self, path: str | os.PathLike[str], format: str = "jsonl", *, method: str | None = None
    ) -> Path:
        """Write what the index holds to a file or, for Parquet, a folder; returns its path.

        Parameters
        ----------
        path
            Where to write; for Parquet and Neo4j a folder. Files that are there under these names are
            replaced once the new ones are whole.
        format
            `"jsonl"`: everything, the extraction included, which `read_extraction` reads back.
            `"graphml"`: chunks, entities, relations and the methods' nodes as one graph.
            `"parquet"`: a table for each kind of thing, in a folder. `"neo4j"`: CSV files for
            `neo4j-admin database import`, in a folder. `"html"`: the page of `show`.
        method
            Whose nodes go along; None means those of all methods (for a page: of the first).

        Raises
        ------
        ValueError
            If there is no such format.
        MethodMissing
            If the folder holds no index of that method.
        MissingExtra
            For Parquet, if pyarrow is not installed.
        """
        return export(self, path, format, method=method)

    def to_networkx(self, method: str | None = None) -> networkx.MultiDiGraph:
        """Documents, chunks, entities, relations, units and nodes as a graph of networkx.

        Nodes have `kind` and `label`, and what they have of `text`, `type`, `method`, `level` and `metadata`;
        edges have `kind` (`part of`, `mentions`, `relation`, `member`, `source`), and relations `text` and
        `weight`. `export(path, "graphml")` writes the same.

        Parameters
        ----------
        method
            Whose nodes go along; None means those of all methods.

        Raises
        ------
        MethodMissing
            If the folder holds no index of that method.
        MissingExtra
            If networkx is not installed.
        """
        names = self.methods if method is None else (self._serve().method_name(method),)
        return to_networkx(self, names)

    def show(self, method: str | None = None, *, most: int = viz.MOST_SHOWN) -> Picture:
        """A method's hierarchy as a page, which a notebook shows and `save` writes to a file.

        A click on a cell opens its text and sources. Of a hierarchy with more than `most` nodes the largest
        are shown, and the page says so. See `viz.hierarchy`.
        """
        return viz.hierarchy(self, self._serve().method_name(method), most=most)

    def show_report(self) -> Picture:
        """Tokens and seconds, stage by stage, of the last build, insert or delete through this object.

        Raises
        ------
        ValueError
            If this object has built or changed nothing; a report is not kept in the folder.
        """
        if self.last_report is None:
            raise ValueError(
                "there is no report: this object has only opened the index. build_index, insert, delete and "
                "add_method make one"
            )
        return viz.build_report(self.last_report)

    # The folder

    def copy_to(self, path: StrPath) -> None:
        """Copy the current generation and the cache of calls to another folder, as an index of its own.

        A copy that is there already is replaced once the new one is whole; onto itself nothing is copied.
        To a URL of fsspec (`"s3://..."`, `"gs://..."`, `"file://..."`) goes the generation without the cache
        of calls; one process at a time may publish there.

        Raises
        ------
        NotAnIndex
            If the folder is there and holds something else.
        Locked
            If someone is writing in the earlier copy.
        RemoteError
            If the storage behind a URL refuses, or does not answer.
        """
        if is_url(path):
            self._folder.publish_to(os.fspath(path))
        else:
            self._folder.copy_to(Path(path))

    def stats(self) -> dict[str, Any]:
        """What the index holds, and what chat models were asked for it.

        Documents, chunks, nodes by method and level, bytes, settings; calls, tokens and cost of all
        operations that changed it, with what they paid before they were stopped and resumed (the cost is None
        if a price is not known). Of a method, `changed` counts the members that came, went or were linked
        otherwise since its groups were last compared with new ones: `regroup` makes these anew. Of shards
        also how many there are, and the names of those that are missing. `vectors` tells in which vector
        store they are, as the property of that name.
        """
        reader = self._serve()
        manifest = reader.snapshot.manifest
        described = {name: reader.describe(name) for name in reader.methods}
        return {
            "path": self.url or str(self.path),
            "generation": manifest.generation,
            "documents": reader.snapshot.document_count,
            "chunks": reader.snapshot.size,
            "methods": {
                name: {"nodes": dict(found.nodes), **found.details} for name, found in described.items()
            },
            "embedder": manifest.embedder,
            "dimension": manifest.dimension,
            "tokenizer": manifest.tokenizer,
            "bytes": self._folder.bytes_on_disk(),
            "vectors": self.vectors,
            "interrupted": self._folder.interrupted(),
            "spent": self._models.spent(manifest),
            **shards_of(reader.snapshot),
        }

    async def astats(self) -> dict[str, Any]:
        """See `stats`."""
        return await asyncio.to_thread(self.stats)

    async def averify(self, repair: bool = False) -> list[str]:
        """Check every file of the index against its checksum and its meaning.

        Where all files are as they were written, also whether settings are valid, arrays lead somewhere,
        every node can be read, and each method answers; where vectors are in a vector store, whether each row
        is there and as it was written. Returns the problems found, one readable line each; an empty list
        means the index is sound.

        Parameters
        ----------
        repair
            Mend the vector store: remove what an update left there, and where rows are missing make all
            vectors anew (texts are embedded again, answers of models come from the cache) and write them
            as the next generation. Returned are the problems that remain. Files are not mended.

        Raises
        ------
        VectorStoreError
            If the store does not answer, or a model is needed for the repair and none was given.
        """
        found = await asyncio.to_thread(self._folder.verify, inspected)
        if not (found and repair) or not isinstance(self._folder, IndexFolder) or self._folder.table is None:
            return found
        if await asyncio.to_thread(self._folder.lacks_rows):
            await self._update(Change(RESTORE, config=self._config))
        else:
            await asyncio.to_thread(self._folder.settle)
        return await asyncio.to_thread(self._folder.verify, inspected)

    verify = blocking(averify)

    def _serve(self) -> Answering:
        """The reader of the current generation; made when first asked for."""
        if self._reader is None or self._folder.closed:
            self._reader = opened_reader(self._folder.snapshot())
        return self._reader


def listed(ids: str | Iterable[str]) -> list[str]:
    """Ids as a list; a single one is a list of one.

    Raises
    ------
    TypeError
        If it is neither an id nor a collection of ids.
    """
    if not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a string or a list of strings, not {type(ids).__name__} {ids!r}")
    return [ids] if isinstance(ids, str) else list(ids)


def _arguments(k: int | None, options: dict[str, Any]) -> SearchArguments:
    """The search behind an answer; `options` hold the arguments of a search and the method's own."""
    search = {name: options[name] for name in SEARCH_ARGUMENTS if name in options}
    own = {name: value for name, value in options.items() if name not in SEARCH_ARGUMENTS}
    return SearchArguments(k, options=own, **search)

"""The models of an index, and a gate to them for each operation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from stratagraph.config import Config
from stratagraph.errors import Damaged, EmbedderMismatch, MissingVocabulary, StratagraphError
from stratagraph.ingest.graph.entity_resolution import Rule, default_rule
from stratagraph.mapping import as_mapper
from stratagraph.models.batching import BatchGate, Results
from stratagraph.models.budget import Account, Budget, cost_of
from stratagraph.models.concurrency import Services
from stratagraph.models.embedding import goes_along
from stratagraph.models.estimate import CountingGate
from stratagraph.models.gate import ModelGate
from stratagraph.models.identity import declared_dimension, embedder_name
from stratagraph.models.local import LOCAL, HashingEmbedder, default_embedder
from stratagraph.models.named import as_chat_model, as_embedder
from stratagraph.models.task import models_by_stage
from stratagraph.operations.progress import LineProgress, NamedProgress
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.folder import IndexFolder
from stratagraph.store.manifest import Manifest
from stratagraph.store.shards import ShardedFolder
from stratagraph.system.locks import Lock, cached_property
from stratagraph.text.tokens import TokenCounter, choose, named
from stratagraph.types.protocols import Mapper, Progress, Vectors
from stratagraph.types.records import Usage

Folder = IndexFolder | ShardedFolder


class RecentVectors:
    """Vectors of the last questions, since frameworks retrieve and answer in two calls. Thread-safe."""

    def __init__(self) -> None:
        self._vectors: LRUCache[str, Vectors] = LRUCache(64)
        self._lock = Lock()

    def get(self, text: str) -> Vectors | None:
        """The vector of a recent question."""
        with self._lock:
            return self._vectors.get(text)

    def put(self, text: str, vector: Vectors) -> None:
        """Remember a question's vector, which becomes read-only because every retrieval shares it."""
        vector.flags.writeable = False
        with self._lock:
            self._vectors[text] = vector


class CallsOfOperation:
    """The cache of an index folder for one operation. It stores no answer about chunks deleted since.

    `generation` is the one whose chunks a question reads. An operation that changes the folder gives None and
    reads the one that is current at its first call, when it holds the writer's lock.
    """

    def __init__(self, folder: Folder, generation: int | None) -> None:
        self._folder = folder
        self._generation = generation

    def get(self, key: str) -> str | None:
        """The stored answer, or None."""
        if self._generation is None:
            self._generation = self._folder.generation
        return self._folder.calls.get(key)

    def put(self, key: str, answer: str, *, task: str, model: str, sources: Sequence[str]) -> None:
        """Store an answer, unless a chunk it quotes was deleted or the folder was closed."""

        def deleted() -> bool:
            if not sources or self._folder.closed:
                return bool(sources)
            try:
                if self._folder.generation == self._generation:
                    return False
                return len(self._folder.snapshot().row_of(sources)) < len(set(sources))
            except (StratagraphError, OSError):  # it is not known: the answer is used, but not stored
                return True

        self._folder.calls.put(key, answer, task=task, model=model, sources=sources, deleted=deleted)


class AnyEmbedder:
    """Matches every index and embeds nothing, for commands that ask no question."""


def counter_of_build(name: str | None) -> TokenCounter:
    """The token counter of builds with this `tokenizer`; `MissingVocabulary` without its vocabulary."""
    counter = named(name)
    if counter is None:
        raise MissingVocabulary(
            f"tokens are counted with {name!r:.60}, whose vocabulary is neither in tiktoken's cache nor in a "
            "llama-index-core here, so that texts would be cut at other places. Fetch it where there is a "
            f'network, by python -c "import tiktoken; tiktoken.get_encoding({name!r:.60})", or build without '
            "tokenizer="
        )
    return counter


class Models:
    """The chat model, embedder, budget and cache of an index; see `build_index`.

    `recorded` is the manifest of an existing index: its tokenizer and embedder are the defaults. `spacy`
    names the only spaCy pipeline that may be loaded.
    """

    def __init__(
        self,
        llm: Any,
        embedder: Any,
        *,
        budget: Budget | None = None,
        cache: str | os.PathLike[str] | None = None,
        progress: bool | Progress = False,
        recorded: Manifest | None = None,
        resolve_rule: Rule | None = None,
        spacy: str | None = None,
        mapper: str | Mapper | None = None,
    ) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, as in Budget(calls=500), not {budget!r}")
        self._chosen = embedder is not None
        self.llm = as_chat_model(llm)
        self.resolve_rule = resolve_rule or default_rule
        self.spacy = spacy
        self.mapper = as_mapper(mapper)
        self._own_mapper = self.mapper is not mapper
        self._tokenizer = None if recorded is None else recorded.tokenizer
        self._recorded_embedder = None if recorded is None else recorded.embedder
        if embedder is None:
            name = self._recorded_embedder or ""
            dimension = 0 if recorded is None else recorded.dimension
            if recorded is not None and name.startswith("hashing-") and name != f"hashing-{dimension}":
                raise Damaged(  # the embedder would allocate what its name says
                    f"manifest.json of generation {recorded.generation}: the embedder is {name[:60]!r}, but "
                    f"vectors have {recorded.dimension} dimensions; name the embedder with embedder=..."
                )
            self.embedder = default_embedder(self._recorded_embedder)
        else:
            matches_all = isinstance(embedder, AnyEmbedder)
            self.embedder = embedder if matches_all else as_embedder(embedder)
        self.recent_vectors = RecentVectors()
        self._budget = budget
        self._shared: SqliteCalls | None = None if cache is None else SqliteCalls(Path(cache))
        if not (isinstance(progress, bool | None) or hasattr(progress, "start")):
            raise TypeError(f"progress must be True, False or a Progress of your own, not {progress!r}")
        own = LineProgress() if progress is True else None
        self.progress: Progress | None = own if isinstance(progress, bool) else progress
        self._counter_of_questions: TokenCounter | None = None
        self._services: Services | None = None
        self._lock = Lock()

    def with_embedder(self, embedder: Any) -> Models:
        """The same models with another embedder."""
        other = copy(self)
        other._chosen, other.recent_vectors = True, RecentVectors()
        other.embedder = as_embedder(embedder)
        return other

    def prefer_tokenizer(self, name: str | None) -> None:
        """Count tokens with this tokenizer, unless the index already has one."""
        if self._tokenizer is None:
            self._tokenizer = name

    @cached_property
    def count_tokens(self) -> TokenCounter:
        """The token counter of builds."""
        return counter_of_build(self._tokenizer)

    def _count_of_questions(self, config: Config) -> TokenCounter:
        if self._counter_of_questions is None:
            self._counter_of_questions = choose(config.tokenizer)
        return self._counter_of_questions

    def embedder_name(self, dimension: int) -> str:
        """The embedder's fingerprint; of one that matches every index, that of the index."""
        if isinstance(self.embedder, AnyEmbedder) and self._recorded_embedder is not None:
            return self._recorded_embedder
        return embedder_name(self.embedder, dimension)

    @property
    def said_of_embedder(self) -> str:
        """How an error message names the embedder."""
        return "the embedder given" if self._chosen else "none was given, and the default"

    def has_embedder_of(self, recorded: Manifest) -> bool:
        """Whether the folder's vectors came from this embedder."""
        if isinstance(self.embedder, AnyEmbedder):
            return True
        return self.embedder_name(recorded.dimension) == recorded.embedder

    def check_embedder(self, recorded: Manifest, path: str | Path) -> None:
        """Raise `EmbedderMismatch` if the folder's vectors came from another embedder."""
        if not self.has_embedder_of(recorded):
            given, which = self.embedder_name(recorded.dimension), self.said_of_embedder
            how = "embedder=..., or none if it is local" if self._chosen else "embedder=..."
            raise EmbedderMismatch(
                f"index {str(path)!r} was built with {recorded.embedder!r} ({recorded.dimension} "
                f"dimensions); {which} is {given!r}. Open it with the first ({how}); then "
                "index.reembed(the second) computes the vectors again, and no extraction is asked again"
            )

    def gate(
        self,
        folder: Folder,
        config: Config,
        *,
        reads: Manifest | None = None,
        llm: Any = None,
        account: Account | None = None,
        name: str | None = None,
        anew: bool = False,
    ) -> ModelGate:
        """A gate for one operation, with its own account, ledger and list of failures.

        A question gives the manifest of the generation that it `reads`; any other operation changes the
        folder. `llm` replaces the index's chat model; False means none. Gates of one operation may share an
        `account`; `name` labels their progress. `anew` allows vectors of another dimension than the folder's.
        """
        if reads is None:
            for model in models_by_stage(self.llm).values():
                if hasattr(model, "require_key"):
                    model.require_key()
        keywords = self._keywords(folder, config, reads)
        if anew:
            keywords["dimension"] = None
        if name is not None and keywords["progress"] is not None:
            keywords["progress"] = NamedProgress(keywords["progress"], name)
        chat = self.llm if llm is None else None if llm is False else as_chat_model(llm)
        return ModelGate(chat, self.embedder, budget=account or self._budget, **keywords)

    @property
    def free(self) -> bool:
        """Whether nothing is paid: no chat model, and an embedder that the mapper's workers can run."""
        return self.llm is None and goes_along(self.embedder, self.mapper)

    def close(self) -> None:
        """Stop the workers of a mapper that was made here."""
        if self._own_mapper:
            self.mapper.close()

    @property
    def local(self) -> bool:
        """Whether questions are embedded in this process."""
        return isinstance(self.embedder, LOCAL)

    def load(self) -> None:
        """Load a local embedder."""
        if self.local:
            self.embedder.embed_query("a")

    def account(self) -> Account:
        """A new account on the index's budget."""
        return Account(self._budget or Budget())

    def spent(self, manifest: Manifest) -> dict[str, Any]:
        """Model usage recorded for a generation, and its cost by today's prices."""
        models = {name: Usage(**counted) for name, counted in manifest.spent.items()}
        total = sum(models.values(), Usage())
        prices = None if self._budget is None else self._budget.prices
        return {
            "calls": total.calls,
            "input_tokens": total.input_tokens,
            "output_tokens": total.output_tokens,
            "cost": cost_of(models, prices),
        }

    def caches(self, folder: Folder) -> Sequence[SqliteCalls]:
        """Where the answers to the calls of builds are."""
        if self._shared is not None:
            return [self._shared]
        return [each.calls for each in ([folder] if isinstance(folder, IndexFolder) else folder.folders())]

    def batch_gate(
        self, folder: IndexFolder, config: Config, results: Results, earlier: Results
    ) -> BatchGate:
        """A gate whose calls are answered in batch files."""
        keywords = self._keywords(folder, config, None)
        return BatchGate(self.llm, self.embedder, results=results, earlier=earlier, **keywords)

    def _keywords(self, folder: Folder, config: Config, reads: Manifest | None) -> dict[str, Any]:
        with self._lock:  # shared by all gates, so that the limits hold for all operations together
            services = self._services = self._services or Services(config.limits)
        keywords: dict[str, Any] = {
            "cache": self._shared or CallsOfOperation(folder, None if reads is None else reads.generation),
            "limits": config.limits,
            "progress": None,
            "count_tokens": self.count_tokens if reads is None else self._count_of_questions(config),
            "max_failures": config.max_failures,
            "dimension": folder.dimension if reads is None else reads.dimension,
            "prompts": config.prompts,
            "services": services,
        }
        if reads is None:
            assert isinstance(folder, IndexFolder)
            # Hashed vectors are computed faster than they are stored.
            keywords["vectors"] = None if isinstance(self.embedder, HashingEmbedder) else folder.journal
            keywords |= {"spending": folder.journal, "progress": self.progress, "mapper": self.mapper}
        return keywords

    def counting_gate(self, folder: Folder, config: Config, *, of_build: bool) -> CountingGate:
        """A gate that calls nothing and counts what it would call, of a build or of a question."""
        return CountingGate(
            self.llm,
            self.embedder,
            cache=self._shared or folder.calls,
            limits=config.limits,
            count_tokens=self.count_tokens if of_build else self._count_of_questions(config),
            dimension=folder.dimension or declared_dimension(self.embedder),
            prompts=config.prompts,
        )

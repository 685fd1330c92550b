"""Every error that stratagraph raises on purpose.

    StratagraphError
    ├── BudgetExceeded            a build reached its budget; what is done is kept
    ├── CallFailed                one model call failed for good (its unit is listed, the build goes on)
    │   └── ParseFailed           the model answered, and its answer could not be read
    ├── ModelError                the model refused us: wrong key, bad request; the build stops
    ├── EmbedderError             an embedder returned something that is not a vector per text
    ├── RerankerError             a reranker returned something that is not a score per text
    ├── MapperError               workers of a build died, refused, or could not be given their work
    ├── TooManyFailures           more units failed than `max_failures` allows
    ├── MissingExtra              an optional dependency is needed (also an ImportError)
    ├── NativeUnavailable         the compiled kernels are asked for by name and are not there
    └── StoreError
        ├── NotAnIndex            the folder is not an index, or not ours to write in
        ├── IndexExists           a build would replace an index that holds something else
        ├── Locked                another writer holds the folder
        ├── ClosedIndex           the index was closed
        ├── EmbedderMismatch      the vectors in the folder came from another embedder
        ├── FormatMismatch        the folder is of a format that this version does not read
        ├── MethodMissing         the folder holds no index of that method
        ├── ShardMissing          a shard is not there
        ├── ShardMismatch         shards have different settings
        ├── ReadOnly              the index was opened from a URL, where nothing can be changed
        ├── RemoteError           the storage behind a URL refused, or did not answer
        ├── VectorStoreError      the vector store that holds the vectors refused, or did not answer
        │   └── VectorStoreStale  it does not hold what the folder's generation needs
        └── Damaged               a file is missing, cut short or altered

Bad arguments are `ValueError` and `TypeError`, an unknown id is `KeyError`, as everywhere in Python.
"""

from __future__ import annotations


class StratagraphError(Exception):
    """Base of every error below."""


class BudgetExceeded(StratagraphError):
    """The budget of an operation is used up. Nothing that was paid for is lost."""


class CallFailed(StratagraphError):
    """One model call failed after retries; only its own unit of work is affected."""


class ParseFailed(CallFailed):
    """A model answered, but neither its answer nor a repaired one could be read."""


class ModelError(StratagraphError):
    """The model rejects every call (authentication, bad request); trying again cannot help."""


class EmbedderError(StratagraphError):
    """An embedder returned NaN, a wrong count or a wrong dimension."""


class RerankerError(StratagraphError):
    """A reranker returned NaN, a wrong count, or something that is not a number."""


class MapperError(StratagraphError):
    """The workers that a build was shared among died, did not answer, or could not be given their work."""


class TooManyFailures(StratagraphError):
    """So many units failed that the index would be thin; it is not published."""


class MissingExtra(StratagraphError, ImportError):
    """An optional dependency is not installed; the message holds the pip line.

    Parameters
    ----------
    what
        Its name.
    extra
        The extra of stratagraph that brings it; None: it is a package of that name which no extra brings.
    """

    def __init__(self, what: str, extra: str | None = None) -> None:
        line = what if extra is None else f"'stratagraph[{extra}]'"
        super().__init__(f"{what} is not installed. Install it with: pip install {line}")


class NativeUnavailable(StratagraphError):
    """The native kernels were not built, and the caller asked for them alone."""


class StoreError(StratagraphError):
    """Something about an index folder."""


class NotAnIndex(StoreError):
    """The folder is missing, or holds something that is not an index."""


class IndexExists(StoreError):
    """The folder already holds an index of other documents or another configuration."""


class Locked(StoreError):
    """Another process or object is writing to the folder."""


class ClosedIndex(StoreError):
    """The index was closed; open it again."""


class EmbedderMismatch(StoreError):
    """The embedder given is not the one whose vectors the folder holds."""


class FormatMismatch(StoreError):
    """A folder or file is of a format that this version of stratagraph does not read."""


class MethodMissing(StoreError):
    """The folder holds no index of the method that was asked for."""


class ShardMissing(StoreError):
    """A shard that was built is not there; the message names it."""


class ShardMismatch(StoreError):
    """Shards side by side differ in what all must share; the message names one and what differs."""


class ReadOnly(StoreError):
    """The index is a cache of one behind a URL; the message says how that is changed."""


class RemoteError(StoreError):
    """The storage behind a URL refused, or did not answer; the message holds its own error."""


class VectorStoreError(StoreError):
    """The vector store refused, did not answer in time, or cannot do what an index needs of it."""


class VectorStoreStale(VectorStoreError):
    """The vector store has rows of another generation, or lacks some; `verify(repair=True)` mends it."""


class Damaged(StoreError):
    """A file of the index is missing, cut short or altered; the message names it."""

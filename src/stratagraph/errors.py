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
    ├── MissingVocabulary         the vocabulary that a build counts tokens with is not on this machine
    └── StoreError
        ├── NotAnIndex            the folder is not an index, or not ours to write in
        ├── SettingsConflict      a build is given other settings than those of the index in its folder
        │   └── EmbedderMismatch  the vectors in the folder came from another embedder
        ├── Locked                another writer holds the folder
        ├── ClosedIndex           the index was closed
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

from importlib.util import find_spec


class StratagraphError(Exception):
    """Base class of all errors of this package."""


EXPECTED = (StratagraphError, KeyError, OSError, TypeError, ValueError)
"""Errors with a message for whoever asked: a page, an agent and a command show them without a traceback."""


def message_of(error: BaseException) -> str:
    """The message of an error for people, without the quotes that `str` puts around that of a `KeyError`."""
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


def described(error: BaseException) -> str:
    """The kind and message of an error in one line, as a page, an agent or a log shows it."""
    return f"{type(error).__name__}: {message_of(error)}"


class BudgetExceeded(StratagraphError):
    """The budget of an operation is used up. Paid results are kept."""


class CallFailed(StratagraphError):
    """A model call failed after its retries; `finish` says how, as in `Answer.finish`.

    Only its own unit of work is affected.
    """

    def __init__(self, message: str, *, finish: str | None = "broken off") -> None:
        super().__init__(message)
        self.finish = finish


class ParseFailed(CallFailed):
    """Neither the model's answer nor its repaired answer could be parsed."""

    def __init__(self, message: str, *, finish: str | None = None) -> None:
        super().__init__(message, finish=finish)


class ModelError(StratagraphError):
    """The model rejects every call (authentication, bad request), so retrying cannot help."""


class EmbedderError(StratagraphError):
    """An embedder returned NaN, a wrong number of vectors, or a wrong dimension."""


class RerankerError(StratagraphError):
    """A reranker returned NaN, a wrong number of scores, or something that is not a number."""


class MapperError(StratagraphError):
    """Workers of a build died, did not answer, or could not receive their work."""


class TooManyFailures(StratagraphError):
    """More units failed than `Config.max_failures` allows; nothing was published."""


class MissingExtra(StratagraphError, ImportError):
    """An optional dependency is not installed. The message has the `pip install` line, as has `install`.

    `what` is the package, `extra` the extra of stratagraph that installs it, or several with commas, and
    `more` what else to say.
    """

    def __init__(self, what: str, extra: str | None = None, more: str = "") -> None:
        self.what, self.extra = what, extra
        line = what if extra is None else f"'stratagraph[{extra}]'"
        self.install = f"pip install {line}"
        super().__init__(f"{what} is not installed. Install it with: {self.install}{more}")


def require(extra: str | None, *modules: str) -> None:
    """Raise `MissingExtra` for the first of these modules of an extra that is not installed.

    A module that it needs in turn, and that is missing, is left to Python, which names it.
    """
    for module in modules:
        try:
            present = find_spec(module) is not None
        except ModuleNotFoundError:  # of a package that is not there
            present = False
        if not present:
            raise MissingExtra(module.replace("_", "-").replace(".", "-"), extra)


class MissingVocabulary(StratagraphError):
    """The vocabulary that a build counts tokens with is not on this machine."""


class StoreError(StratagraphError):
    """Base class of errors about an index folder."""


class NotAnIndex(StoreError):
    """The folder is missing, or is not an index."""


class SettingsConflict(StoreError):
    """The folder holds an index with other settings; `differences` has each of them, with both values."""

    def __init__(self, message: str, differences: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.differences = differences


class EmbedderMismatch(SettingsConflict):
    """The index was built with another embedder."""


class Locked(StoreError):
    """Another process or object is writing to the folder."""


class ClosedIndex(StoreError):
    """The index is closed; open it again."""


class FormatMismatch(StoreError):
    """A folder or file is of a format that this version of stratagraph does not read."""


class MethodMissing(StoreError):
    """The folder holds no index of the requested method."""


class ShardMissing(StoreError):
    """A shard is missing; the message names it."""


class ShardMismatch(StoreError):
    """Shards have different settings; the message names the shard and the setting."""


class ReadOnly(StoreError):
    """The index was opened from a URL and cannot be changed."""


class RemoteError(StoreError):
    """The storage behind a URL refused or did not answer; the message has its error."""


class VectorStoreError(StoreError):
    """The vector store refused, did not answer in time, or lacks an operation."""


class VectorStoreStale(VectorStoreError):
    """The vector store lacks rows, or has those of another generation; `verify(repair=True)` repairs it."""


class Damaged(StoreError):
    """A file of the index is missing, truncated or altered; the message names it."""

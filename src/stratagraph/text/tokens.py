"""How many tokens a text has: by an estimate, or by tiktoken where its vocabulary is on this disk.

An index is built by the estimate, unless its settings name a vocabulary, so that it does not depend on what
else is installed. Contexts and prompts of questions are measured by a vocabulary that is here.

tiktoken downloads a vocabulary the first time it is asked for one. That would hang or fail without a
network, so it is asked only for what is here, whole and unaltered: in its cache, or among the files of
llama-index-core, which is not imported for that.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

ESTIMATE = "estimate-1"

_URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
_SHA256 = {  # in order of preference
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}

NAMES = (*_SHA256, ESTIMATE)
"""What a configuration may ask for."""

# Every match is one token. Longer words are several tokens, hence the seven letters.
_TOKEN = re.compile(
    r"[a-zA-Z]{1,7}"
    r"|[0-9]{1,3}"
    r"|[^\W\d_a-zA-Z\u0900-\u0dff\u2e80-\uffff]{1,2}"  # Cyrillic, Greek, Arabic, accented Latin, ...
    r"|[\u0900-\u0dff\u2e80-\ud7ff\U00010000-\U0010ffff]"  # Indic, Chinese, Japanese, Korean, emoji
    r"|[^\w\s]{1,3}"
    r"|\n\s*"
    r"|\w"
)

# tiktoken's time and stack grow with the length of one unbroken run.
_SLICE = 100_000

_LARGEST = 16 * 2**20  # bytes of a vocabulary; the larger one has 3.6 MB

_ENVIRONMENT = threading.Lock()


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """Tokens by one regular expression, whose every match counts as one token.

    A token is up to seven ASCII letters, up to three digits, up to two letters of another alphabet, one
    Chinese, Japanese, Korean, Indic or emoji character, up to three punctuation marks, or a line break
    with the blank space after it. Against cl100k_base this is within 7 % on English prose, 15 to 20 %
    low on Chinese and Japanese, 20 to 30 % low on German, Korean, Hindi and Arabic.
    """

    name: str = ESTIMATE

    def __call__(self, text: str) -> int:
        """The estimated number of tokens in `text`."""
        return len(_TOKEN.findall(text))


@dataclass(frozen=True, slots=True)
class Tiktoken:
    """Tokens by one of tiktoken's encodings. Special tokens in a text count as ordinary characters."""

    name: str
    encode: Callable[[str], list[int]]
    of_build: bool = False

    def __call__(self, text: str) -> int:
        """The number of tokens in `text`; very long texts are counted slice by slice."""
        if len(text) <= _SLICE:
            return len(self.encode(text))
        return sum(len(self.encode(text[at : at + _SLICE])) for at in range(0, len(text), _SLICE))

    def __reduce__(self) -> tuple[Callable[[str], TokenCounter | None], tuple[str]]:
        # Another process finds the vocabulary itself. A build there fails without it.
        return (named if self.of_build else choose), (self.name,)


TokenCounter = TokenEstimate | Tiktoken
"""Counts the tokens of a text; `name` is what the manifest records."""


def named(name: str | None) -> TokenCounter | None:
    """The counter by which an index is built; None for the name is the estimate.

    None if the vocabulary of this name is not here.
    """
    if name is None or name == ESTIMATE:
        return TokenEstimate()
    counter = _tiktoken(name)
    return None if counter is None else replace(counter, of_build=True)


def choose(name: str | None = None) -> TokenCounter:
    """The counter for contexts and prompts of questions.

    Parameters
    ----------
    name
        The tokenizer of the settings. None: o200k_base or cl100k_base if its vocabulary is in tiktoken's
        cache or comes with llama-index-core, else the estimate.

    Returns
    -------
    The counter. If `name` is not available here, the estimate, with one warning that says so.
    """
    if name == ESTIMATE:
        return TokenEstimate()
    for candidate in _SHA256 if name is None else (name,):
        counter = _tiktoken(candidate)
        if counter is not None:
            return counter
    if name is not None:
        warnings.warn(
            f"tokens are counted with {name!r}, whose vocabulary is neither in tiktoken's cache nor in a "
            f"llama-index-core here; those of contexts are estimated instead ({ESTIMATE!r})",
            stacklevel=2,
        )
    return TokenEstimate()


def _tiktoken(name: str) -> Tiktoken | None:
    """The encoding, if its vocabulary is where tiktoken would look, or in an installed llama-index-core."""
    if name not in _SHA256:
        return None
    own = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    folders = [Path(own)] if own else []  # set but empty: tiktoken keeps no cache
    shared = Path(tempfile.gettempdir(), "data-gym-cache")
    if own is None and _is_private(shared):
        folders.append(shared)
    package = find_spec("llama_index")  # a namespace, which has no code to run
    roots = (package and package.submodule_search_locations) or ()
    folders += [Path(root, "core", "_static", "tiktoken_cache") for root in roots]
    key = hashlib.sha1(_URL.format(name=name).encode(), usedforsecurity=False).hexdigest()
    for folder in folders:
        try:
            # An altered file would be removed and downloaded again by tiktoken: check before it does.
            if hashlib.sha256(_read(folder / key)).hexdigest() == _SHA256[name]:
                return Tiktoken(name, _encoding(name, folder).encode_ordinary)
        except (ImportError, OSError, ValueError):
            continue
    return None


def _is_private(folder: Path) -> bool:
    """Whether only this user and root can put files into a folder, which any user could have made."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    owners = (0, os.geteuid()) if hasattr(os, "geteuid") else (status.st_uid,)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in owners and not status.st_mode & stat.S_IWOTH


def _read(path: Path) -> bytes:
    """The bytes of a regular file of a bounded size; `OSError` for anything else, such as a named pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise OSError(f"{path} is no vocabulary")
        return file.read(_LARGEST)


def _encoding(name: str, folder: Path) -> tiktoken.Encoding:
    """An encoding from a folder that holds its vocabulary. tiktoken takes the folder from the environment."""
    import tiktoken

    with _ENVIRONMENT:
        before = os.environ.get("TIKTOKEN_CACHE_DIR")
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            return tiktoken.get_encoding(name)
        finally:
            if before is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = before

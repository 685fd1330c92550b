"""How many tokens a text has: by tiktoken where its vocabulary is on this disk, else by an estimate.

tiktoken downloads a vocabulary the first time it is asked for one. That would hang or fail without a
network, so it is asked only for what is here, whole and unaltered: in its cache, or among the files of
llama-index-core, which is not imported for that.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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

_ENVIRONMENT = threading.Lock()


@dataclass(frozen=True, slots=True)
class Estimate:
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

    def __call__(self, text: str) -> int:
        """The number of tokens in `text`; very long texts are counted slice by slice."""
        if len(text) <= _SLICE:
            return len(self.encode(text))
        return sum(len(self.encode(text[at : at + _SLICE])) for at in range(0, len(text), _SLICE))

    def __reduce__(self) -> tuple[Callable[[str], Estimate | Tiktoken], tuple[str]]:
        return choose, (self.name,)  # another process finds the vocabulary itself, and downloads none


TokenCounter = Estimate | Tiktoken
"""Counts the tokens of a text; `name` is what the manifest records."""


def choose(name: str | None = None) -> TokenCounter:
    """The best counter that is available here without a network.

    Parameters
    ----------
    name
        A recorded name, to count as before. None: o200k_base or cl100k_base if its vocabulary is
        in tiktoken's cache or comes with llama-index-core, else the estimate.

    Returns
    -------
    The counter. If `name` is not available here, the estimate, with one warning that says so.
    """
    if name == ESTIMATE:
        return Estimate()
    for candidate in _SHA256 if name is None else (name,):
        counter = _tiktoken(candidate)
        if counter is not None:
            return counter
    if name is not None:
        warnings.warn(
            f"tokens were counted with {name!r}, whose vocabulary is neither in tiktoken's cache nor in a "
            f"llama-index-core here; they are "
            f"estimated instead ({ESTIMATE!r}), so new chunks may be cut at slightly different places",
            stacklevel=2,
        )
    return Estimate()


def _tiktoken(name: str) -> Tiktoken | None:
    """The encoding, if its vocabulary is where tiktoken would look, or in an installed llama-index-core."""
    if name not in _SHA256:
        return None
    own = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if own is None:
        own = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    folders = [Path(own)] if own else []  # set but empty: tiktoken keeps no cache
    package = find_spec("llama_index")  # a namespace, which has no code to run
    roots = (package and package.submodule_search_locations) or ()
    folders += [Path(root, "core", "_static", "tiktoken_cache") for root in roots]
    key = hashlib.sha1(_URL.format(name=name).encode(), usedforsecurity=False).hexdigest()
    for folder in folders:
        try:
            # An altered file would be removed and downloaded again by tiktoken: check before it does.
            if hashlib.sha256((folder / key).read_bytes()).hexdigest() == _SHA256[name]:
                return Tiktoken(name, _encoding(name, folder).encode_ordinary)
        except (ImportError, OSError, ValueError):
            continue
    return None


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

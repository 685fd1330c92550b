"""An embedder that needs nothing: hashed words and word pairs. It knows spellings, not meanings."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from stratagraph.kernels import _native
from stratagraph.text.stopwords import FUNCTION
from stratagraph.types.protocols import Rows, Vectors

# What is not listed is part of a word: letters, digits, the marks that many scripts write vowels with, emoji.
_WORD = re.compile(
    "[^"
    r"\s!-/:-@\[-`{-~"
    "\u0080-\u00bf\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f"  # Latin-1, general, medieval and CJK punctuation
    "\u060c\u061b\u061f\u06d4\u0964\u0965"  # Arabic comma, semicolon, question mark, full stop; danda
    "]+"
)
# Chinese, Japanese, Korean, and the scripts of South-East Asia that put no spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
_LETTERS = 0x180
_NATIVE = re.compile("[\0-\u017f\u2000-\u206f]*")  # Latin letters with their accents, and punctuation
DIMENSION = 2048
_NAMED = 2.0
_ENDINGS = ("'s", "ing", "ied", "ies", "ed", "es", "s", "ly")
_SHORTEST = 4
_MIX = 0x9E3779B1


class HashingEmbedder:
    """Vectors of hashed words and pairs of neighbouring words, shape (`dimension`,).

    A word is hashed with CRC-32 to a place and a sign, and counts 1 + log(its count). Words of grammar are
    left out, endings are cut off, and a word written with a capital or a digit counts twice, because names
    and dates distinguish texts. Texts are Unicode-normalised. In scripts without spaces, pairs of characters
    stand for words. Vectors have unit length and are the same in every process; a text without words has the
    zero vector.
    """

    def __init__(self, dimension: int = DIMENSION) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self.dimension = dimension
        self.name = f"hashing-{dimension}"
        self.given_name = "hashing" if dimension == DIMENSION else None

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Unit vectors as an array, shape (len(texts), dimension)."""
        starts, places, values = self.sparse(texts)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        vectors[np.repeat(np.arange(len(texts)), np.diff(starts)), places] = values
        return vectors

    def sparse(self, texts: Sequence[str]) -> tuple[Rows, Rows, Vectors]:
        """The same vectors as a sparse matrix: row starts (len(texts) + 1), ascending places, values."""
        plain = [text if text.isascii() else unicodedata.normalize("NFKC", text) for text in texts]
        if all(map(_is_native, plain)):  # groups cost more than the words of a question
            return tuple(_native_words().rows(plain, self.dimension))
        counts, places, values = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for native, run in groupby(plain, _is_native):
            if native:
                starts, *own = _native_words().rows(list(run), self.dimension)
                counts.append(np.diff(starts))
                places.append(own[0])
                values.append(own[1])
            else:
                rows = list(map(self.row, run))
                counts.append(np.array([len(place) for place, _ in rows]))
                places += [place for place, _ in rows]
                values += [value for _, value in rows]
        return np.cumsum(np.concatenate(counts)), np.concatenate(places), np.concatenate(values)

    def row(self, text: str) -> tuple[Rows, Vectors]:
        """The ascending places and the values of the non-zero entries of a text's unit vector."""
        weighted = features(text)
        hashes = np.fromiter(
            (zlib.crc32(word.encode("utf-8", "surrogatepass")) * _MIX & 0xFFFFFFFF for word in weighted),
            np.int64,
            len(weighted),
        )
        weights = np.fromiter(weighted.values(), np.float64, len(weighted))
        places, which = np.unique((hashes >> 1) % self.dimension, return_inverse=True)
        values = np.bincount(which, np.where(hashes & 1, weights, -weights), len(places))
        length = math.sqrt(np.cumsum(values * values)[-1]) if len(values) else 0.0  # in order, as the kernel
        return places, (values / length if length else values).astype(np.float32)

    def embed_query(self, text: str) -> Any:
        """The unit vector of one text, shape (dimension,)."""
        return self.embed_documents([text])[0]


def _is_native(text: str) -> bool:
    """Whether the native kernel knows all letters of a text."""
    return text.isascii() or _NATIVE.fullmatch(text) is not None


@cache
def _native_words() -> Any:
    letters = [chr(code) for code in range(_LETTERS)]
    folds = [letter.casefold() for letter in letters]
    return _native.HashedWords(
        sorted(FUNCTION), list(_ENDINGS), _SHORTEST, folds, [_emphasis(x) > 1 for x in letters]
    )


def features(text: str) -> dict[str, float]:
    """The words and pairs of neighbouring words of a text, with their weights."""

    def pairs(run: re.Match[str]) -> str:
        letters = run.group()
        return f" {' '.join(letters[at : at + 2] for at in range(max(len(letters) - 1, 1)))} "

    spelled = _WORD.findall(_UNSPACED.sub(pairs, unicodedata.normalize("NFKC", text)))
    words = [word for word in map(_stem, spelled) if word] or [word.casefold() for word in spelled]
    emphasis: dict[str, float] = {}
    for word in spelled:
        stem = _stem(word)
        emphasis[stem] = max(emphasis.get(stem, 1.0), _emphasis(word))
    weights = {word: (1 + math.log(n)) * emphasis.get(word, 1.0) for word, n in Counter(words).items()}
    for (first, second), count in Counter(pairwise(words)).items():
        weight = math.sqrt(emphasis.get(first, 1.0) * emphasis.get(second, 1.0))
        weights[f"{first} {second}"] = (1 + math.log(count)) * weight
    return weights


def _emphasis(word: str) -> float:
    return _NAMED if word[0].isupper() or word[0].isdigit() else 1.0


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    """A word in lower case without a common English ending; empty for function words."""
    folded = word.casefold()
    if folded in FUNCTION:
        return ""
    for ending in _ENDINGS:
        if folded.endswith(ending) and len(folded) - len(ending) >= _SHORTEST - (ending == "s"):
            return folded[: -len(ending)]
    return folded

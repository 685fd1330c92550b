"""An embedder that needs nothing: hashed words and word pairs. It knows spellings, not meanings."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from stratarag.protocols import Vectors
from stratarag.stopwords import FUNCTION

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
_NAMED = 2.0
_ENDINGS = ("'s", "ing", "ied", "ies", "ed", "es", "s", "ly")
_SHORTEST = 4
_MIX = 0x9E3779B1


class HashingEmbedder:
    """Vectors of hashed words and pairs of neighbouring words.

    A word is hashed with CRC-32 to a place and a sign, and counts 1 + log(its count). Words of grammar are
    left out, endings are cut off, and a word written with a capital or a digit counts twice, since names
    and dates are what texts are told apart by. Unicode form makes no difference. In scripts without
    spaces, pairs of characters stand for words. The vectors have unit length and are the same in every
    process; a text without any word has the zero vector.

    Parameters
    ----------
    dimension
        Length of the vectors.
    """

    def __init__(self, dimension: int = 2048) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self.dimension = dimension
        self.name = f"hashing-{dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Unit vectors as an array, shape (len(texts), dimension)."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._vector(text)
        return vectors

    def embed_query(self, text: str) -> Any:
        """The unit vector of one text, shape (dimension,)."""
        return self.embed_documents([text])[0]

    def _vector(self, text: str) -> Vectors:
        found = features(text)
        hashes = np.fromiter(map(_hash, found), dtype=np.int64, count=len(found))
        weights = np.fromiter(found.values(), dtype=np.float64, count=len(found))
        signed = np.where(hashes & 1, weights, -weights)
        vector = np.bincount((hashes >> 1) % self.dimension, weights=signed, minlength=self.dimension)
        length = math.sqrt(vector @ vector)
        return (vector / length if length else vector).astype(np.float32)


def features(text: str) -> dict[str, float]:
    """The words and pairs of neighbouring words of a text, with their weights."""
    plain = unicodedata.normalize("NFKC", text)
    spelled = _WORD.findall(_UNSPACED.sub(_character_pairs, plain))
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


def _character_pairs(run: re.Match[str]) -> str:
    text = run.group()
    pairs = [text[start : start + 2] for start in range(max(len(text) - 1, 1))]
    return f" {' '.join(pairs)} "


def _emphasis(word: str) -> float:
    return _NAMED if word[0].isupper() or word[0].isdigit() else 1.0


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    """A word in lower case without a common English ending; nothing of a word of grammar."""
    folded = word.casefold()
    if folded in FUNCTION:
        return ""
    for ending in _ENDINGS:
        if folded.endswith(ending) and len(folded) - len(ending) >= _SHORTEST - (ending == "s"):
            return folded[: -len(ending)]
    return folded


def _hash(feature: str) -> int:
    return zlib.crc32(feature.encode("utf-8", "surrogatepass")) * _MIX & 0xFFFFFFFF

"""Real vectors for chnsw.py: all-MiniLM-L6-v2's of distinct texts of several corpora.

Texts are all passages and descriptions (of entities, relations and communities) in the corpora of DATA, and
as many of their sentences, 91,200 in all, in an order without order. A thousand take about ten CPU-seconds;
they are kept in parts, so that the same command goes on where it was stopped. Needs the extra `local`.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from stratagraph.models.local import MiniLMEmbedder
from stratagraph.text.sentences import sentences

PART = 1000
COUNT = 91_200
SHORTEST, LONGEST = 20, 3000  # characters of a sentence, of a passage
DESCRIBED = ("entities", "relationships", "community_reports")
QUOTED = re.compile(r'"([^"<>|{}]{30,1500})"')  # descriptions in what a model wrote


def rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def passages(data: Path) -> Iterator[tuple[str, str]]:
    """Titles and texts of all corpora."""
    for path in sorted(data.glob("*/corpus.jsonl")):
        yield from ((str(row.get("title") or ""), str(row["text"])) for row in rows(path))


def descriptions(data: Path) -> Iterator[str]:
    """What graphs and answers of models say of entities, relations and communities."""
    for name in DESCRIBED:
        for path in sorted(data.glob(f"*/{name}.jsonl")):
            for row in rows(path):
                yield from (value for value in row.values() if isinstance(value, str) and len(value) > 30)
    for path in sorted(data.glob("*/outputs.jsonl")):
        for row in rows(path):
            yield from QUOTED.findall(str(row["output"]))


def chosen(data: Path, count: int = COUNT) -> list[str]:
    """That many distinct texts; the same for the same data.

    Raises
    ------
    ValueError
        If there are not so many.
    """
    whole = dict.fromkeys(f"{title}\n{text}".strip() for title, text in passages(data) if len(text) < LONGEST)
    parts = [text[start:end].strip() for _, text in passages(data) for start, end in sentences(text)]
    rest = list(dict.fromkeys(part for part in parts if len(part) >= SHORTEST and part not in whole))
    known = {*whole, *rest}
    others = dict.fromkeys(text.strip() for text in descriptions(data))
    order = random.Random(0)
    order.shuffle(rest)
    texts = [*whole, *(text for text in others if text not in known), *rest][:count]
    if len(texts) < count:
        raise ValueError(f"{data} holds {len(texts):,} distinct texts, not {count:,}")
    order.shuffle(texts)
    return texts


def vectors(texts: Sequence[str], parts: Path) -> np.ndarray:
    """Unit vectors, shape (texts, 384); parts of the same texts that are there already are not made again."""
    parts.mkdir(parents=True, exist_ok=True)
    embedder, made = MiniLMEmbedder(), []
    for at in range(0, len(texts), PART):
        some = texts[at : at + PART]
        known = hashlib.blake2b(json.dumps(some).encode(), digest_size=6).hexdigest()
        path = parts / f"{at // PART:04}-{known}.npy"
        if not path.exists():
            unfinished = path.with_suffix(".new.npy")
            np.save(unfinished, np.asarray(embedder.embed_documents(some), np.float32))
            unfinished.replace(path)
        made.append(np.load(path))
    return np.concatenate(made)

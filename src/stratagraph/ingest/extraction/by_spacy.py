"""Names by a spaCy pipeline that the caller has installed; what follows from them is up to `by_rules`.

A pipeline is never downloaded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from stratagraph.errors import require
from stratagraph.ingest.extraction.by_rules import extract
from stratagraph.ingest.extraction.mentions import DATE, Mention
from stratagraph.ingest.names.index import canonical
from stratagraph.types.records import Extraction

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_PLACE = "place"
# Labels of the published pipelines, in our words; another label is taken as it is, in lower case.
_TYPES = {
    "PER": "person",
    "ORG": "organization",
    "GPE": _PLACE,
    "LOC": _PLACE,
    "FAC": _PLACE,
    "WORK_OF_ART": "work",
    "NORP": "group",
    "TIME": DATE,
    "MISC": "",
}
_NUMBERS = frozenset({"CARDINAL", "ORDINAL", "QUANTITY", "MONEY", "PERCENT"})  # no entities
_AROUND = " \t\n\"'\u2018\u2019\u201c\u201d\u00ab\u00bb.,;:()[]"
_POSSESSIVE = re.compile(r"['\u2019]s\Z")


@cache
def load(pipeline: str) -> Language:
    """The installed pipeline of this name, or in this folder; loaded once.

    `MissingExtra` if spaCy is not installed. `ValueError` if there is no such pipeline on this machine.
    """
    require("nlp", "spacy")
    import spacy

    try:
        return spacy.load(pipeline)
    except OSError as error:
        raise ValueError(
            f"there is no spaCy pipeline {pipeline!r} here; install it (python -m spacy download ...) or "
            f"give the folder of one that was saved ({error})"
        ) from error


def extract_all(passages: Sequence[tuple[str, str]], pipeline: str) -> list[Extraction]:
    """What each passage (text, title) says, with the names of a pipeline; one too long for it has our own.

    Names are the pipeline's entities, without bare numbers, and runs of proper nouns beside them.
    """
    nlp = load(pipeline)
    texts = [unicodedata.normalize("NFC", text) for text, _ in passages]
    docs = nlp.pipe(text for text in texts if len(text) <= nlp.max_length)
    return [
        extract(text, title=title, found=_mentions(next(docs)) if len(text) <= nlp.max_length else None)
        for text, (_, title) in zip(texts, passages, strict=True)
    ]


def _mentions(doc: Doc) -> list[Mention]:
    """The names in a text with their types, in order, without the punctuation around them."""
    taken = {place for entity in doc.ents for place in range(entity.start, entity.end)}
    spans = [
        (entity.start_char, entity.end_char, _TYPES.get(entity.label_, entity.label_.lower()))
        for entity in doc.ents
        if entity.label_ not in _NUMBERS
    ]
    for proper, run in groupby(doc, lambda token: token.pos_ == "PROPN" and token.i not in taken):
        if proper:
            tokens = list(run)
            spans.append((tokens[0].idx, tokens[-1].idx + len(tokens[-1]), ""))
    mentioned = []
    for start, end, kind in sorted(spans):
        part = doc.text[start:end]
        start += len(part) - len(part.lstrip(_AROUND))
        part = _POSSESSIVE.sub("", part.rstrip()).strip(_AROUND)
        if canonical(part):
            mentioned.append((" ".join(part.split()), start, start + len(part), kind))
    return mentioned

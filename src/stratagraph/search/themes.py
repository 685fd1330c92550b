"""Whether a question asks for a theme, and what is searched for then.

What is nearest to "How did women shape the life of the islands?", of a corpus about islands, is the islands.
So hub words, those of a large share of the passages, are left out of a theme.
"""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.lexical import content_words
from stratagraph.ingest.names import spelling
from stratagraph.ingest.names.linking import linked_once
from stratagraph.text.stopwords import ENGLISH
from stratagraph.types.question import SearchQuestion

if TYPE_CHECKING:
    from stratagraph.search.walk import Ground

HUB_SHARE = 0.2
"""Share of the passages from which on a word of a theme's question is a hub word.

With .1 to .3, recall@5 of factual questions is that without hub words on musique_train100, hotpotqa_train100
and 2wiki_dev164. Facts of the demo's themes in 2,000 tokens: dense passages .26 without and .29 with it, the
walk .22 and .29.
"""
FEWEST = 10
"""A hub word is in this share of the passages, and in this many."""
LONGEST = 1000
"""Characters of a question that asks for a theme at most."""
_ASKING = re.compile("who|whom|whose|when|where|how|what|which")
_PREPOSITION = re.compile("about|at|by|for|from|in|of|on|to|under|with")
_VERB = re.compile("is|are|was|were|do|does|did|has|have|had|can|could|will|would")
_MEASURE = re.compile("many|much|often|long|far|old|big|large|high|tall|deep|wide|heavy|fast|soon|late")
_BROAD = re.compile(  # nouns that ask how: "in what way"
    "attitude|character|effect|extent|history|impact|impression|influence|kind|life|nature|"
    "part|relation(ship)?|role|sort|spirit|story|type|way"
)
_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"\w{2,}[^\Wsui]s|(wo)?men|people|children")


def theme(question: SearchQuestion, ground: Ground, passages: int) -> str | None:
    """What is searched for by vectors and words if a question asks for a theme; None if for facts.

    A question asks for a theme if it does not ask for one thing, its names have no other words than hub
    words, and, where it has no names, no rarer name is contained in it. Its hub words are left out if two
    others remain.
    """
    text, lexical, least = question.text, ground.lexical, max(HUB_SHARE * passages, FEWEST)
    if len(text) > LONGEST or asks_for_one(text):
        return None
    names = question_entities(text) if question.entities is None else question.entities
    in_names = {word for name in names for word in spelling.words(name)} - ENGLISH
    asked = content_words(text, lexical.language)
    distinct = list(dict.fromkeys([*asked, *in_names]))
    frequencies = lexical.frequencies(distinct).tolist()
    hubs = {word for word, count in zip(distinct, frequencies, strict=True) if count >= least}
    if not hubs.issuperset(in_names):
        return None
    if not in_names and (ground.frequency[linked_once(question, ground.names).near] < least).any():
        return None
    if len(hubs.union(asked)) - len(hubs) < 2:
        return text
    pieces = ((piece, spelling.words(piece)) for piece in text.split())
    return " ".join(piece for piece, own in pieces if not own or not hubs.issuperset(own))


def asks_for_one(question: str) -> bool:
    """Whether an English question asks for one thing, or for yes or no, by how it begins.

    It begins, perhaps after a preposition, with who, when or where, with how and a measure ("how long"), or
    with what or which and a noun in the singular that does not stand for how ("what role"). "Can you
    describe" asks for no yes. Texts of other languages, or that are no question, ask for none.
    """
    words: list[str] = _WORD.findall(question.lower())
    words = [*words[2 if words[1:2] == ["you"] else 0 :], "", ""]
    if _VERB.fullmatch(words[0]):
        return True
    place = 1 if _PREPOSITION.fullmatch(words[0]) else 0
    first, rest = words[place], words[place + 1 :]
    if first == "how":
        return _MEASURE.fullmatch(rest[0]) is not None
    if first not in ("what", "which"):
        return _ASKING.fullmatch(first) is not None
    rest = [*dropwhile(("is", "was", "the", "a", "an").__contains__, rest)]
    noun = [*takewhile(lambda word: word and word not in ENGLISH, rest)]
    if not noun or noun[0].endswith("ed") or any(_PLURAL.fullmatch(word) for word in noun):
        return False
    return _BROAD.fullmatch(noun[-1]) is None

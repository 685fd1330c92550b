"""Entity resolution: which names mean one thing. Optional, by two kinds of evidence, and reversible.

Two entities are candidates only if their names are alike: one ends with the other ("Scrooge"), has initials
for its words, is its acronym, or differs by one letter inside a word. They are merged only if what is said of
each is alike too, and said of each apart: a sentence that names both describes neither, and two names told of
side by side are two things. The chunks' own fragments are not touched: with resolution off, the next update
has the entities apart again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stratagraph.models.gate import Gate
from stratagraph.pipeline.merge import Entity
from stratagraph.pipeline.names.index import words

LIKENESS = 0.7
"""Cosine similarity of two descriptions from which they are held to be of one thing."""
MOST_FRAGMENTS = 5
"""Fragments of an entity that are compared, the first ones of those that are its own."""
_CROWD = 50
_SHORTEST_MISSPELT = 5  # letters; in shorter words another letter makes another word,
_SHORTEST_ALONE = 7  # and where the word is the whole name, there is nothing else that is alike
_ROMAN = re.compile(r"[ivx]|[ivxlcdm]{2,}")
# A thing and its part, its namesake overseas or its family are different things whatever is said of them.
_TELL_APART = frozenset(
    word
    for words_ in (
        "north south east west northern southern eastern western northeast northwest southeast southwest",
        "northeastern northwestern southeastern southwestern central upper lower inner outer new old great",
        "greater little middle proto mrs miss lady saint st anti non pre post ex junior jr senior sr",
    )
    for word in words_.split()
)
# What comes before them has the alias for a place or a subject: "Battle of Gettysburg", "Live in Paris".
_LINKS = frozenset(
    ("of", "in", "on", "at", "for", "and", "or", "to", "from", "by", "with", "about", "near", "versus", "vs")
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two entities that may be one. `evidence` is `words`, `acronym` or `spelling`."""

    alias: str
    kept: str
    evidence: str
    similarity: float = 0.0

    def __str__(self) -> str:
        return f"{self.alias!r} is {self.kept!r} ({self.evidence}, similarity {self.similarity:.2f})"


Rule = Callable[[Candidate], bool]


def default_rule(candidate: Candidate) -> bool:
    """Merge if the descriptions are alike; the names are, or it would not be a candidate."""
    return candidate.similarity >= LIKENESS


def own_fragments(entity: Entity) -> Sequence[str]:
    """The descriptions that chunks gave of an entity."""
    return entity.fragments


async def resolve(
    entities: Sequence[Entity],
    gate: Gate,
    *,
    describe: Callable[[Entity], Sequence[str]] = own_fragments,
    rule: Rule = default_rule,
) -> list[Candidate]:
    """What is to be merged and why; pass `aliases` of it to `Merge.rename`.

    Parameters
    ----------
    entities
        The entities of the graph.
    gate
        Embeds the descriptions of candidates, and of nothing else.
    describe
        What is said of an entity, statement by statement (a string is one statement). Statements that two
        entities share are left out before the two are compared; an entity of which nothing is left is
        merged with none, but for an acronym that is used where the long name is: the statement explains it.
    rule
        Decides over a candidate whose similarity is filled in.
    """
    by_key = {entity.key: entity for entity in entities}
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    compared = []
    for pair in candidates(entities):
        one, two = by_key[pair.alias], by_key[pair.kept]
        if one.type and two.type and one.type.casefold() != two.type.casefold():
            continue
        explained = pair.evidence == "acronym" and _explained(one, two)
        apart = _apart(_statements(describe(one)), _statements(describe(two)), pair.evidence, explained)
        if apart:
            texts[pair.alias, pair.kept] = apart
            compared.append(pair)
    if not compared:
        return []
    distinct = sorted({text for both in texts.values() for text in both})
    with gate.stage("resolve", len(distinct)):
        vectors = await gate.embed("resolve", distinct)
    row = {text: number for number, text in enumerate(distinct)}
    judged = []
    for pair in compared:
        first, second = texts[pair.alias, pair.kept]
        judged.append(replace(pair, similarity=float(vectors[row[first]] @ vectors[row[second]])))
    return _one_each(candidate for candidate in judged if rule(candidate))


def aliases(merged: Iterable[Candidate]) -> Mapping[str, str]:
    """Canonical names by the canonical names that go into them."""
    return {candidate.alias: candidate.kept for candidate in merged}


def _statements(described: Sequence[str]) -> dict[str, str]:
    """Statements by what makes two of them the same: all but case and white space."""
    each = (described,) if isinstance(described, str) else described
    return {key: text for text in each if (key := " ".join(text.casefold().split()))}


def _explained(acronym: Entity, entity: Entity) -> bool:
    """Whether most chunks that use the acronym have the long name too, so that it stands for little else."""
    return 2 * len(set(acronym.chunks) & set(entity.chunks)) > len(acronym.chunks)


def _apart(
    one: Mapping[str, str], two: Mapping[str, str], evidence: str, explained: bool
) -> tuple[str, str] | None:
    """The two texts to compare, without what is said of both; None if there is no comparing them."""
    shared = one.keys() & two.keys()
    if shared and evidence != "acronym":
        return None
    first, second = (_joined(all_, shared) for all_ in (one, two))
    if shared and explained and not (first and second):
        first, second = _joined(one), _joined(two)
    return (first, second) if first and second else None


def _joined(statements: Mapping[str, str], without: Collection[str] = ()) -> str:
    return " ".join([text for key, text in statements.items() if key not in without][:MOST_FRAGMENTS])


def _one_each(found: Iterable[Candidate]) -> list[Candidate]:
    """For each alias the most similar entity, so that nothing is merged into two."""
    best: dict[str, Candidate] = {}
    for candidate in found:
        known = best.get(candidate.alias)
        if known is None or (candidate.similarity, known.kept) > (known.similarity, candidate.kept):
            best[candidate.alias] = candidate
    return [best[alias] for alias in sorted(best)]


def candidates(entities: Iterable[Entity]) -> list[Candidate]:
    """Pairs of entities whose names are alike, each once, sorted; the shorter name is the alias.

    Only names with a word (or all initials) in common are compared; a word that more than 50 names have
    says nothing and brings none together. A part of a name that is part of several names is nobody's alias.
    """
    split = {entity.key: tuple(words(entity.key)) for entity in entities}
    spread = Counter(part for parts in split.values() for part in set(parts))
    found: dict[tuple[str, str], str] = {}
    for group in _blocks(split):
        for place, one in enumerate(group):
            for two in group[place + 1 :]:
                alias, kept = sorted((one, two), key=lambda key: (len(split[key]), len(key), key))
                evidence = _evidence(split[alias], split[kept], spread)
                if evidence:
                    found[alias, kept] = evidence
    fits = Counter(alias for (alias, _), evidence in found.items() if evidence == "words")
    return [
        Candidate(alias, kept, evidence)
        for (alias, kept), evidence in sorted(found.items())
        if evidence != "words" or fits[alias] == 1
    ]


def _blocks(split: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """Groups of names to compare. A name may be in a group by a word and by its initials, yet only once."""
    by_word: defaultdict[str, set[str]] = defaultdict(set)
    for key, parts in split.items():
        for part in parts:
            by_word[part].add(key)
            if len(part) >= 4:
                by_word[f"{part[:3]}..."].add(key)
        if len(parts) > 1:
            by_word["".join(part[0] for part in parts)].add(key)
    for group in by_word.values():
        if 1 < len(group) <= _CROWD:
            yield sorted(group)


def _evidence(short: tuple[str, ...], long: tuple[str, ...], spread: Mapping[str, int]) -> str:
    """Why the names may be of one thing, or nothing; `spread` says in how many names each word is."""
    if (
        len(short) == 1
        and len(long) > 1
        and short[0].isalpha()
        and short[0] == "".join(part[0] for part in long)
    ):
        return "acronym"
    if _telling(short) != _telling(long):
        return ""
    if _shortened(short, long):
        return "words"
    return "spelling" if _misspelt(short, long, spread) else ""


def _telling(name: Sequence[str]) -> list[str]:
    """The words that tell like names apart: numbers, numerals (which no name begins with), directions."""
    return sorted(
        part
        for place, part in enumerate(name)
        if part in _TELL_APART
        or any(character.isdigit() for character in part)
        or (place and _ROMAN.fullmatch(part))
    )


def _shortened(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether the one is the end of the other, or has initials where the other has words."""
    if not any(len(part) > 2 and part.isalpha() for part in short):
        return False
    extra = len(long) - len(short)
    if extra and tuple(long[extra:]) == tuple(short):
        return not _LINKS & set(long[:extra])
    if not extra:
        return (
            short[-1] == long[-1]
            and short != long
            and all(
                a == b or (min(len(a), len(b)) == 1 and a[0] == b[0])
                for a, b in zip(short, long, strict=True)
            )
        )
    inner = [part for part in long[1:-1] if len(part) > 1]
    return len(short) > 1 and [long[0], *inner, long[-1]] == list(short)


def _misspelt(short: Sequence[str], long: Sequence[str], spread: Mapping[str, int]) -> bool:
    """Whether one word is spelt in two ways: a letter inside it another, missing, doubled or swapped.

    Ends of words carry gender, number and origin (Mario, Maria; Beatle, Beatles), and two words that are
    both in further names are two words (Karen, Karin).
    """
    if len(short) != len(long):
        return False
    differing = [(a, b) for a, b in zip(short, long, strict=True) if a != b]
    if len(differing) != 1:
        return False
    one, two = differing[0]
    if spread[one] > 1 and spread[two] > 1:
        return False
    less, more = sorted((one, two), key=len)
    if len(short) == 1 and len(less) < _SHORTEST_ALONE:
        return False
    if less[0] != more[0] or less[-1] != more[-1] or len(more) - len(less) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(less, more, strict=False)) if a != b), len(less))
    if len(less) < len(more):
        return less[start:] == more[start + 1 :]
    if len(less) < _SHORTEST_MISSPELT:
        return False
    swapped = (
        less[start : start + 2] == more[start : start + 2][::-1] and less[start + 2 :] == more[start + 2 :]
    )
    return swapped or less[start + 1 :] == more[start + 1 :]

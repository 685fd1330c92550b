"""Entity resolution: which names mean one thing. Optional, by two kinds of evidence, and reversible.

Two entities are candidates only if their names are alike (one's words contain the other's, one is the
other's acronym, or they differ in a letter or two); they are merged only if their descriptions are alike
too. Similar descriptions alone never merge ("Paris" the person and the city), nor do similar names alone.
Fragments keep the names they came with: with resolution off, the next update has the entities apart again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from stratarag.models.gateway import Gate
from stratarag.pipeline.merge import Entity
from stratarag.pipeline.names import words

LIKENESS = 0.7
"""Cosine similarity of two descriptions from which they are held to be of one thing."""
SPELLING = 0.9
"""Share of common letters from which two names are held to be spellings of one."""
_CROWD = 50


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


async def resolve(
    entities: Sequence[Entity],
    gate: Gate,
    *,
    describe: Callable[[Entity], str],
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
        What an entity is compared by; an entity without a description is merged with none.
    rule
        Decides over a candidate whose similarity is filled in.
    """
    described = {entity.key: text for entity in entities if (text := describe(entity).strip())}
    pairs = [pair for pair in candidates(entities) if pair.alias in described and pair.kept in described]
    keys = sorted({key for pair in pairs for key in (pair.alias, pair.kept)})
    if not keys:
        return []
    with gate.stage("resolve", len(keys)):
        vectors = await gate.embed("resolve", [described[key] for key in keys])
    rows = {key: row for row, key in enumerate(keys)}
    judged = (
        Candidate(p.alias, p.kept, p.evidence, float(vectors[rows[p.alias]] @ vectors[rows[p.kept]]))
        for p in pairs
    )
    return _one_each(candidate for candidate in judged if rule(candidate))


def aliases(merged: Iterable[Candidate]) -> Mapping[str, str]:
    """Canonical names by the canonical names that go into them."""
    return {candidate.alias: candidate.kept for candidate in merged}


def _one_each(found: Iterable[Candidate]) -> list[Candidate]:
    """For each alias the most similar entity, so that nothing is merged into two."""
    best: dict[str, Candidate] = {}
    for candidate in found:
        known = best.get(candidate.alias)
        if known is None or (candidate.similarity, known.kept) > (known.similarity, candidate.kept):
            best[candidate.alias] = candidate
    return [best[alias] for alias in sorted(best)]


def candidates(entities: Sequence[Entity]) -> list[Candidate]:
    """Pairs of entities whose names are alike, each once, sorted; the shorter name is the alias.

    Only names with a word (or all initials) in common are compared; a word that more than 50 names have
    says nothing and brings none together.
    """
    split = {entity.key: tuple(words(entity.key)) for entity in entities}
    found: dict[tuple[str, str], Candidate] = {}
    for group in _blocks(split):
        for place, one in enumerate(group):
            for two in group[place + 1 :]:
                evidence = _evidence(split[one], split[two])
                if evidence:
                    alias, kept = sorted((one, two), key=lambda key: (len(split[key]), len(key), key))
                    found[alias, kept] = Candidate(alias, kept, evidence)
    return [found[pair] for pair in sorted(found)]


def _blocks(split: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    by_word: defaultdict[str, list[str]] = defaultdict(list)
    for key, parts in split.items():
        for part in dict.fromkeys(parts):
            by_word[part].append(key)
            if len(part) >= 4:
                by_word[f"{part[:3]}..."].append(key)
        if len(parts) > 1:
            by_word["".join(part[0] for part in parts)].append(key)
    for group in by_word.values():
        if 1 < len(group) <= _CROWD:
            yield sorted(group)


def _evidence(one: tuple[str, ...], two: tuple[str, ...]) -> str:
    short, long = sorted((one, two), key=len)
    if len(short) == 1 and len(long) > 1 and short[0] == "".join(part[0] for part in long):
        return "acronym"
    if len(short) < len(long) and set(short) <= set(long) and any(len(part) > 2 for part in short):
        return "words"
    if any(character.isdigit() for part in (*one, *two) for character in part):
        return ""  # 1871 and 1872 are nearly spelled alike
    matcher = SequenceMatcher(None, " ".join(one), " ".join(two), autojunk=False)
    alike = matcher.real_quick_ratio() >= SPELLING and matcher.ratio() >= SPELLING
    return "spelling" if alike else ""

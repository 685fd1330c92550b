"""Entity resolution: which names mean the same thing. Optional, by two kinds of evidence, and reversible.

Two entities are candidates if their names are alike: one ends with the other ("Scrooge"), has initials for
its words, is its acronym, has something in brackets more, or differs by one letter inside a word. By the
default rule they are merged only if their descriptions are alike too, without the sentences that name both.

`resolved` is a step between tables and graph: namesakes are told apart in the tables of their chunks,
variants of a name are keys that lead to others, and all is grouped again. Extractions stay as they are: if
resolution is turned off, the next update splits the entities again.

If a sentence seems to say that two names mean one thing ("Bombay, later called Mumbai"), only a model
decides (`same_things`): of 76 in MuSiQue's passages, 17 say something else.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stratagraph.ingest.extraction.stored import extraction_of
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.layout import MOST_UNITS, Entity, Unit, entity_records, read_texts
from stratagraph.ingest.graph.lists import Lists
from stratagraph.ingest.graph.same_things import Identities, collected_as
from stratagraph.ingest.graph.tables import Arrays, Flat, joined
from stratagraph.ingest.names.index import canonical, words
from stratagraph.kernels.ranges import order
from stratagraph.models.gate import Gate
from stratagraph.text.stopwords import FUNCTION
from stratagraph.types.protocols import Corpus, Stored

LIKENESS = 0.7
"""Least cosine similarity of two descriptions of the same thing."""
MOST_FRAGMENTS = 5
"""Fragments of an entity that are compared, the first ones of its own."""
_BRACKET = re.compile(r"\s*\([^()]*\)$")
# Between two names of one thing, as in "Bombay has been called Mumbai" and "IBM, known as Big Blue".
_CALLED = re.compile(
    r"[\"\u201d]?,?\s\(?"
    r"(?:(?:who|which|has|had|is|was|been|were|or|also|formerly|originally|previously|later|now|better|commonly"
    r"|popularly|sometimes|often|simply) ){0,6}(?:(?:known|renamed|called|named|nicknamed)(?: as)?"
    r"|changed (?:his|her|its) name to|took the name(?: of)?|formerly|n[\u00e9e]e|alias|a\.?k\.?a\.?|now)"
    r"[\s(]+(?:the )?[\"\u201c]?",
    re.IGNORECASE,
)
_CROWD = 50
_SHORTEST_MISSPELT = 5  # letters; in shorter words another letter makes another word,
_SHORTEST_ALONE = 7  # and where the word is the whole name, there is nothing else that is alike
_ROMAN = re.compile(r"[ivx]|[ivxlcdm]{2,}")
# "North Korea" and "Korea", or "Mrs Smith" and "Smith", are different things however similar their texts are.
_TELL_APART = frozenset(
    word
    for words_ in (
        "north south east west northern southern eastern western northeast northwest southeast southwest",
        "northeastern northwestern southeastern southwestern central upper lower inner outer new old great",
        "greater little middle proto mrs miss lady saint st anti non pre post ex junior jr senior sr",
    )
    for word in words_.split()
)
# After one of these words an alias is a place or a subject: "Battle of Gettysburg", "Live in Paris".
_LINKS = frozenset(
    ("of", "in", "on", "at", "for", "and", "or", "to", "from", "by", "with", "about", "near", "versus", "vs")
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two entities that may be one: what a `resolve_rule` is given, which returns whether they are.

    `alias` would become `kept`; both are names in lower case. `evidence` is `words`, `acronym` or `spelling`,
    and `told` only where a model decides. `similarity` is the cosine of what the documents say of the two.
    """

    alias: str
    kept: str
    evidence: str
    similarity: float = 0.0

    def __str__(self) -> str:
        return f"{self.alias!r} is {self.kept!r} ({self.evidence}, similarity {self.similarity:.2f})"


Rule = Callable[[Candidate], bool]


def default_rule(candidate: Candidate) -> bool:
    """Merge if the descriptions are alike."""
    return candidate.similarity >= LIKENESS


async def resolved(
    corpus: Corpus,
    extracted: Stored,
    tables: Arrays,
    graph: Grouping,
    gate: Gate,
    *,
    rule: Rule = default_rule,
    use_llm: bool,
) -> Grouping:
    """The graph of tables with variants of a name as one entity, and namesakes as several.

    A model judges both, or titles tell namesakes apart; then `rule` decides on variants by descriptions.
    """
    named = entity_records(graph, np.arange(len(graph.entities.names)), {})
    identities = Identities(corpus, extracted, {entity.key: entity.name for entity in named})
    if use_llm and rule is default_rule:
        pairs = candidates(named, await asyncio.to_thread(_units, graph, extracted))
        identity = await identities.by_model([(each.alias, each.kept) for each in pairs], gate)
    else:
        identity = await asyncio.to_thread(identities.by_titles)
    if identity.apart:
        rows = sorted(identity.apart)
        told = (
            collected_as(extraction_of(node), identity.apart[row])
            for row, node in zip(rows, extracted.nodes(rows), strict=True)
        )
        own = np.arange(corpus.size)
        own[rows] = -1
        tables = joined(tables, Flat(told).arrays(), own)
    if identity.apart or identity.aliases:
        graph = await asyncio.to_thread(Grouping, tables, [identity.aliases])
        named = entity_records(graph, np.arange(len(graph.entities.names)), {})
    pairs = [each for each in candidates(named) if (each.alias, each.kept) not in identity.judged]
    described = await asyncio.to_thread(_described, graph, extracted, named, pairs)
    if same := await resolve(described, pairs, gate, rule=rule):
        merged = {candidate.alias: candidate.kept for candidate in same}
        graph = await asyncio.to_thread(Grouping, tables, [identity.aliases, merged])
    graph.notes.update({**identity.notes, **{f"resolved: {candidate}": 1 for candidate in same}})
    return graph


def _units(graph: Grouping, extracted: Stored) -> list[Unit]:
    """The units that name several entities."""
    several = np.flatnonzero(np.diff(graph.units.entities.starts) > 1)
    units = graph.units.at(several)
    texts = read_texts(extracted, units.texts, units.chunks.values[units.chunks.starts[:-1]])
    keys = graph.strings.texts(graph.entities.names)
    named = units.entities.split([keys[row] for row in units.entities.values.tolist()])
    return [Unit(texts[key], own, ()) for key, own in zip(units.texts.tolist(), named, strict=True)]


def _described(
    graph: Grouping, extracted: Stored, named: Sequence[Entity], pairs: Sequence[Candidate]
) -> dict[Entity, Sequence[str]]:
    """The entities of some pairs, with the texts that describe them: statements, else the first units."""
    wanted = {name for pair in pairs for name in (pair.alias, pair.kept)}
    rows = np.array([row for row, entity in enumerate(named) if entity.key in wanted], np.int64)
    statements = graph.entities.statements.at(rows)
    units = graph.units
    by_entity = order(units.entities.values, len(named))
    naming = Lists.of(units.entities.values[by_entity], units.entities.owners[by_entity], len(named)).at(rows)
    first = units.chunks.values[units.chunks.starts[:-1]]
    bare = (np.diff(statements.texts.starts) == 0)[naming.owners]
    texts = read_texts(
        extracted,
        np.concatenate([statements.texts.values, units.texts[naming.values[bare]]]),
        np.concatenate([statements.chunks, first[naming.values[bare]]]),
    )
    described: dict[Entity, Sequence[str]] = {}
    of_units = naming.split([texts.get(key, "") for key in units.texts[naming.values].tolist()])
    for entity, own in zip(entity_records(graph, rows, texts), of_units, strict=True):
        described[entity] = entity.fragments or sorted(own)[:MOST_UNITS]
    return described


async def resolve(
    described: Mapping[Entity, Sequence[str]],
    pairs: Iterable[Candidate],
    gate: Gate,
    *,
    rule: Rule = default_rule,
) -> list[Candidate]:
    """Those of some pairs (`candidates`) that `rule` merges, with the similarities of what is said of both.

    `described` are the entities with the statements about each. Statements that two entities share are left
    out of the comparison. An entity without other statements is not merged, except for an acronym that is
    used where the long name is, because the shared statement explains it.
    """
    by_key = {entity.key: entity for entity in described}
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    compared = []
    for pair in pairs:
        one, two = by_key[pair.alias], by_key[pair.kept]
        if one.type and two.type and one.type.casefold() != two.type.casefold():
            continue
        explained = pair.evidence == "acronym" and 2 * len({*one.chunks} & {*two.chunks}) > len(one.chunks)
        apart = _apart(_statements(described[one]), _statements(described[two]), pair.evidence, explained)
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
    best: dict[str, Candidate] = {}  # the most similar entity of each alias, so that it is merged into one
    for candidate in filter(rule, judged):
        previous = best.get(candidate.alias)
        if previous is None or (candidate.similarity, previous.kept) > (previous.similarity, candidate.kept):
            best[candidate.alias] = candidate
    return [best[alias] for alias in sorted(best)]


def _statements(described: Sequence[str]) -> dict[str, str]:
    """Statements by their text without case and white space."""
    return {key: text for text in described if (key := " ".join(text.casefold().split()))}


def _apart(
    one: Mapping[str, str], two: Mapping[str, str], evidence: str, explained: bool
) -> tuple[str, str] | None:
    """The two texts to compare, without shared statements; None if there is nothing to compare."""
    shared = one.keys() & two.keys()
    if shared and evidence != "acronym":
        return None
    first, second = (_joined(all_, shared) for all_ in (one, two))
    if shared and explained and not (first and second):
        first, second = _joined(one), _joined(two)
    return (first, second) if first and second else None


def _joined(statements: Mapping[str, str], without: Collection[str] = ()) -> str:
    return " ".join([text for key, text in statements.items() if key not in without][:MOST_FRAGMENTS])


def candidates(entities: Sequence[Entity], units: Iterable[Unit] | None = None) -> list[Candidate]:
    """Pairs of entities that may be one, each once, sorted; the shorter name is the alias.

    Only names that share a word (or all initials) are compared, and only words that at most 50 names have.
    With `units` they are pairs for a model: also those of which a sentence says that they are one (English),
    and those of a name that is part of several names, which else is nobody's alias.
    """
    split = {entity.key: tuple(words(entity.key)) for entity in entities}
    spread = Counter(part for parts in split.values() for part in set(parts))
    pairs: dict[tuple[str, str], str] = {}
    for group in _blocks(split):
        for place, one in enumerate(group):
            for two in group[place + 1 :]:
                alias, target = sorted((one, two), key=lambda key: (len(split[key]), len(key), key))
                evidence = _evidence(split[alias], split[target], spread)
                if evidence:
                    pairs[alias, target] = evidence
    for entity in entities:
        bare = canonical(_BRACKET.sub("", entity.name))
        if bare != entity.key and bare in split:
            pairs[bare, entity.key] = "words"
    names = {entity.key: entity.name for entity in entities}
    for one, two in _told(units or (), names):
        alias, target = sorted((one, two), key=lambda key: (len(split[key]), len(key), key))
        pairs[alias, target] = "told"
    fits = Counter(alias for (alias, _), evidence in pairs.items() if evidence == "words")
    return [
        Candidate(alias, target, evidence)
        for (alias, target), evidence in sorted(pairs.items())
        if units is not None or evidence != "words" or fits[alias] == 1
    ]


def _told(units: Iterable[Unit], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The pairs of names that stand on both sides of words such as "known as" in a sentence."""
    for unit in units:
        for cue in _CALLED.finditer(unit.text) if len(unit.entities) > 1 else ():
            left = [key for key in unit.entities if unit.text.endswith(names[key], 0, cue.start())]
            right = [key for key in unit.entities if unit.text.startswith(names[key], cue.end())]
            if left and right and (one := max(left, key=len)) != (two := max(right, key=len)):
                yield one, two


def _blocks(split: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """Groups of names to compare, by word and by initials."""
    by_word: defaultdict[str, set[str]] = defaultdict(set)
    for key, parts in split.items():
        for part in parts:
            by_word[part].add(key)
            if len(part) >= 4:
                by_word[f"{part[:3]}..."].add(key)
        if len(parts) > 1:
            for initials in _initials(parts):
                by_word[initials].add(key)
    for group in by_word.values():
        if 1 < len(group) <= _CROWD:
            yield sorted(group)


def _evidence(short: tuple[str, ...], long: tuple[str, ...], spread: Mapping[str, int]) -> str:
    """Why two names may mean one thing, or ""; `spread` counts the names that contain each word."""
    if len(short) == 1 and len(long) > 1 and short[0].isalpha() and short[0] in _initials(long):
        return "acronym"
    if _telling(short) != _telling(long):
        return ""
    if _shortened(short, long):
        return "words"
    return "spelling" if _misspelt(short, long, spread) else ""


def _initials(name: Sequence[str]) -> set[str]:
    """The initials of a name's words, with and without those of grammar."""
    return {"".join(part[0] for part in name), "".join(part[0] for part in name if part not in FUNCTION)}


def _telling(name: Sequence[str]) -> list[str]:
    """The words that tell similar names apart: numbers, numerals (not in first place), directions."""
    return sorted(
        part
        for place, part in enumerate(name)
        if part in _TELL_APART
        or any(character.isdigit() for character in part)
        or (place and _ROMAN.fullmatch(part))
    )


def _shortened(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether one name is the end of the other, or has initials where the other has words."""
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
    """Whether one word is spelt in two ways: a letter inside it is changed, missing, doubled or swapped.

    Ends of words carry gender, number and descent (Mario, Maria; Beatle, Beatles). Two words that both occur
    in further names are two words (Karen, Karin).
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

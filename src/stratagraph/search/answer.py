"""Answers with citations, by a model or, without one, of the hits' own sentences.

Without a model, sentences are chosen one after the other as the chain of facts goes on:

1. The best statement is taken: by similarity, by the question's words in it, by the rank of its hit.
2. The question is asked again without the words that were answered, and with the names that the statement,
   its neighbours and its title bring in: "What yearly pay did the woman who shut the gate receive" becomes
   "What yearly pay did the woman who receive Hanna Siskin". Statements of other passages gain by these names.
3. A statement that follows a chosen one gains too. This repeats until the best one left scores too little.

The answer keeps that order, with the statements of each passage together; one that begins with a pronoun
comes with the one before it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.extraction.by_rules import proper_names
from stratagraph.ingest.headings import fenced, quotable, statements
from stratagraph.models.gate import Gate, Prompt, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import plain_text
from stratagraph.search import evidence
from stratagraph.text.sentences import title_line
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import LONGEST, Length
from stratagraph.types.results import NOTHING_FOUND, Citation, Hit, Retrieval

ANSWER_PROMPT = load_prompt("stratagraph.search", "answer")
_RULES: dict[Length, str] = {
    "brief": "Be direct and brief: the answer first, then only what is needed to trust it.",
    "full": (
        "Answer in full: the answer first, then every side of the question that you were shown something on, "
        "with its names, dates, numbers and reasons, in paragraphs; where there are several sides, each "
        "under a short heading."
    ),
}
_EXPECTED: dict[Length, int] = {"brief": 150, "full": 600}
_NUMBER = re.compile(r"\[(\d{1,4})\]")
WEIGHED = 60
"""Statements of the best hits that are considered."""
WORDS = 1.0
"""Gain of a statement that has all unanswered words of the question."""
RANK = 0.3
"""Gain of the first hit's statements; the second hit has half of it, and so on."""
LINK = 0.3
"""Gain of a statement of another passage by a name that earlier statements brought in.

Best of six settings of these three on 24 to 60 questions each of musique_train100, hotpotqa_train100,
2wiki_dev164 and lihua_world, all seen when it was chosen (`cookbook/benchmarks/extractive.py`).
"""
NEXT = 0.3
"""Gain of a statement that follows a chosen one; the best of 0, .15 and .3 on these sets and the demo."""
ENOUGH = 1.0
"""Least score of a further statement, unless a full answer is wanted; see `ENOUGH_SHARE`."""
ENOUGH_SHARE = 0.8
"""If this share of the first statement's score is less than `ENOUGH`, it is the least score.

Four statements, however they score, hold the gold answer of .523 of 60 questions each of the four sets above
and 24 of the demo; with this stop 3.0 statements hold .488 (`cookbook/benchmarks/extractive.py`).
"""
FOLLOWED = 5
"""Names that are asked for, the latest first."""
FAINT = 1e-3
"""A passage is quoted only if its mass is above this share of the best passage's."""
_COUNTS: dict[Length | None, int] = {None: 3, "brief": 2, "full": 8}
"""Statements at most, with one more if it has a name that the others brought in."""
# Questions that code answers: they ask for a command or an example, or have a name of an API (English).
_ASKS_FOR_CODE = re.compile(
    r"\b(?:commands?|code|snippet|syntax|example|install|imports?|flags?|decorator)\b|`|\w_\w|\w\(\)|--\w|\b\w+\.[a-z]\w+\b",
    re.IGNORECASE,
)
_LEANS = re.compile(
    r"(?:He|She|It|They|His|Her|Its|Their|This|That|These|Those|There|Here|Then|But|And|So)\b(?!,)"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """The last prompt of an answer: a template, its values, and the citations that its numbers stand for."""

    prompt: Prompt
    values: Mapping[str, str]
    citations: tuple[Citation, ...]
    length: Length = "brief"

    def as_long_as(self, length: Length) -> Draft:
        """The draft of an answer of this length."""
        rule = {"length": _RULES[length]} if "length" in self.prompt.names else {}
        return replace(self, values={**self.values, **rule}, length=length)


class Compose(Protocol):
    """How a method turns a retrieval into a draft of at most `max_tokens`; it may ask the model."""

    async def __call__(self, retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any) -> Draft:
        """See the class; `options` are those of the search."""
        ...


async def compose(
    retrieval: Retrieval, gate: Gate, *, max_tokens: int, options: Any, prompt: Prompt = ANSWER_PROMPT
) -> Draft:
    """A draft of the hits, packed (`Retrieval.context`)."""
    context = retrieval.context(max_tokens)
    return Draft(prompt, {"context": context.text, "question": retrieval.query}, context.citations)


async def generate(retrieval: Retrieval, draft: Draft, gate: Gate) -> tuple[str, tuple[Citation, ...]]:
    """Let the model answer; returns the text and what it cites."""
    task = Task(
        name="answer",
        prompt=draft.prompt,
        parse=plain_text,
        expected_output_tokens=_EXPECTED[draft.length],
        placeholder=lambda values: "answer",
        answers_question=True,
    )
    sources = sorted({source for citation in draft.citations for source in citation.sources})
    text = await gate.call(task, draft.values, item=retrieval.query, sources=sources)
    return text, cited(text, draft.citations)


def stream(draft: Draft, gate: Gate) -> AsyncGenerator[str, None]:
    """Let the model answer in pieces, as it writes them."""
    expected = _EXPECTED[draft.length]
    return gate.stream(draft.prompt, draft.values, stage="answer", expected_output_tokens=expected)


def cited(text: str, citations: Sequence[Citation]) -> tuple[Citation, ...]:
    """The citations whose numbers occur in a text, in the order of their numbers."""
    numbers = {int(number) for number in _NUMBER.findall(text)}
    return tuple(citation for citation in citations if citation.number in numbers)


class _Statement(NamedTuple):
    """A sentence of the hit at this rank, or a block of code with the sentence before it.

    `place` is where it begins in the hit's text. `leans` tells whether it continues the one before it;
    `about` has its own stems and its title's.
    """

    rank: int
    place: int
    text: str
    title: str
    leans: bool
    stems: frozenset[str]
    about: frozenset[str]


async def extract_answer(
    retrieval: Retrieval, vector: Vectors, gate: Gate, *, alike: bool | None, length: Length | None = None
) -> tuple[str, tuple[Citation, ...]]:
    """The statements of the hits that answer the question, each with the number of its source.

    Titles, bylines that the question does not ask for, and passages that no walk reached are left out.

    Parameters
    ----------
    vector
        The question's unit vector, shape (dimension,).
    alike
        Whether the index speaks of what is asked (`evidence.Background`): if not, there is no answer. None
        decides by the question's words in the hits (`evidence.answers`).
    length
        Changes how many statements there are at most; "full" takes those that add little, too.
    """
    hits = _reached(retrieval)
    question = retrieval.query[:LONGEST]
    code = bool(_ASKS_FOR_CODE.search(question))
    candidates = _candidates(hits, evidence.asked_for(question), code=code)
    if alike is None:
        alike = evidence.answers(question, [hit.text for _, hit in hits])
    if not candidates or not alike:
        return NOTHING_FOUND, ()
    chosen = await _followed(question, vector, candidates, length, gate)
    ranks = list(dict.fromkeys(candidates[place].rank for place in chosen))
    shown = sorted(
        {place for one in chosen for place in (one, one - candidates[one].leans)},
        key=lambda place: (ranks.index(candidates[place].rank), place),
    )
    text = " ".join(f"{candidates[place].text} [{candidates[place].rank + 1}]" for place in shown)
    first = {candidates[place].rank: candidates[place].place for place in reversed(chosen)}
    return text, tuple(Citation.of(rank + 1, retrieval.hits[rank], first[rank]) for rank in ranks)


def _reached(retrieval: Retrieval) -> list[tuple[int, Hit]]:
    """Ranks and hits: those that received mass from a walk, and those that were reranked."""
    most = max((trace.get("mass", 0.0) for trace in retrieval.trace), default=0.0)
    traced = zip(retrieval.hits, retrieval.trace, strict=True)
    return [
        (rank, hit)
        for rank, (hit, trace) in enumerate(traced)
        if "reranked_from" in trace or trace.get("mass", 1.0) > FAINT * most
    ]


def _candidates(
    hits: Sequence[tuple[int, Hit]], wanted: Callable[[str], bool], *, code: bool
) -> list[_Statement]:
    """The statements of the hits in order, each once, without markup, with the bylines that are wanted.

    A node's statement is left out if passages among the hits, or nodes before it, say it (`_is_told`).
    """
    of_hits = {rank: _statements(rank, hit, wanted, code=code) for rank, hit in hits}
    earlier = [each.text for rank, hit in hits if hit.kind == "chunk" for each in of_hits[rank]]
    candidates: list[_Statement] = []
    texts: set[str] = set()
    for rank, hit in hits:
        before = False
        for each in of_hits[rank]:
            if new := each.text not in texts and (hit.kind == "chunk" or not _is_told(each.text, earlier)):
                candidates.append(each._replace(leans=before and each.leans))
                texts.add(each.text)
            before = new
        if hit.kind != "chunk":
            earlier += [each.text for each in of_hits[rank]]
        if len(candidates) >= WEIGHED:
            break
    return candidates[:WEIGHED]


def _statements(rank: int, hit: Hit, wanted: Callable[[str], bool], *, code: bool) -> list[_Statement]:
    """All statements of a hit.

    A statement that ends in a colon ("It runs on:") is put before the one that follows it. With `code`,
    blocks of code are statements too, and code in sentences keeps its marks.
    """
    candidates: list[_Statement] = []
    label = _label(hit)
    whole = hit.text[len(label) :]
    title, lead = title_line(whole)[0] or label, ""
    named = evidence.stems(title)
    blocks = fenced(whole) if code else []
    for start, end in sorted([*statements(whole, wanted), *blocks]):
        own = whole[start:end] if (start, end) in blocks else quotable(whole[start:end], code=code)
        text = f"{lead}{chr(10) if (start, end) in blocks else ' '}{own}".strip()
        lead = text if text.endswith(":") else ""
        if text and not lead:
            stems, leans = evidence.stems(text), _LEANS.match(text) is not None
            candidates.append(_Statement(rank, len(label) + start, text, title, leans, stems, stems | named))
    return candidates


def _is_told(text: str, earlier: Iterable[str]) -> bool:
    """Whether a statement is part of one of these, or these make up more than half of it."""
    left = text
    for each in earlier:
        if text in each:
            return True
        left = left.replace(each, "")
    return 2 * len(left) < len(text)


def _label(hit: Hit) -> str:
    """The names or the title before the text of a node, which are not words of a source."""
    names = hit.metadata.get("ends") or [hit.metadata.get("name") or hit.metadata.get("title", "")]
    label = f"{' - '.join(map(str, names))}: "
    return label if hit.kind != "chunk" and hit.text.startswith(label) else ""


async def _followed(
    question: str, vector: Vectors, candidates: Sequence[_Statement], length: Length | None, gate: Gate
) -> list[int]:
    """Places of the best statements, each for what the earlier ones left open."""
    least = -np.inf
    vectors = await gate.embed("answer", [each.text for each in candidates])
    by_rank = np.array([RANK / (1 + each.rank) for each in candidates])
    names = _Names(question, candidates)
    chosen: list[int] = []
    left = question
    while True:
        words = np.array(evidence.weighed(left, [each.stems for each in candidates]))
        linked = names.linked()
        scores = vectors @ vector + by_rank + WORDS * words + LINK * linked
        scores[[place + 1 for place in chosen if _goes_on(candidates, place)]] += NEXT
        scores[chosen] = -np.inf
        best = int(np.argmax(scores))
        room = _COUNTS[length] + bool(linked[best]) - len(chosen)
        if room < 1 or len(chosen) == len(candidates) or scores[best] < least:
            return chosen
        if not chosen and length != "full":
            least = min(ENOUGH, ENOUGH_SHARE * scores[best])
        chosen.append(best)
        names.follow(chosen[-1])
        left = _left(question, [candidates[place].stems for place in chosen])
        (vector,) = await gate.embed("answer", [f"{left} {names.text}".strip() or question])


def _goes_on(candidates: Sequence[_Statement], place: int) -> bool:
    return place + 1 < len(candidates) and candidates[place + 1].rank == candidates[place].rank


def _left(question: str, chosen: Sequence[frozenset[str]]) -> str:
    answered = frozenset[str]().union(*chosen)
    left = [word for word in question.split() if not (stems := evidence.stems(word)) or not stems <= answered]
    return " ".join(left)


class _Names:
    """The names that chosen statements bring in and other passages have, the latest first."""

    def __init__(self, question: str, candidates: Sequence[_Statement]) -> None:
        self._asked = evidence.stems(question)
        self._candidates = candidates
        self._found: dict[frozenset[str], tuple[str, int]] = {}  # the name as written and its passage's rank

    @property
    def text(self) -> str:
        """Those that are asked for."""
        return ", ".join(name for name, _ in self._latest().values())

    def follow(self, place: int) -> None:
        """Take the names in and around a statement, and in its title, that the question does not have."""
        at, new = self._candidates[place], dict[frozenset[str], tuple[str, int]]()
        near = [each for each in self._candidates[max(0, place - 1) : place + 2] if each.rank == at.rank]
        for text in (at.text, *(each.text for each in near if each is not at), at.title):
            for name in proper_names(text):
                stems = evidence.stems(name)
                if stems and not stems <= self._asked and stems not in self._found:
                    new.setdefault(stems, (name, at.rank))
        leading = {stems: name for stems, name in new.items() if any(self._having(stems, at.rank))}
        self._found = leading | self._found

    def linked(self) -> NDArray[np.bool_]:
        """Which statements have one of the names asked for, or a title that has."""
        linked = np.zeros(len(self._candidates), np.bool_)
        for stems, (_, rank) in self._latest().items():
            linked |= self._having(stems, rank)
        return linked

    def _latest(self) -> dict[frozenset[str], tuple[str, int]]:
        return dict(list(self._found.items())[:FOLLOWED])

    def _having(self, stems: frozenset[str], rank: int) -> NDArray[np.bool_]:
        """The statements of passages other than the one at this rank that have a name."""
        return np.array([each.rank != rank and stems <= each.about for each in self._candidates])

"""Guided retrieval: a model chooses hits that belong together, or spreads the search.

One call sees the best hits. For facts it names those that are needed together and a query for what is
missing; the query is searched for, and the choice made once more. For an overview it writes several queries,
whose hits are taken in turn; with more steps a further call sees them and asks for what is missing. If a call
fails, what was found before it stands.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from stratagraph.errors import BudgetExceeded, CallFailed, described
from stratagraph.ingest.extraction.parsing import flat
from stratagraph.models.gate import Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.search.evidence import shortened
from stratagraph.text.packing import asked_words, numbered
from stratagraph.text.statements import title_line
from stratagraph.types.question import Guided
from stratagraph.types.records import Metadata
from stratagraph.types.results import Guidance, GuidedStep, Hit

STEPS = 2
"""Searches for one question at most."""
SHOWN = 20
"""Texts that the first call sees."""
SHOWN_AGAIN = 12
"""Texts that a later call sees, those chosen before and new ones."""
CHOSEN = 5
"""Texts that a call may choose."""
QUERIES = 8
"""Queries of an overview at most."""
ANSWERED = 60
"""Hits of an overview that an answer is made of, unless the caller says how many."""
TEXT_TOKENS = 2000
"""Tokens of the texts in the first call."""
TEXT_TOKENS_AGAIN = 900
"""Tokens of the texts in a later call; two calls with their instructions have fewer than 4,000 tokens."""

Found = Sequence[tuple[Hit, Metadata]]
Search = Callable[[Sequence[str], bool], Awaitable[Sequence[Found]]]
"""Searches for several queries: the hits and traces of each, best first; whether they are of an overview."""
_NUMBER = re.compile(r"(?<![-\d])\d{1,4}")


def _numbers(value: object) -> object:
    """Numbers as they may be written: `[4, 1]`, `["[4]", "1"]`, `"4, 1"`."""
    return [int(number) for number in _NUMBER.findall(str(value))]


def _query(value: object) -> object:
    return value.strip()[:LONGEST_QUERY] if isinstance(value, str) else ""


def _queries(value: object) -> object:
    return [each for each in flat(value) if isinstance(each, str)] if isinstance(value, list) else []


Numbers = Annotated[list[int], BeforeValidator(_numbers)]


class ChoiceSchema(BaseModel):
    """What the model answers in the last round."""

    needed: Numbers = []


class GuideSchema(BaseModel):
    """What the model answers while it may search on; fields of the other kind may be missing."""

    kind: Any = "facts"
    needed: Numbers = []
    missing: Annotated[str, BeforeValidator(_query)] = ""
    queries: Annotated[list[str], BeforeValidator(_queries)] = []

    @property
    def overview(self) -> bool:
        """Whether it says that an overview is wanted."""
        return "overview" in str(self.kind).casefold()


GUIDE = Task(
    name="guide",
    prompt=load_prompt("stratagraph.search", "guide"),
    parse=json_as(GuideSchema),
    schema=GuideSchema,
    expected_output_tokens=40,
    placeholder=lambda values: GuideSchema(needed=[1, 2], missing=values["texts"][-200:]),
)
LAST = Task(
    name="guide",
    prompt=load_prompt("stratagraph.search", "guide_last"),
    parse=json_as(ChoiceSchema),
    schema=ChoiceSchema,
    expected_output_tokens=15,
    placeholder=lambda values: ChoiceSchema(needed=[1, 2]),
)
LONGEST = 2000
"""Characters of the question that a call sees."""
LONGEST_QUERY = 300
"""Characters of a query that a call writes; the rest is cut."""
_NOTES = {
    "choice": 'The question asks for "facts".\n\n',
    "overview": 'The question asks for an "overview".\n\n',
}
_ABOUT = (
    (("title", "document_title", "subject"), 160),
    (("source", "publisher", "from", "file_name"), 60),
    (("date", "published", "published_at", "publication_date", "creation_date"), 30),
)
"""The names that a document's title, source and date have in metadata, and the characters of each shown."""
_TIME = re.compile(r"(?<=\d{4}-\d\d-\d\d)[T ]\d.*")


async def guided(
    question: str, first: Found, search: Search, gate: Gate, mode: Guided, steps: int = STEPS
) -> tuple[Found, Guidance]:
    """The hits of a guided search, best first, and what the model decided.

    Parameters
    ----------
    question, first
        The question and its hits.
    search
        Searches for further queries.
    mode
        True lets the model say what the question asks for; `"choice"` and `"overview"` set it.
    steps
        Searches at most, `first` being one. The last call only chooses: one search makes no overview.

    Returns
    -------
    hits, guidance
        Of a choice the chosen hits, the most necessary first, then what was found for the last query, then
        the others. Of an overview the hits of the question and of all queries in turn. If nothing was chosen,
        `first`. Without hits the model is not asked.
    """
    if not first:
        return first, Guidance("none", failed="nothing was found")
    guide = _Guide(question, gate, mode)
    answer = await guide.ask([hit for hit, _ in first], last=steps == 1)
    if answer is None:
        return first, Guidance("none", failed=guide.failed)
    if mode == "overview" or (mode is True and answer.overview):
        return await guide.spread(answer, first, search, steps)
    return await guide.choose(answer, first, search, steps)


def in_turn(lists: Iterable[Found]) -> Found:
    """The first of each list, then the second of each, and so on; a hit stands where it comes first."""
    merged: dict[str, tuple[Hit, Metadata]] = {}
    for row in zip_longest(*lists):
        for each in row:
            if each is not None:
                merged.setdefault(each[0].id, each)
    return list(merged.values())


class _Guide:
    """The calls about one question."""

    def __init__(self, question: str, gate: Gate, mode: Guided) -> None:
        self._question = question
        self._gate = gate
        self._mode = mode
        self.failed = ""
        self._shown: list[str] = []

    async def ask(
        self, hits: Sequence[Hit], searched: str = "", *, last: bool, led: Sequence[str] = ()
    ) -> GuideSchema | None:
        """The model's answer about hits; None if it fails, with the reason in `failed`.

        The same hits in another order give the same prompt, which the cache knows: they are sorted by
        document. Of hits with the same text the best is shown. Of long texts more is shown the higher the
        hit's score is, most of those that were chosen before (`led`); where scores are equal, of one with
        more words of the question.
        """
        most, tokens = (SHOWN_AGAIN, TEXT_TOKENS_AGAIN) if self._shown else (SHOWN, TEXT_TOKENS)
        query = f"{self._question} {searched}".strip()
        wanted = asked_words(query)

        def place(hit: Hit) -> tuple[Any, ...]:
            text = hit.text.casefold()
            return hit.id not in led, -hit.score, -sum(word in text for word in wanted), hit.id

        copies = {" ".join(hit.text.casefold().split()): hit.id for hit in reversed(hits)}
        distinct = [hit for hit in hits if hit.id in copies.values()]
        best = sorted(distinct[:most], key=place)
        shown = sorted(best, key=lambda hit: (hit.documents, hit.id))
        count = self._gate.count_tokens
        about = {hit.id: _about(hit) for hit in best}
        lines = _lines(shown, about)
        bodies = [_untitled(hit, about[hit.id]) for hit in best]
        cut = shortened(query, bodies, tokens - sum(map(count, lines.values())), count, [*about.values()])
        texts = {hit.id: f"{lines[hit.id]}\n{text}".strip() for hit, text in zip(best, cut, strict=True)}
        self._shown = [hit.id for hit in shown]
        values = {
            "texts": "\n\n".join(numbered(number, texts[hit.id]) for number, hit in enumerate(shown, 1)),
            "question": self._question[:LONGEST],
            "searched": searched or "nothing yet",
            "most": str(CHOSEN),
        }
        sources = sorted({source for hit in best for source in hit.sources})
        try:
            if last:
                choice = await self._gate.call(LAST, values, item=self._question, sources=sources)
                return GuideSchema(needed=choice.needed)
            values |= {"queries": str(QUERIES), "note": _NOTES.get(str(self._mode), "")}
            return await self._gate.call(GUIDE, values, item=self._question, sources=sources)
        except (CallFailed, BudgetExceeded) as error:
            self.failed = described(error)
            return None

    def _chosen(self, answer: GuideSchema) -> tuple[str, ...]:
        """Ids of the hits that an answer names, each once; numbers that do not exist are ignored."""
        numbers = dict.fromkeys(number for number in answer.needed if 0 < number <= len(self._shown))
        return tuple(self._shown[number - 1] for number in numbers)[:CHOSEN]

    async def spread(
        self, answer: GuideSchema, first: Found, search: Search, steps: int
    ) -> tuple[Found, Guidance]:
        """The hits of the question and of all queries in turn; further calls see them and write more."""
        self._mode = "overview"
        asked, lists, decisions = [self._question], list[Found](), list[GuidedStep]()
        new = _distinct(answer.queries)[:QUERIES]
        if not new:
            return first, Guidance("none", failed="an overview was wanted, but the model wrote no query")
        for left in range(steps - 2, -1, -1):
            searched = new if lists else (self._question, *new)
            lists += map(_labelled, await search(searched, True), searched)
            asked += new
            decisions.append(GuidedStep((), new))
            again = (
                await self.ask([hit for hit, _ in in_turn(lists)], "; ".join(asked[1:]), last=False)
                if left
                else None
            )
            new = (
                ()
                if again is None
                else _distinct(each for each in again.queries if each not in asked)[:QUERIES]
            )
            if not new:
                break
        return in_turn(lists), Guidance("overview", steps=tuple(decisions), failed=self.failed)

    async def choose(
        self, answer: GuideSchema, first: Found, search: Search, steps: int
    ) -> tuple[Found, Guidance]:
        """The chosen hits, then all others; searches for what is missing and chooses again."""
        pool = {hit.id: (hit, trace) for hit, trace in first}
        led, decisions = self._chosen(answer), []
        query = answer.missing
        decisions.append(GuidedStep(led, (query,) if query else ()))
        for left in range(steps - 2, -1, -1):
            if not query:
                break
            (hits_of_query,) = await search([query], False)
            new = [each for each in _labelled(hits_of_query, query) if each[0].id not in led]
            found = {hit.id: (hit, trace) for hit, trace in new}
            pool = found | {identity: each for identity, each in pool.items() if identity not in found}
            shown = [*(pool[each][0] for each in led), *(hit for hit, _ in new)]
            again = await self.ask(shown, query, last=not left, led=led)
            if again is None:
                break
            led, query = self._chosen(again) or led, again.missing
            decisions.append(GuidedStep(led, (query,) if query else ()))
        if not led:
            return first, Guidance(
                "none", steps=tuple(decisions), failed=self.failed or "the model chose nothing"
            )
        rest = [each for identity, each in pool.items() if identity not in led]
        hits = [*(pool[identity] for identity in led), *rest]
        return hits, Guidance("choice", len(led), tuple(decisions), self.failed)


def _about(hit: Hit) -> str:
    """A line of the title, the source and the date of a passage's document, of those that are known."""
    if hit.kind != "chunk":
        return ""
    found = []
    for names, longest in _ABOUT:
        values = (hit.metadata.get(name) for name in names)
        value = next((str(each) for each in values if each and isinstance(each, str | int)), "")
        value = hit.date if hit.date and "date" in names else value
        found.append(_TIME.sub("", " ".join(value.split()))[:longest])
    title, *others = found
    rest = ", ".join(each for each in others if each)
    return f"{title} ({rest})" if title and rest else title or rest


def _lines(hits: Sequence[Hit], about: Mapping[str, str]) -> dict[str, str]:
    """The first line of each hit: about its document, or which earlier one is of the same document."""
    numbers: dict[str, int] = {}
    lines = {}
    for number, hit in enumerate(hits, 1):
        document = hit.documents[0] if hit.kind == "chunk" else hit.id
        first = numbers.setdefault(document, number)
        lines[hit.id] = about[hit.id] if first == number else f"(same document as [{first}])"
    return lines


def _untitled(hit: Hit, about: str) -> str:
    """The text of a hit without the title that stands in the line above it."""
    title, begin = title_line(hit.text)
    return hit.text[begin:].lstrip() if title and about.startswith(title) else hit.text


def _labelled(hits: Found, query: str) -> Found:
    return [(hit, {**trace, "query": query}) for hit, trace in hits]


def _distinct(queries: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(query for each in queries if (query := each.strip()[:LONGEST_QUERY])))

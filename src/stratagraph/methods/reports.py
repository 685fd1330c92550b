"""Reports on communities: a title and a summary for each group of texts, or also findings.

By the model where there is one; else of the texts' own sentences. A group whose texts are no longer than a
summary may be is not written about: its texts are its report (`GroupBuilder.nodes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stratagraph.ingest.summarize import (
    MEMBER_TOKENS,
    MODEL,
    Group,
    Summary,
    answered,
    bounded,
    first_words,
    told_once,
    words_for,
)
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.models.task import block
from stratagraph.text import CountTokens
from stratagraph.text.packing import numbered as with_number
from stratagraph.text.sentences import clip
from stratagraph.text.statements import whole_statements

ReportForm = Literal["short", "findings"]
"""`short`: a title and a summary. `findings`: also five to ten findings with the members that state them."""
_PROMPTS = {
    "short": load_prompt("stratagraph.methods", "report"),
    "findings": load_prompt("stratagraph.methods", "findings"),
}
MOST_FINDINGS = 10
USUAL_FINDINGS = 7
FINDING_WORDS = 25
"""Words that the prompt grants to a finding."""
_LONGEST_TITLE = 200
_WHOLE = re.compile(r"\d{1,6}")
_OPEN, _CLOSE = "<member>\n", "\n</member>"


def numbers_in(given: object) -> list[int]:
    """Whole numbers as models write them: `2`, `"2, 5"`, `["[2]"]`."""
    return [int(number) for number in _WHOLE.findall(str(given))]


class ReportSchema(BaseModel):
    """What the model is asked for."""

    model_config = ConfigDict(str_strip_whitespace=True)

    title: str = Field(min_length=1, description="A short name for the group, with its most telling names")
    summary: str = Field(min_length=1, description="What the members say, in plain sentences")


class FindingSchema(BaseModel):
    """A finding, and the numbers of the members that support it."""

    model_config = ConfigDict(str_strip_whitespace=True)

    text: str = Field(default="", description="One finding, in one or two sentences")
    members: Annotated[list[int], BeforeValidator(numbers_in)] = Field(
        default_factory=list, description="Numbers of the members that say it"
    )


class FindingsSchema(ReportSchema):
    """What the model is asked for in the longer form."""

    findings: list[FindingSchema] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The report on a community. `by` is `MODEL`, `EXTRACTIVE` or `FAILED` of `summarize`.

    `findings` are pairs of a text and the ids of the members that support it.
    """

    title: str
    summary: str
    by: str
    findings: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """What is embedded, shown and cited: `title: summary`, and a line for each finding."""
        head = f"{self.title}: {self.summary}" if self.summary else self.title
        return "\n".join([head, *(text for text, _ in self.findings)])

    @property
    def extra(self) -> dict[str, Any]:
        """Values that a node stores beside the text."""
        extra: dict[str, Any] = {"title": self.title, "by": self.by}
        if self.findings:
            extra["findings"] = [{"text": text, "members": list(ids)} for text, ids in self.findings]
        return extra


async def write_reports(
    groups: Sequence[Group],
    gate: Gate,
    *,
    max_tokens: int,
    form: ReportForm,
    context_tokens: int = MEMBER_TOKENS,
) -> list[WrittenReport]:
    """One report per group, in order.

    Parameters
    ----------
    groups
        `item` is the title of a report that no model wrote: the names of the most connected members. `texts`
        are the members' texts, most connected first; the prompt leaves out the last ones if they do not fit.
    gate
        Without a model each report consists of the most central sentences (`extractive_summary`). So does
        one for which the model fails; the failure is in the gate's list.
    max_tokens
        Target length of the summary of a short report. Groups of many texts get more (`words_for`); a summary
        of more than twice its length is cut. Above findings a summary has a third of it.
    form
        See `ReportForm`.
    context_tokens
        Tokens of the texts of one group that a prompt shows, at most.
    """
    long, count = form == "findings", gate.count_tokens
    length = max_tokens // 3 + USUAL_FINDINGS * 2 * FINDING_WORDS if long else max_tokens
    task: Task[Any] = Task(
        name=_PROMPTS[form].name,
        prompt=_PROMPTS[form],
        parse=json_as(FindingsSchema if long else ReportSchema),
        placeholder=_placeholder,
        schema=FindingsSchema if long else ReportSchema,
        expected_output_tokens=length + 30,
    )
    bounds = {"findings": str(MOST_FINDINGS), "each": str(FINDING_WORDS)} if long else {}
    items, words = [], [0] * len(groups)
    for place, group in enumerate(groups if gate.has_llm else ()):
        members, shown = joined_members(group.texts, context_tokens, count, numbered=long)
        words[place] = words_for(max_tokens // 3, 0) if long else words_for(max_tokens, shown)
        values = {"members": members, "words": str(words[place]), **bounds}
        items.append(CallItem(values, group.item, group.sources))
    answers = await answered(task, items, [group.texts for group in groups], max_tokens, gate)
    return [
        WrittenReport(group.item, answer.text.removeprefix(f"{group.item}: "), answer.by)
        if isinstance(answer, Summary)
        else _written(answer, group, most, gate)
        for group, answer, most in zip(groups, answers, words, strict=True)
    ]


def _written(answer: ReportSchema, group: Group, words: int, gate: Gate) -> WrittenReport:
    findings = []
    for each in answer.findings[:MOST_FINDINGS] if isinstance(answer, FindingsSchema) else ():
        named = [number - 1 for number in each.members if 0 < number <= len(group.texts)]
        ids = tuple(dict.fromkeys(chain.from_iterable(group.members[place] for place in named)))
        if each.text:
            findings.append((bounded(each.text, FINDING_WORDS, gate.count_tokens), ids))
    summary = bounded(answer.summary, words, gate.count_tokens)
    return WrittenReport(answer.title[:_LONGEST_TITLE], summary, MODEL, tuple(findings))


def joined_members(
    texts: Sequence[str], max_tokens: int, count_tokens: CountTokens, *, numbered: bool = False
) -> tuple[str, int]:
    """Texts as `<member>` elements, in order, until the tokens are spent, and how many there are.

    Statements of earlier texts are not repeated (`told_once`), and a text without other statements is left
    out. A text takes at most a quarter of the tokens. It is cut where a sentence ends, and left out if not
    even its first sentence fits; if no text is left, the first one is cut at a word. With `numbered`, each
    begins with its number among all texts, from 1, and a text without other statements is shortened to its
    name.
    """
    parts: list[str] = []
    left, most = max_tokens, max(1, max_tokens // 4)
    for number, (text, new) in enumerate(zip(texts, told_once(texts), strict=True), 1):
        if left < 1:
            break
        if numbered and not new:
            new = text.partition(": ")[0]
        shown = whole_statements(new, min(left, most), count_tokens)
        if shown:
            parts.append(block("member", with_number(number, shown) if numbered else shown))
            left -= count_tokens(parts[-1])
    if not parts and texts:
        parts.append(block("member", clip(texts[0], most, count_tokens)))
    return "\n".join(parts), len(parts)


def _placeholder(values: Mapping[str, str]) -> ReportSchema:
    """The answer that an estimate assumes: as many words of the members as the prompt allows.

    With findings, the first words of each member, of no more members than usual.
    """
    text = values["members"].replace(_OPEN, "").replace(_CLOSE, "")
    title, summary = first_words(text, 6) or "title", first_words(text, int(values["words"])) or "summary"
    if "findings" not in values:
        return ReportSchema(title=title, summary=summary)
    members = values["members"].removeprefix(_OPEN).removesuffix(_CLOSE).split(f"{_CLOSE}\n{_OPEN}")
    findings = [
        FindingSchema(text=first_words(text, FINDING_WORDS), members=[number])
        for number, text in enumerate(members[:USUAL_FINDINGS], 1)
    ]
    return FindingsSchema(title=title, summary=summary, findings=findings)

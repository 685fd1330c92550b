"""Reports on communities: a title, a summary and a rating with its reason, for each group of texts.

By the model where there is one; else from the texts themselves, word for word. HiRAG and ArchRAG ask for
the same thing in their own words, so each brings its prompt.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stratarag.models.gate import CallItem, Gate, Prompt, Task
from stratarag.models.structured import json_as
from stratarag.models.task import block
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED, MEMBER_TOKENS, MODEL, Group, extractive_summary
from stratarag.records import Node
from stratarag.results import CountTokens, clip

MOST_RATING = 10.0
_HALF = 10  # passages behind a group that an extractive report rates in the middle of the scale
_REASON_WORDS = 15  # of a rating, as estimates expect it
_LONGEST_TITLE = 200
_OPEN, _CLOSE = "<member>\n", "\n</member>"


class ReportSchema(BaseModel):
    """What the model is asked for. A rating that it leaves out (-1) is computed as without a model."""

    model_config = ConfigDict(str_strip_whitespace=True)

    title: str = Field(min_length=1, description="A short name for the group, with its most telling names")
    summary: str = Field(min_length=1, description="What the members say, in plain sentences")
    rating: float = Field(default=-1.0, description="Importance of the group, from 0 to 10")
    reason: str = Field(default="", description="One sentence on why it has that rating")


@dataclass(frozen=True, slots=True)
class CommunityReport:
    """What is said of a community, and by whom (`MODEL`, `EXTRACTIVE` or `FAILED` of `summarize`).

    `rating` is from 0 to 10; `reason` says why.
    """

    title: str
    summary: str
    rating: float
    reason: str
    by: str

    @property
    def text(self) -> str:
        """What is embedded, shown and cited: `title: summary`."""
        return f"{self.title}: {self.summary}" if self.summary else self.title

    @property
    def extra(self) -> dict[str, Any]:
        """What a node keeps of it beside the text."""
        return {"title": self.title, "rating": self.rating, "reason": self.reason, "by": self.by}


def carried(node: Node, passages: int) -> dict[str, Any]:
    """What a node keeps of a report that is taken over from this one, now that so many passages support it.

    A rating by support is counted anew; one that a model gave stays.
    """
    kept = {key: node.extra[key] for key in ("title", "rating", "reason", "by")}
    if (kept["rating"], kept["reason"]) == support(len(node.sources)):
        kept["rating"], kept["reason"] = support(passages)
    return kept


async def write_reports(
    groups: Sequence[Group], gate: Gate, *, prompt: Prompt, max_tokens: int
) -> list[CommunityReport]:
    """One report per group, in order.

    Parameters
    ----------
    groups
        `item` is what a report is called where no model names it: the names of the most connected members.
        `texts` are the members' texts, most connected first; what does not fit the prompt any more
        (`MEMBER_TOKENS` together) is left out from the end.
    gate
        Without a model each report is extractive: the most central sentences (`summarize.extract`), rated by
        how many passages s stand behind the group, 10 * s / (s + 10). So is that of a group for which the
        model fails; the failure is in the gate's list.
    prompt
        Is given `members`, the texts one after the other, each in a `<member>` element, and `words`, the
        length that a summary aims at. It asks for JSON of `ReportSchema`.
    max_tokens
        Length of a summary that is aimed at; twice that is cut.
    """
    held = list(groups)
    if not gate.has_llm:
        return await asyncio.to_thread(_extractive, held, max_tokens, gate.count_tokens)
    answers = await gate.map(report_task(prompt, max_tokens), list(_items(held, max_tokens, gate)))
    return [
        extractive_report(group, max_tokens, gate.count_tokens, FAILED)
        if answer is None
        else _written(answer, group, max_tokens, gate.count_tokens)
        for group, answer in zip(held, answers, strict=True)
    ]


def report_task(prompt: Prompt, max_tokens: int) -> Task[ReportSchema]:
    """The model call that writes one report with a summary of about `max_tokens`."""
    return Task(
        name=prompt.name,
        prompt=prompt,
        parse=json_as(ReportSchema),
        placeholder=lambda values: _placeholder(values, max_tokens),
        schema=ReportSchema,
        expected_output_tokens=max_tokens + 60,
    )


def extractive_report(
    group: Group, max_tokens: int, count_tokens: CountTokens, by: str = EXTRACTIVE
) -> CommunityReport:
    """A report from the sentences of the members alone."""
    rating, reason = support(len(group.sources))
    return CommunityReport(
        group.item, extractive_summary(group.texts, max_tokens, count_tokens), rating, reason, by
    )


def support_rating(passages: int) -> float:
    """A rating by support: 10 * s / (s + 10) for s passages, with one decimal."""
    return round(MOST_RATING * passages / (passages + _HALF), 1)


def support(passages: int) -> tuple[float, str]:
    """A rating by support and its reason."""
    return support_rating(passages), f"{passages} passages support it"


def joined_members(texts: Sequence[str], max_tokens: int, count_tokens: CountTokens) -> str:
    """Texts as `<member>` elements, in order, until the tokens are spent; none takes more than a quarter."""
    parts: list[str] = []
    left = max_tokens
    for text in texts:
        shown = clip(text, min(left, max(1, max_tokens // 4)), count_tokens)
        if not shown:
            break
        parts.append(block("member", shown))
        left -= count_tokens(parts[-1])
        if left < 1:
            break
    return "\n".join(parts)


def _extractive(groups: Sequence[Group], max_tokens: int, count_tokens: CountTokens) -> list[CommunityReport]:
    return [extractive_report(group, max_tokens, count_tokens) for group in groups]


def _items(groups: Sequence[Group], max_tokens: int, gate: Gate) -> Iterator[CallItem]:
    words = str(max(10, max_tokens * 3 // 4))
    for group in groups:
        members = joined_members(group.texts, MEMBER_TOKENS, gate.count_tokens)
        yield CallItem({"members": members, "words": words}, group.item, group.sources)


def _written(
    answer: ReportSchema, group: Group, max_tokens: int, count_tokens: CountTokens
) -> CommunityReport:
    rating, reason = answer.rating, answer.reason
    if not math.isfinite(rating) or rating < 0:
        rating, reason = support(len(group.sources))
    return CommunityReport(
        title=answer.title[:_LONGEST_TITLE],
        summary=clip(answer.summary, 2 * max_tokens, count_tokens),
        rating=min(rating, MOST_RATING),
        reason=clip(reason, max_tokens, count_tokens) if reason else "",
        by=MODEL,
    )


def _placeholder(values: Mapping[str, str], max_tokens: int) -> ReportSchema:
    """What an estimate takes a model to say: as many words of the members as were asked for."""
    words = values["members"].replace(_OPEN, "").replace(_CLOSE, "").split()
    summary = " ".join(words[: max(1, max_tokens * 3 // 4)]) or "summary"
    reason = " ".join(words[-_REASON_WORDS:])
    return ReportSchema(title=" ".join(words[:6]) or "title", summary=summary, rating=5.0, reason=reason)

"""Reports on communities: a title and a summary for each group of texts.

By the model where there is one, with the prompt of HiRAG or ArchRAG; else of the texts' own sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stratagraph.models.gate import CallItem, Gate, Prompt, Task
from stratagraph.models.structured import json_as
from stratagraph.models.task import block
from stratagraph.pipeline.summarize import (
    EXTRACTIVE,
    FAILED,
    MEMBER_TOKENS,
    MODEL,
    Group,
    extractive_summaries,
)
from stratagraph.records import Node
from stratagraph.results import CountTokens, clip

_LONGEST_TITLE = 200
_OPEN, _CLOSE = "<member>\n", "\n</member>"


class ReportSchema(BaseModel):
    """What the model is asked for."""

    model_config = ConfigDict(str_strip_whitespace=True)

    title: str = Field(min_length=1, description="A short name for the group, with its most telling names")
    summary: str = Field(min_length=1, description="What the members say, in plain sentences")


@dataclass(frozen=True, slots=True)
class CommunityReport:
    """What is said of a community, and by whom (`MODEL`, `EXTRACTIVE` or `FAILED` of `summarize`)."""

    title: str
    summary: str
    by: str

    @property
    def text(self) -> str:
        """What is embedded, shown and cited: `title: summary`."""
        return f"{self.title}: {self.summary}" if self.summary else self.title

    @property
    def extra(self) -> dict[str, Any]:
        """What a node keeps of it beside the text."""
        return {"title": self.title, "by": self.by}


def carried(node: Node) -> dict[str, Any]:
    """What a node keeps of its report when it is taken over."""
    return {key: node.extra[key] for key in ("title", "by")}


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
        Without a model each report is extractive: the most central sentences (`extractive_summary`). So is
        that of a group for which the model fails; the failure is in the gate's list.
    prompt
        Is given `members`, the texts one after the other, each in a `<member>` element, and `words`, the
        length that a summary aims at. It asks for JSON of `ReportSchema`.
    max_tokens
        Length of a summary that is aimed at; twice that is cut.
    """
    held = list(groups)
    if not gate.has_llm:
        return await _extractive(held, max_tokens, gate, EXTRACTIVE)
    answers = await gate.map(report_task(prompt, max_tokens), list(_items(held, max_tokens, gate)))
    failed = [group for group, answer in zip(held, answers, strict=True) if answer is None]
    extractive = iter(await _extractive(failed, max_tokens, gate, FAILED))
    return [
        next(extractive)
        if answer is None
        else CommunityReport(
            answer.title[:_LONGEST_TITLE],
            clip(answer.summary, 2 * max_tokens, gate.count_tokens),
            MODEL,
        )
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
        expected_output_tokens=max_tokens + 30,
    )


async def _extractive(groups: Sequence[Group], max_tokens: int, gate: Gate, by: str) -> list[CommunityReport]:
    texts = await extractive_summaries((group.texts for group in groups), max_tokens, gate)
    return [CommunityReport(group.item, text, by) for group, text in zip(groups, texts, strict=True)]


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


def _items(groups: Sequence[Group], max_tokens: int, gate: Gate) -> Iterator[CallItem]:
    words = str(max(10, max_tokens * 3 // 4))
    for group in groups:
        members = joined_members(group.texts, MEMBER_TOKENS, gate.count_tokens)
        yield CallItem({"members": members, "words": words}, group.item, group.sources)


def _placeholder(values: Mapping[str, str], max_tokens: int) -> ReportSchema:
    """What an estimate takes a model to say: as many words of the members as were asked for."""
    words = values["members"].replace(_OPEN, "").replace(_CLOSE, "").split()
    summary = " ".join(words[: max(1, max_tokens * 3 // 4)]) or "summary"
    return ReportSchema(title=" ".join(words[:6]) or "title", summary=summary)

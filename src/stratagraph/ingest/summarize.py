"""Summaries of groups of texts: by the model where there is one, else from the texts' own sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.headings import is_byline, statements
from stratagraph.models.gate import CallItem, Gate, Prompt, Task
from stratagraph.models.hashing import DIMENSION, HashingEmbedder
from stratagraph.models.structured import plain_text
from stratagraph.models.task import block
from stratagraph.text import CountTokens
from stratagraph.text.sentences import clip, without_names
from stratagraph.text.statements import statements as divide
from stratagraph.text.statements import whole_statements

T = TypeVar("T")
MODEL, EXTRACTIVE, FAILED = "model", "extractive", "failed"
"""Who made a text, as it is kept in `extra["by"]`: `FAILED` is extractive too, since the model failed."""

MEMBER_TOKENS = 8000
"""Bound on what the members of one group may take of a prompt, shared among them."""
WORDS_EACH = 8
"""Words that a summary may take for each text that it is made of, if that is more than it may take anyway."""
REPEAT = 0.75
"""Cosine similarity from which a sentence is held to repeat one that was chosen."""
_BEFORE_ADDED = re.compile(r"\s+(?=\[[^\[\]\n]+:\] )")  # as `text.sentences.with_added` begins a sentence
_CANDIDATES = 400
_UNIT = 400  # characters of a unit, which may be a few short sentences
_LONG = 2000  # characters; of a longer text only its share is split into sentences
_FEW = 4  # sentences; of a text with a smaller share, only its share is split
_AT_ONCE = 32  # groups: some 10 ms of work


@dataclass(frozen=True, slots=True)
class Group:
    """The input of one summary.

    `item` names it. `sources` are ids of the chunks below it, `members` the ids of the members that each text
    is about. `ranked` are the texts in the order in which a prompt shows them, if that is another.
    """

    item: str
    texts: Sequence[str]
    sources: Sequence[str]
    members: Sequence[Sequence[str]] = ()
    ranked: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary and who made it: `MODEL`, `EXTRACTIVE`, or `FAILED` if the model should have and failed."""

    text: str
    by: str

    @property
    def extra(self) -> dict[str, Any]:
        """What a node keeps of it beside the text."""
        return {"by": self.by}


def first_words(text: str, most: int) -> str:
    """The first words of a text: what an estimate takes a model to answer."""
    return " ".join(text.split()[:most])


def words_for(max_tokens: int, texts: int) -> int:
    """The words that a prompt asks for: about `max_tokens`, and more if a summary is made of many texts."""
    return max(10, max_tokens * 3 // 4, WORDS_EACH * texts)


def bounded(answer: str, words: int, count_tokens: CountTokens) -> str:
    """A model's answer, cut after a sentence at twice the length that was asked for."""
    most = 8 * words // 3  # a word is some 4/3 of a token
    return whole_statements(answer, most, count_tokens) or clip(answer, most, count_tokens)


def fitted(texts: Sequence[str], tokens: int, count_tokens: CountTokens) -> list[str]:
    """Texts cut to fit a number of tokens together: long texts share what short ones leave over.

    A text is cut where a sentence ends, and left out if not even its first sentence fits. If no text is left,
    the first one is cut at a word.
    """
    costs = [count_tokens(text) for text in texts]
    limit = even_limit(costs, tokens)
    cut = [
        text if cost <= limit else whole_statements(text, limit, count_tokens)
        for text, cost in zip(texts, costs, strict=True)
    ]
    if texts and not any(cut):
        cut[0] = clip(texts[0], max(tokens, 0), count_tokens)
    return [text for text in cut if text]


def even_limit(costs: Sequence[int], total: int) -> int:
    """The largest bound on each cost with which all costs together are at most `total`."""
    left, limit = max(total, 0), 0
    for place, cost in enumerate(sorted(costs)):
        limit = left // (len(costs) - place)
        if cost > limit:
            return limit
        left -= cost
    return max(costs, default=0)


def told_once(texts: Sequence[str]) -> list[str]:
    """The part of each text that no earlier text says; may be empty.

    An entity's text is its name and statements ("Ada: She sold the mill."), a relation's its two names and
    statements. In the short form of extraction a statement is a sentence of a passage, which all the entities
    that it names repeat: more than half of a community's texts is repetition. Names that were added to a
    sentence are left out if they are the text's own.
    """
    sentences: set[str] = set()
    shortened = []
    for text in texts:
        parts = _labelled(text)
        new = [(label, statement) for label, statement in parts if statement not in sentences]
        sentences.update(statement for _, statement in parts)
        label = parts[0][0] if new and not new[0][0] else ""
        shown = text if len(new) == len(parts) else label + " ".join(own + sentence for own, sentence in new)
        name = text.partition(": ")[0]
        shortened.append(without_names(shown, {name, *name.split(" - ")}))
    return shortened


def told_within(texts: Sequence[str], tokens: int, count_tokens: CountTokens) -> str:
    """All that some texts say, each statement once, on lines; empty if that takes more than `tokens`.

    A summary of so little, written by a model, would not be shorter.
    """
    text = "\n".join(filter(None, told_once(texts)))
    return text if count_tokens(text) <= tokens else ""


def _labelled(text: str) -> list[tuple[str, str]]:
    """The statements of a node's text, each with the label that stands before it, "Ada: ", or none."""
    name = text.partition(": ")[0]
    labels = [f"{name}: ", f"{' - '.join(reversed(name.split(' - ')))}: "]  # of a relation's other direction
    statements = []
    for line in text.splitlines():
        for start, end in ((each.start, each.end) for each in divide(line)):
            label = next((each for each in labels if line.startswith(each, start, end)), "")
            first, *rest = _BEFORE_ADDED.split(line[start + len(label) : end])
            statements += [(label, first), *(("", statement) for statement in rest)]
    return statements


async def summarize(
    groups: Sequence[Group],
    gate: Gate,
    *,
    prompt: Prompt,
    max_tokens: int,
    item: Callable[[Group], CallItem] | None = None,
) -> list[Summary]:
    """One summary per group, in order.

    Extractive without a model (`extractive_summary`), and where the model fails; the failure is in the gate's
    list. `item` gives what the prompt needs, if that is other than `passages` and `words`.
    """
    task: Task[str] = Task(
        name=prompt.name,
        prompt=prompt,
        parse=plain_text,
        expected_output_tokens=max_tokens,
        placeholder=lambda values: first_words(values["passages"], int(values["words"])) or "summary",
    )

    def of_passages(group: Group) -> CallItem:
        shown = fitted(group.texts, MEMBER_TOKENS, gate.count_tokens)
        passages = "\n\n".join(block("passage", text) for text in shown)
        values = {"passages": passages, "words": str(words_for(max_tokens, len(shown)))}
        return CallItem(values=values, item=group.item, sources=group.sources)

    texts = [group.texts for group in groups]
    answers = await answered(task, map(item or of_passages, groups), texts, max_tokens, gate)
    return [
        Summary(answer.text or group.item, answer.by)
        if isinstance(answer, Summary)
        else Summary(bounded(answer, words_for(max_tokens, len(group.texts)), gate.count_tokens), MODEL)
        for group, answer in zip(groups, answers, strict=True)
    ]


async def answered(
    task: Task[T], items: Iterable[CallItem], texts: Sequence[Sequence[str]], max_tokens: int, gate: Gate
) -> list[T | Summary]:
    """The model's answer to each item; where there is no model, or it fails, a summary of the item's texts.

    Failures are in the gate's list. Without a model, `items` are not iterated over.
    """
    answers: list[T | None] = [None] * len(texts)
    if gate.has_llm and texts:
        answers = await gate.map(task, list(items))
    by = FAILED if gate.has_llm else EXTRACTIVE
    without = [own for own, answer in zip(texts, answers, strict=True) if answer is None]
    extracts = iter(await extractive_summaries(without, max_tokens, gate))
    return [Summary(next(extracts), by) if answer is None else answer for answer in answers]


async def extractive_summaries(groups: Iterable[Sequence[str]], max_tokens: int, gate: Gate) -> list[str]:
    """`extractive_summary` of each group of texts, in order, by the gate's workers."""
    function = partial(_summaries, max_tokens=max_tokens, count_tokens=gate.count_tokens)
    return await gate.compute(function, map(list, groups), batch=_AT_ONCE)


def _summaries(groups: list[list[str]], *, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    return [extractive_summary(texts, max_tokens, count_tokens) for texts in groups]


def extractive_summary(texts: Sequence[str], max_tokens: int, count_tokens: CountTokens) -> str:
    """The most central sentences of some texts, in their order, without repeats, within `max_tokens`.

    Centrality is the cosine of a sentence's vector with the sum of all (degree centrality of LexRank without
    its n x n matrix). Vectors are of hashed words, since the index's embedder may be paid for. A sentence
    whose similarity to a chosen one reaches `REPEAT` is left out. If no sentence fits, the most central one
    is cut.
    """
    candidates = _sentences(texts)
    if not candidates:
        return ""
    starts, places, values = HashingEmbedder().sparse(candidates)
    rows = np.repeat(np.arange(len(candidates)), np.diff(starts))

    def similarities(vector: NDArray[Any]) -> NDArray[np.float64]:
        # By `bincount`: a sparse matrix of scipy takes twice as long for so few sentences.
        return np.bincount(rows, values * vector[places], len(candidates)).astype(np.float64, copy=False)

    centrality = similarities(np.bincount(places, values, DIMENSION))
    alike = np.zeros(len(candidates))  # to the most similar of the chosen
    chosen: list[int] = []
    spent = 0
    for index in np.argsort(-centrality, kind="stable").tolist():
        words = candidates[index].count(" ") + 1  # no more than tokens, and counted faster
        if alike[index] >= REPEAT or spent + words + 1 > max_tokens:
            continue
        cost = count_tokens(candidates[index]) + 1
        if spent + cost > max_tokens:
            continue
        chosen.append(index)
        spent += cost
        own = slice(starts[index], starts[index + 1])
        alike = np.maximum(alike, similarities(np.bincount(places[own], values[own], DIMENSION)))
    if not chosen:
        return clip(candidates[int(np.argmax(centrality))], max_tokens, count_tokens)
    return "\n".join(candidates[index] for index in sorted(chosen))


def _sentences(texts: Sequence[str]) -> list[str]:
    """Distinct sentences in order, no titles or bylines; of long groups an even share of each text."""
    statements = [
        text for text in texts if not (text.endswith(".") and is_byline(text, 0, len(text)))
    ] or texts
    share = max(1, _CANDIDATES // max(1, len(statements)))
    sentences = chain.from_iterable(
        _split(text, share if len(text) > _LONG or share < _FEW else None)[:share] for text in statements
    )
    return list(dict.fromkeys(sentences))


def _split(text: str, most: int | None = None) -> tuple[str, ...]:
    """The sentences of a text; those of one unit with names added to it stay together, for they need them."""
    if len(text) <= _UNIT and text[:1] == "[" and len(_BEFORE_ADDED.split(f" {text}")) == 2:
        return (" ".join(text.split()),)
    return tuple(filter(None, (each.line(text) for each in statements(text, most=most))))

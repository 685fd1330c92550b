"""A question before it is searched for: made to stand alone, and its names found by the model.

With a model, one call rewrites a question of a conversation. Without one, or if the call fails, a question
that points back (`search.followups`) is followed in brackets by the names of the turn before, or by the last
question itself. Any other question is left as it is.
"""

from __future__ import annotations

import asyncio
import reprlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import BaseModel, Field, field_validator

from stratagraph.errors import BudgetExceeded, CallFailed, described
from stratagraph.ingest.extraction.by_rules import proper_names, question_entities
from stratagraph.ingest.extraction.parsing import flat, read_name
from stratagraph.ingest.names.spelling import canonical
from stratagraph.models.gate import Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.search.followups import points_back
from stratagraph.text.sentences import clip
from stratagraph.types.question import ROLES, Turn
from stratagraph.types.results import Standalone

HISTORY_TOKENS = 1200
"""Tokens of the last turns that a call sees, at most."""
TURN_TOKENS = 300
"""Tokens of one turn that it sees, at most; the rest is cut."""
LONGEST = 2000
"""Characters of a question that a call may rewrite, and of what it writes; a longer one stands alone."""
CARRIED = 3
"""Names of a turn that are carried over at most."""


class StandaloneSchema(BaseModel):
    """What the model answers."""

    question: str

    @field_validator("question")
    @classmethod
    def _said(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("the question is blank")
        return question.strip()[:LONGEST]


STANDALONE = Task(
    name="standalone",
    prompt=load_prompt("stratagraph.search", "standalone"),
    parse=json_as(StandaloneSchema),
    schema=StandaloneSchema,
    expected_output_tokens=30,
    placeholder=lambda values: StandaloneSchema(question=values["question"]),
)


def checked_history(history: object) -> tuple[Turn, ...]:
    """The turns of a conversation, without blank ones.

    Raises
    ------
    TypeError, ValueError
        If this is no list of pairs, or a pair has another role than `ROLES` or no text; it is named.
    """
    if isinstance(history, str | bytes | Mapping) or not isinstance(history, Iterable):
        raise TypeError(f"history must be a list of pairs (role, text), not {reprlib.repr(history)}")
    turns: list[Turn] = []
    for place, pair in enumerate(history):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError(
                f"history[{place}] must be a pair (role, text), as ('user', 'Who built it?'), "
                f"not {reprlib.repr(pair)}"
            )
        role, text = pair
        if role not in ROLES:
            raise ValueError(f"the role in history[{place}] must be {' or '.join(ROLES)}, not {role!r}")
        if not isinstance(text, str):
            raise TypeError(f"the text in history[{place}] must be a string, not {type(text).__name__}")
        if text.strip():
            turns.append((role, text))
    return tuple(turns)


async def standalone(
    question: str, history: Sequence[Turn], gate: Gate, known: Callable[[Sequence[str]], Sequence[str]]
) -> Standalone | None:
    """The question so that it can be understood alone; None if there is no turn before it.

    Parameters
    ----------
    question, history
        The question, and the turns before it, the oldest first. A last turn that is the question itself is
        left out.
    known
        Which of some names passages have that the question may find.
    """
    if history and history[-1][1].strip() == question.strip():
        history = history[:-1]
    turns = _last(history, gate)
    if not turns:
        return None
    failed = ""
    if gate.has_llm and len(question) <= LONGEST:
        values = {"conversation": "\n".join(f"{role}: {text}" for role, text in turns), "question": question}
        try:
            answer = await gate.call(STANDALONE, values, item=question)
            return Standalone(answer.question, question, "model")
        except (CallFailed, BudgetExceeded) as error:
            failed = described(error)
    if not points_back(question[:LONGEST]):
        return Standalone(question, question, "none", failed)
    by, subject = await asyncio.to_thread(_subject, turns, known)
    return Standalone(f"{question} ({subject})" if subject else question, question, by, failed)


def _subject(turns: Sequence[Turn], known: Callable[[Sequence[str]], Sequence[str]]) -> tuple[str, str]:
    """What a question that points back is about, and of what kind that is: `names`, `question` or `none`.

    The names of the last answer and question, at most `CARRIED` of each; without any, the last question. If
    that points back as well, it is what that one was about.
    """
    answers: list[str] = []
    asked = ""
    for role, text in reversed(turns):
        if role != "user":
            answers.append(text)
            continue
        said = [known(proper_names(each))[:CARRIED] for each in (*answers, text)]
        if names := dict.fromkeys(name for own in said for name in own):
            return "names", ", ".join(names)
        asked = asked or text
        if not points_back(text):
            return "question", text
        answers = []
    names = dict.fromkeys(name for each in answers for name in known(proper_names(each))[:CARRIED])
    return ("names", ", ".join(names)) if names else ("question" if asked else "none", asked)


def _last(history: Sequence[Turn], gate: Gate) -> tuple[Turn, ...]:
    """The last turns, each in one line, as many as fit into `HISTORY_TOKENS`; at least one."""
    turns: list[Turn] = []
    left = HISTORY_TOKENS
    for role, text in reversed(history):
        line = clip(" ".join(text[: 10 * TURN_TOKENS].split()), TURN_TOKENS, gate.count_tokens)
        left -= gate.count_tokens(line)
        if turns and left < 0:
            break
        turns.append((role, line))
    return tuple(reversed(turns))


class Decomposition(BaseModel):
    """What a question is about (paper 001, 2.5): names, key nouns and closely related terms."""

    entities: list[str] = Field(description="Names, key nouns and closely related terms")

    @field_validator("entities", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """The names in a value as strings, nested lists included; other values are left out."""
        if not isinstance(value, list):
            return value
        return [name for item in flat(value) if (name := read_name(item))]

    @property
    def names(self) -> tuple[str, ...]:
        """The entities, each once, without those that hold neither letter nor digit."""
        return tuple(dict.fromkeys(name.strip() for name in self.entities if canonical(name)))


DECOMPOSE = Task(
    name="decompose",
    prompt=load_prompt("stratagraph.search", "decompose"),
    parse=json_as(Decomposition),
    schema=Decomposition,
    expected_output_tokens=40,
    placeholder=lambda values: Decomposition(entities=[]),
)


async def decompose(question: str, gate: Gate) -> tuple[str, ...]:
    """The names in a question, by one model call.

    If the model fails for this question, rules find them, with a `RuntimeWarning`.
    """
    try:
        answer = await gate.call(DECOMPOSE, {"question": question}, item=question)
    except CallFailed as error:
        warnings.warn(
            f"the model could not name the entities of the question ({error}); "
            "the extractor of chunks named them instead",
            RuntimeWarning,
            stacklevel=2,
        )
        return question_entities(question)
    return answer.names

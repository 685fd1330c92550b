"""Questions about a corpus as a whole: its users, their tasks, and what they would ask (ArchRAG, B.1).

These questions have no gold answer; `judging.head_to_head` compares answers to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, Field

from stratagraph import _sync
from stratagraph.eval.datasets import Dataset, Question
from stratagraph.eval.measuring import json_task
from stratagraph.models.budget import Budget
from stratagraph.models.gate import CallItem, ModelGate
from stratagraph.models.named import as_chat_model
from stratagraph.text.sentences import clip
from stratagraph.text.tokens import choose
from stratagraph.types.protocols import CallCache

TYPE = "abstract"
_EXCERPTS = 40  # documents that the model is shown
_EXCERPT_TOKENS = 60


class User(BaseModel):
    """A user of the corpus, and the user's tasks."""

    user: str
    tasks: list[str] = Field(min_length=1)


class Users(BaseModel):
    """Several users."""

    users: list[User] = Field(min_length=1)


class Questions(BaseModel):
    """Questions of one user for one task."""

    questions: list[str] = Field(min_length=1)


USERS = json_task("users", Users, 800)
QUESTIONS = json_task("questions", Questions, 200)


def with_abstract_questions(
    dataset: Dataset,
    llm: Any,
    *,
    users: int = 5,
    tasks: int = 5,
    questions: int = 5,
    description: str | None = None,
    cache: CallCache | None = None,
    budget: Budget | None = None,
) -> Dataset:
    """Replace a dataset's questions by ones that need an understanding of the whole corpus.

    Parameters
    ----------
    dataset
        The dataset whose corpus the questions are about.
    llm
        Model that writes them, in one call for the users and one for each task.
    users, tasks, questions
        Number of users, of tasks for each user, and of questions for each task.
    description
        What the corpus is. None shows the model excerpts, spread evenly over the documents.
    cache, budget
        See `ModelGate`.

    Returns
    -------
    The dataset with at most `users * tasks * questions` distinct questions of type `abstract`, without gold.

    Raises
    ------
    ValueError
        If a number is below 1.
    CallFailed, TooManyFailures, ModelError, BudgetExceeded
        As the gate raises them.
    """
    if min(users, tasks, questions) < 1:
        raise ValueError(
            f"cannot think up {users} users, {tasks} tasks and {questions} questions: at least 1 each"
        )
    gate = ModelGate(as_chat_model(llm), None, cache=cache, budget=budget, count_tokens=choose())
    about = description
    if not about:
        shown = dataset.documents[:: max(1, len(dataset.documents) // _EXCERPTS)][:_EXCERPTS]
        about = "\n\n".join(clip(item.text, _EXCERPT_TOKENS, gate.count_tokens) for item in shown)
    values = {"description": about, "users": str(users), "tasks": str(tasks)}
    written = _sync.run(gate.call(USERS, values, item=dataset.name)).users[:users]
    pairs = [(user.user, task) for user in written for task in user.tasks[:tasks]]
    items = [
        CallItem(
            {"description": about, "user": user, "task": task, "questions": str(questions)},
            f"{user}: {task}",
        )
        for user, task in pairs
    ]
    answers = _sync.run(gate.map(QUESTIONS, items))
    texts = [text.strip() for each in answers if each is not None for text in each.questions[:questions]]
    distinct = [text for text in dict.fromkeys(texts) if text]
    distinct_questions = tuple(
        Question(f"abstract-{number:03}", text, type=TYPE) for number, text in enumerate(distinct, 1)
    )
    return replace(dataset, questions=distinct_questions, question_entities={}, notes={})

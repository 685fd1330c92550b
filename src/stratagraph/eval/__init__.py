"""Evaluation: whether a method beats plain vector search on a corpus, and at what cost.

>>> from stratagraph.eval import evaluate
>>> print(evaluate("demo", ["lshtree", "dense", "bm25"]))                               # doctest: +SKIP

    datasets            corpora with questions
    names               names of rows, and what is wrong with them
    harness             `evaluate`: one row after the other
    rankers, embedding  searches in an index of the run, and your own rankers: asking and scoring them
    metrics             metrics of one question, intervals of differences
    answering           answers by a model, and models as judges of them
    report              rows, and what is shown and written of them

The systems that the papers compare with, and the papers' tables, are programs in `cookbook/papers`.
"""

from __future__ import annotations

from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.datasets import Dataset, Question, load_dataset
from stratagraph.eval.harness import evaluate
from stratagraph.eval.metrics import Difference, paired_difference
from stratagraph.eval.rankers import Indexing, Passage, Ranker
from stratagraph.eval.report import Evaluation, Row

__all__ = [
    "AnswerConfig",
    "Dataset",
    "Difference",
    "Evaluation",
    "Indexing",
    "Passage",
    "Question",
    "Ranker",
    "Row",
    "evaluate",
    "load_dataset",
    "paired_difference",
]

"""Evaluation: whether a method beats plain vector search on a corpus, and at what cost.

>>> from stratagraph.eval import evaluate
>>> print(evaluate("demo", ["lshtree", "dense", "bm25"]))                               # doctest: +SKIP

    datasets, layouts           corpora with questions, in the layouts in use
    names                       names of rows, and what is wrong with them
    harness                     `evaluate`: one row after the other
    rankers, embedding          what is measured, and what the rankers of a run share
    methods                     the package's methods, through its public API
    shared_graph, baselines     the systems the package is compared with, over one extraction
    scoring, metrics            asking a ranker, metrics of one question, intervals of differences
    answering, judging          answers by a model, and models as judges of them
    abstract                    questions about a corpus as a whole
    measuring                   model calls, time and memory
    results, report             rows, and what is shown and written of them
"""

from __future__ import annotations

from stratagraph.eval.abstract import with_abstract_questions
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.datasets import Dataset, Question, load_dataset
from stratagraph.eval.harness import evaluate
from stratagraph.eval.metrics import Difference, paired_difference
from stratagraph.eval.report import Evaluation
from stratagraph.eval.results import Indexing, Row
from stratagraph.eval.workbench import Passage, Ranker

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
    "with_abstract_questions",
]

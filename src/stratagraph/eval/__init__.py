"""Evaluation: whether a method beats plain vector search on a corpus, and at what cost.

>>> from stratagraph.eval import evaluate
>>> print(evaluate("demo", ["lshtree", "dense", "bm25"]))                               # doctest: +SKIP

    datasets, layouts           corpora with questions, in the layouts in use
    metrics                     metrics of one question
    bootstrap                   whether a difference is more than noise
    rankers                     what is measured, and what the rankers of a run share
    names, checking             names of rows, and what is wrong with them
    shared_graph, baselines     the systems the package is compared with, over one extraction
    methods                     the package's methods, through its public API
    harness, scoring            asking, scoring, comparing
    answering, judging          answers by a model, and models as judges of them
    statements                  answers judged statement by statement (GraphRAG-Bench)
    measuring                   model calls, time and memory
    abstract                    questions about a corpus as a whole
    results, report             rows, and what is shown and written of them
"""

from __future__ import annotations

from stratagraph.eval.abstract import with_abstract_questions
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.bootstrap import Difference, paired_difference
from stratagraph.eval.datasets import Dataset, Question, load_dataset
from stratagraph.eval.harness import evaluate
from stratagraph.eval.rankers import Passage, Ranker
from stratagraph.eval.report import Evaluation
from stratagraph.eval.results import Indexing, Row

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

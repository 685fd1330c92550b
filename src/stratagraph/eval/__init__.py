"""Whether a method beats plain vector search on a corpus, and what it costs.

>>> from stratagraph.eval import evaluate
>>> print(evaluate("demo", ["lshtree", "dense", "bm25"]))                               # doctest: +SKIP

    datasets                    corpora with questions
    layouts, public_layouts     the layouts that are in use
    metrics, answer_metrics     one question at a time
    bootstrap                   whether a difference is more than noise
    rankers                     what is measured, and what all of a run share
    checking, lacking           what cannot be measured, told before anything runs
    shared_graph                what was extracted, as a graph that all baselines share
    baselines                   what the package is compared with
    methods                     the package's own methods, through its public API
    scoring, harness            asking, scoring, comparing
    answering                   answers by a model, and their metrics
    judging, duels, agreement   models that judge answers, and how far they agree
    bill, spending              what these would cost, and did
    abstract                    questions about a corpus as a whole
    results, report, plot       what comes out
    overview                    several corpora at once
"""

from __future__ import annotations

from stratagraph.eval.abstract import with_abstract_questions
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.bill import estimate_answers
from stratagraph.eval.bootstrap import Difference, paired_difference
from stratagraph.eval.datasets import Dataset, Question, load_dataset
from stratagraph.eval.harness import evaluate
from stratagraph.eval.overview import Fold, Overview
from stratagraph.eval.rankers import Passage, Ranker
from stratagraph.eval.results import Evaluation, Indexing, Row

__all__ = [
    "AnswerConfig",
    "Dataset",
    "Difference",
    "Evaluation",
    "Fold",
    "Indexing",
    "Overview",
    "Passage",
    "Question",
    "Ranker",
    "Row",
    "estimate_answers",
    "evaluate",
    "load_dataset",
    "paired_difference",
    "with_abstract_questions",
]

"""Models as judges: of answers, of their statements, and of pairs of answers; and how far judges agree."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from stratagraph import _sync
from stratagraph.errors import BudgetExceeded, ModelError
from stratagraph.eval.datasets import BENCH_METRICS, Question
from stratagraph.eval.measuring import json_task
from stratagraph.eval.metrics import Difference, mean, paired_difference
from stratagraph.eval.workbench import SharedEmbedder
from stratagraph.methods.reports import numbers_in
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.types.records import Failure, Usage

T = TypeVar("T")
Verdicts = Sequence[Hashable | None]


def cohen_kappa(one: Verdicts, other: Verdicts) -> float | None:
    """Cohen's kappa of two judges (Cohen 1960): 1 if they always agree, 0 if as often as by chance.

    It is 1 where both always gave the same verdict. A question where either is None does not count; it is
    None if no question has both.
    """
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    if len({verdict for pair in pairs for verdict in pair}) == 1:
        return 1.0
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(*zip(*pairs, strict=True)))


def mean_kappa(judges: Sequence[Verdicts]) -> float | None:
    """The mean of Cohen's kappa over all pairs of judges (Light 1971); None with fewer than two."""
    return mean([cohen_kappa(one, other) for one, other in combinations(judges, 2)])


def verdicts(
    gates: Sequence[Gate], task: Task[T], items: Sequence[CallItem], stage: str
) -> list[list[T | None]]:
    """The verdicts of each judge on each item; None where a verdict cannot be read.

    A judge whose calls all fail (a wrong key, a server that is gone, a budget that is spent) gives no
    verdict, and the failures are its gate's. If all judges fail, the error of the last one is raised.
    """
    by_judge: list[list[T | None]] = []
    errors: list[ModelError | BudgetExceeded] = []
    for gate in gates:
        with gate.stage(stage, len(items)):
            try:
                by_judge.append(_sync.run(gate.map(task, items, required=False)))
            except (ModelError, BudgetExceeded) as error:
                errors.append(error)
                by_judge.append([None] * len(items))
                gate.failures += [Failure(stage, item.item, str(error)) for item in items]
    if len(errors) == len(by_judge) and errors:
        raise errors[-1]
    return by_judge


class Correctness(BaseModel):
    """Whether an answer says what a gold answer says."""

    reason: str = ""
    correct: bool


class Correct(NamedTuple):
    """Verdicts on whether answers are right.

    Attributes
    ----------
    scores
        By question the share of judges that call the answer right, 0 without an answer; None without a gold
        answer or a verdict.
    agreement
        Mean of Cohen's kappa over pairs of judges; None with one judge.
    usage
        Calls and tokens of all judges.
    """

    scores: tuple[float | None, ...]
    agreement: float | None
    usage: Usage


CORRECTNESS = json_task("judge", Correctness, 60)


def judge_correctness(
    gates: Sequence[Gate], name: str, questions: Sequence[Question], answers: Sequence[str | None]
) -> Correct:
    """Judge whether answers are right, by one judge or several; see `verdicts` for judges that fail."""
    judged = [at for at, question in enumerate(questions) if question.answers and answers[at] is not None]
    items = [
        CallItem(
            {
                "question": questions[at].question,
                "gold": "\n".join(f"- {gold}" for gold in questions[at].answers),
                "answer": answers[at] or "",
            },
            questions[at].id,
        )
        for at in judged
    ]
    stage = f"judge {name}"
    by_judge = [
        [None if each is None else each.correct for each in verdicts_of_one]
        for verdicts_of_one in verdicts(gates, CORRECTNESS, items, stage)
    ]
    scores: list[float | None] = [
        0.0 if question.answers and answer is None else None
        for question, answer in zip(questions, answers, strict=True)
    ]
    for at, *correct in zip(judged, *by_judge, strict=True):
        scores[at] = mean(correct)
    usage = sum((gate.ledger.stages[stage] for gate in gates), Usage())
    return Correct(tuple(scores), mean_kappa(by_judge), usage)


CRITERIA = ("comprehensiveness", "diversity", "empowerment", "directness", "overall")
Side = Literal["first", "second", "tie"]
_POINTS: Mapping[Side, int] = {"first": 1, "tie": 0, "second": -1}


class Verdict(BaseModel):
    """Which answer is better by a criterion, explained first; a bare side has no explanation."""

    explanation: str = ""
    winner: Side

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"winner": value} if isinstance(value, str) else value


class Comparison(BaseModel):
    """Which of two answers is better, by each criterion."""

    comprehensiveness: Verdict
    diversity: Verdict
    empowerment: Verdict
    directness: Verdict
    overall: Verdict


Pair = tuple[Comparison | None, Comparison | None]
"""One judge's comparisons of a pair of answers, with ours first and with ours second."""

COMPARISON = json_task("compare", Comparison, 200)


@dataclass(frozen=True, slots=True)
class Duel:
    """How one side's answers fared by a criterion, over all questions judged.

    Parameters
    ----------
    wins, ties, losses
        Numbers of questions. A question is won if more judges prefer the answer than the other's. A judge
        prefers an answer that wins in one order and does not lose in the other.
    interval
        Bootstrap interval of `win_rate`; None for fewer than two questions.
    consistency
        Share of pairs of judgements, one in each order, that agree.
    agreement
        Mean of Cohen's kappa over pairs of judges; None with one judge.
    explanations
        By question, the explanations of all judges in both orders.
    """

    wins: int = 0
    ties: int = 0
    losses: int = 0
    interval: Difference | None = None
    consistency: float | None = None
    agreement: float | None = None
    explanations: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    @property
    def win_rate(self) -> float | None:
        """Share of wins, a tie counting half; None if nothing was judged."""
        judged = self.wins + self.ties + self.losses
        return (self.wins + self.ties / 2) / judged if judged else None


def head_to_head(
    gates: Sequence[Gate],
    questions: Sequence[str],
    ours: Sequence[str | None],
    theirs: Sequence[str | None],
    *,
    stage: str = "compare",
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Mapping[str, Duel]:
    """Compare two systems' answers question by question, in both orders, since models prefer a position.

    Pairs with a missing answer are left out, and so is a judge's part in a pair if a verdict of it cannot be
    read; that failure is among the gate's. See `verdicts` for judges that fail.

    Parameters
    ----------
    gates
        Gates of the judges.
    resamples, confidence, seed
        Settings of the intervals; see `metrics.paired_difference`.

    Returns
    -------
    How `ours` fared, by criterion.
    """
    both = [at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a is not None and b is not None]
    pairs = [(questions[at], ours[at] or "", theirs[at] or "") for at in both]
    items = [_item(question, a, b) for question, a, b in pairs]
    items += [_item(question, b, a) for question, a, b in pairs]
    judges = [
        list(zip(comparisons[: len(pairs)], comparisons[len(pairs) :], strict=True))
        for comparisons in verdicts(gates, COMPARISON, items, stage)
    ]
    duels = {}
    for criterion in CRITERIA:
        judged = [[_points(pair, criterion) for pair in judge] for judge in judges]
        outcomes = [[None if both is None else _sign(both) for both in judge] for judge in judged]
        votes = [[each for each in question if each is not None] for question in zip(*outcomes, strict=True)]
        points = [(_sign(question) + 1) / 2 for question in votes if question]
        same = [both[0] == both[1] for judge in judged for both in judge if both is not None]
        explained: list[tuple[str, ...]] = [()] * len(questions)
        for place, at in enumerate(both):
            explained[at] = tuple(text for judge in judges for text in _explanations(judge[place], criterion))
        duels[criterion] = Duel(
            points.count(1),
            points.count(0.5),
            points.count(0),
            paired_difference(
                points, [0.0] * len(points), resamples=resamples, confidence=confidence, seed=seed
            ),
            sum(same) / len(same) if same else None,
            mean_kappa(outcomes),
            tuple(explained),
        )
    return duels


def _item(question: str, first: str, second: str) -> CallItem:
    return CallItem({"question": question, "first": first, "second": second}, question)


def _points(pair: Pair, criterion: str) -> tuple[int, int] | None:
    """1, 0 or -1 in each order if ours won, tied or lost; None without both verdicts."""
    forward, backward = pair
    if forward is None or backward is None:
        return None
    return _POINTS[getattr(forward, criterion).winner], -_POINTS[getattr(backward, criterion).winner]


def _sign(points: Iterable[int]) -> int:
    total = sum(points)
    return (total > 0) - (total < 0)


def _explanations(pair: Pair, criterion: str) -> Iterator[str]:
    for order, comparison in zip(("ours first", "theirs first"), pair, strict=True):
        if comparison is not None:
            verdict: Verdict = getattr(comparison, criterion)
            yield f"({order}: {verdict.winner}) {verdict.explanation}".strip()


Scores = tuple[float | None, ...]
Numbers = Annotated[list[int], BeforeValidator(numbers_in)]
FACTS = 0.75
"""Weight of the agreement in statements within answer correctness. Similarity has the rest."""


class Statements(BaseModel):
    """What an answer claims, in single sentences."""

    statements: list[str] = Field(default_factory=list)


class Matched(BaseModel):
    """Statements of an answer that the gold answer supports, and of the gold answer that are missing."""

    supported: Numbers
    missing: Numbers


class Held(BaseModel):
    """Statements that a text says."""

    held: Numbers


STATEMENTS = json_task("statements", Statements, 150)
MATCHED = json_task("statements_matched", Matched, 30)
HELD = json_task("statements_held", Held, 20)
Texts = Mapping[int, str]
Parts = Mapping[int, Sequence[str] | None]
"""The statements of a text by question; None where they cannot be read."""


def judge_statements(
    gates: Sequence[Gate],
    embedder: SharedEmbedder,
    stage: str,
    questions: Sequence[Question],
    answers: Sequence[str | None],
    contexts: Sequence[str],
) -> tuple[dict[str, Scores], Usage]:
    """The metrics of GraphRAG-Bench that a model judges, and the calls and tokens of all judges.

    `correctness` is three quarters the F1 of the answer's statements against the gold answer's, and one
    quarter the cosine of the two texts, scaled to 0 to 1. `coverage` is the share of the gold answer's
    statements that the answer says, `faithfulness` that of the answer's statements that its context says
    (Xiang et al. 2025).

    A question has the metrics of its type (`BENCH_METRICS`). They are 0 without an answer, and None where no
    verdict can be read. Several judges get the statements that the first of them finds, and their scores are
    averaged; see `verdicts` for judges that fail.
    """
    asked: dict[int, Question] = {}
    written: dict[int, str] = {}
    for at, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        if question.type in BENCH_METRICS and question.answers and answer is not None:
            asked[at], written[at] = question, answer
    gold = {at: question.answers[0] for at, question in asked.items()}
    judges = _StatementJudges(gates, stage, asked)
    own, expected = judges.statements(written), judges.statements(gold)
    by_metric = {
        "correctness": judges.agreement(own, expected),
        "coverage": judges.shares("coverage", expected, written),
        "faithfulness": judges.shares("faithfulness", own, dict(enumerate(contexts))),
    }
    if asked:
        ones, others = (embedder.documents([texts[at] for at in asked]) for texts in (written, gold))
        likeness = dict(zip(asked, ((ones * others).sum(axis=1) + 1) / 2, strict=True))
        by_metric["correctness"] = {
            at: None if f1 is None else FACTS * f1 + (1 - FACTS) * float(likeness[at])
            for at, f1 in by_metric["correctness"].items()
        }
    scores = {
        metric: tuple(
            None
            if not question.answers or metric not in BENCH_METRICS.get(question.type, ())
            else 0.0
            if answers[at] is None
            else by_question.get(at)
            for at, question in enumerate(questions)
        )
        for metric, by_question in by_metric.items()
    }
    return scores, sum((gate.ledger.stages[stage] for gate in gates), Usage())


@dataclass(frozen=True, slots=True)
class _StatementJudges:
    """What judges find in texts, statement by statement, all by the place of the question."""

    gates: Sequence[Gate]
    stage: str
    asked: Mapping[int, Question]

    def statements(self, texts: Texts) -> Parts:
        """The statements of each text, by the first judge that finds any."""
        items = [
            CallItem({"question": self.asked[at].question, "answer": text}, self.asked[at].id)
            for at, text in texts.items()
        ]
        by_text = zip(*verdicts(self.gates, STATEMENTS, items, self.stage), strict=True)
        first = (next((each.statements for each in judges if each is not None), None) for judges in by_text)
        return dict(zip(texts, first, strict=True))

    def agreement(self, own: Parts, expected: Parts) -> dict[int, float | None]:
        """F1 of the answers' statements against the gold answers'."""
        f1: dict[int, float | None] = {}
        both = {}
        for at, question in self.asked.items():
            one, other = own[at], expected[at]
            if one and other:
                both[at] = (question, one, other)
            else:
                f1[at] = None if one is None or other is None else float(one == other)
        items = [
            CallItem(
                {"question": question.question, "answer": _numbered(one), "reference": _numbered(other)},
                question.id,
            )
            for question, one, other in both.values()
        ]
        judged = verdicts(self.gates, MATCHED, items, self.stage)
        for (at, (_, one, other)), *judges in zip(both.items(), *judged, strict=True):
            scores: list[float | None] = []
            for each in judges:
                if each is None:
                    scores.append(None)
                else:
                    supported, missing = _count(each.supported, one), _count(each.missing, other)
                    scores.append(2 * supported / (supported + len(one) + missing))
            f1[at] = mean(scores)
        return f1

    def shares(self, metric: str, statements: Parts, texts: Texts) -> dict[int, float | None]:
        """The share of the statements that a text says, where a question has the metric; 0 without a text."""
        wanted = {
            at: own
            for at, question in self.asked.items()
            if metric in BENCH_METRICS[question.type] and (own := statements[at])
        }
        with_text = {at: own for at, own in wanted.items() if texts[at].strip()}
        items = [
            CallItem({"text": texts[at], "statements": _numbered(own)}, self.asked[at].id)
            for at, own in with_text.items()
        ]
        judged = zip(with_text.items(), *verdicts(self.gates, HELD, items, self.stage), strict=True)
        return dict.fromkeys(wanted, 0.0) | {
            at: mean([None if each is None else _count(each.held, own) / len(own) for each in judges])
            for (at, own), *judges in judged
        }


def _count(numbers: Sequence[int], statements: Sequence[str]) -> int:
    """How many statements are numbered; numbers of none do not count."""
    return len(set(numbers) & set(range(1, len(statements) + 1)))


def _numbered(statements: Sequence[str]) -> str:
    return "\n".join(f"{number}. {statement}" for number, statement in enumerate(statements, 1))

"""GraphRAG-Bench: its layout, its metrics by type of question, and answers that its own scripts read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nltk")
pytest.importorskip("rouge_score")

from tests.eval.bench_questions import CORPUS, QUESTIONS, written
from tests.eval.replies import replies

from stratagraph.eval import AnswerConfig, Evaluation, evaluate, load_dataset
from stratagraph.testing import FakeEmbedder, ScriptedChatModel

GOLD = [each["answer"] for each in QUESTIONS]


def test_questions_come_with_their_type_source_and_evidence(tmp_path: Path) -> None:
    dataset = load_dataset(written(tmp_path))
    assert dataset == load_dataset(tmp_path, name="islands_questions"), "the folder, where it has one set"
    (document,) = dataset.documents
    assert (document.id, document.text) == ("Islands", CORPUS["context"])
    first, second, *_ = dataset.questions
    assert (first.id, first.type, first.source) == ("Islands-1", "Fact Retrieval", "Islands")
    assert (first.answers, first.supporting_ids) == (("Orrin sells honey to Sarn.",), ()), "one text: no gold"
    assert first.evidence == ("Orrin sells honey to Sarn.",)
    assert second.evidence == "Ada Loom keeps the bees of Orrin"
    assert dataset.wants_texts


def test_one_corpus_of_several_is_asked_for_by_its_name(tmp_path: Path) -> None:
    other = {"corpus_name": "Hills", "context": "Windle Hill is high."}
    path = written(tmp_path, [CORPUS, other])
    records = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([*records, {**records[0], "id": "Hills-1", "source": "Hills"}]), "utf-8")
    dataset = load_dataset(path / "Hills")
    assert dataset.name == "Hills"
    assert [document.id for document in dataset.documents] == ["Hills"]
    assert [(each.id, each.supporting_ids) for each in dataset.questions] == [("Hills-1", ())]
    with pytest.raises(ValueError, match=r"islands.json' has no corpus 'Lakes'"):
        load_dataset(path / "Lakes")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    path = written(tmp_path)
    written(tmp_path, name="hills")
    with pytest.raises(ValueError, match=r"holds 2 sets .*hills_questions.json, Questions/islands_questions"):
        load_dataset(tmp_path)
    (tmp_path / "Corpus" / "islands.json").write_text('[{"corpus_name": "Islands"}]', "utf-8")
    with pytest.raises(ValueError, match=r"islands.json\[0\]: 'context' must be a string, not None"):
        load_dataset(path)
    (tmp_path / "Questions" / "hills_questions.json").unlink()
    (tmp_path / "Corpus" / "islands.json").unlink()
    with pytest.raises(ValueError, match=r"islands.json', the corpus of .* is not there"):
        load_dataset(tmp_path)


SAID = "Orrin trades."
STATEMENTS = {SAID: ["a", "b", "c"], GOLD[0]: ["a"], GOLD[3]: ["a", "d"], GOLD[4]: ["a", "b", "e", "f"]}


def judging(prompt: str) -> str:
    """A judge who finds the statements above, and that of the answer's the first two are right."""
    if '"statements"' in prompt:
        text = prompt.rpartition("<answer>\n")[2].partition("\n</answer>")[0]
        return json.dumps({"statements": STATEMENTS.get(text, [])})
    if '"supported"' in prompt:
        assert "1. a\n2. b\n3. c" in prompt
        missing = prompt.rpartition("<reference>\n")[2].partition("\n</reference>")[0].count(". ") - 1
        return json.dumps({"supported": ["[1]", 1, 2, 9], "missing": list(range(1, missing + 1))})
    if '"held"' in prompt:
        return json.dumps({"held": [1] if "1. a\n2. b\n3. c" in prompt else [1, 2, 7]})
    return replies(prompt)


def answering(prompt: str) -> str:
    return SAID if prompt.rstrip().endswith("Answer:") else judging(prompt)


def run(tmp_path: Path, model: Any, *rows: str, **settings: Any) -> Evaluation:
    data = load_dataset(written(tmp_path))
    return evaluate(data, rows or ["dense"], llm=model, embedder=FakeEmbedder(), resamples=10, **settings)


def test_each_type_has_its_metrics(tmp_path: Path) -> None:
    (row,) = run(tmp_path, ScriptedChatModel(answering)).rows
    assert not row.error
    said, *gold = FakeEmbedder().embed_documents([SAID, *GOLD])
    alike = [(float(np.dot(said, each)) + 1) / 2 for each in gold]
    # Two of three statements are right; of the gold answers' one, two and four, none, one and three lack.
    f1 = [4 / (2 + 3 + 0), None, None, 4 / (2 + 3 + 1), 4 / (2 + 3 + 3)]
    for at in (0, 3, 4):
        assert row.scores["correctness"][at] == pytest.approx(0.75 * f1[at] + 0.25 * alike[at], abs=1e-4)
    assert row.scores["correctness"][1] == pytest.approx(0.25 * alike[1], abs=1e-4), (
        "no statement of the gold answer"
    )
    assert row.scores["coverage"] == (None, None, None, 1.0, 0.5)
    assert row.scores["faithfulness"] == (None, None, None, None, pytest.approx(1 / 3))
    assert row.scores["rouge_l"][0] == pytest.approx(2 / 7), "one word of two, and of five"


def test_without_an_answer_or_a_verdict_a_metric_is_zero_or_none(tmp_path: Path) -> None:
    def failing(prompt: str) -> str:
        if "<passages>" in prompt:
            return "" if QUESTIONS[0]["question"] in prompt else SAID
        return "?" if '"held"' in prompt else judging(prompt)

    (row,) = run(tmp_path, ScriptedChatModel(failing)).rows
    assert row.answers[0] is None
    assert row.scores["correctness"][0] == 0.0
    assert row.scores["correctness"][3]
    assert row.scores["coverage"] == row.scores["faithfulness"] == (None,) * 5
    assert {each.stage for each in row.failures} == {"answer dense", "judge statements of dense"}


def test_without_a_context_nothing_is_faithful(tmp_path: Path) -> None:
    model = ScriptedChatModel(lambda prompt: SAID if "from what you know" in prompt else judging(prompt))
    row = run(tmp_path, model, "zero_shot").row("zero_shot")
    assert row.contexts == ("",) * 5
    assert row.scores["faithfulness"] == (None, None, None, None, 0.0)
    assert row.scores["coverage"][3] == 1.0


def test_several_judges_share_the_statements_and_are_averaged(tmp_path: Path) -> None:
    def strict(prompt: str) -> str:
        return json.dumps({"held": []}) if '"held"' in prompt else judging(prompt)

    judges = [ScriptedChatModel(judging, name="kind"), ScriptedChatModel(strict, name="strict")]
    config = AnswerConfig(judge_llm=judges)
    (row,) = run(tmp_path, ScriptedChatModel(answering), answers=config).rows
    assert row.scores["coverage"] == (None, None, None, 0.5, 0.25)


def test_answers_are_written_as_the_scripts_of_the_benchmark_read_them(tmp_path: Path) -> None:
    found = run(tmp_path / "data", ScriptedChatModel(answering), "dense", "archrag?own_prompt=true")
    found.save_answers(tmp_path / "answers")
    names = sorted(path.name for path in (tmp_path / "answers").iterdir())
    assert names == ["islands_questions-archrag_own_prompt=true.json", "islands_questions-dense.json"]
    for name in names:
        answers = json.loads((tmp_path / "answers" / name).read_text("utf-8"))
        for given, record in zip(QUESTIONS, answers, strict=True):
            assert record.pop("generated_answer")
            (context,) = record.pop("context")
            assert "Orrin" in context
            assert record == {
                "id": given["id"],
                "question": given["question"],
                "source": "Islands",
                "evidence": given["evidence"],
                "question_type": given["question_type"],
                "ground_truth": given["answer"],
            }

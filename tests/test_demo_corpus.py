from __future__ import annotations

import re

import pytest

from stratagraph import demo

DOCUMENTS = {document.id: document for document in demo.documents()}
QUESTIONS = demo.questions()
FUNCTION_WORDS = {"what", "which", "that", "with", "from", "were", "have", "there", "where", "when", "whose"}


def of_type(*types):
    chosen = [question for question in QUESTIONS if question.type in types]
    return pytest.mark.parametrize("question", chosen, ids=lambda question: question.id)


def holds(document_id, question):
    return any(answer in DOCUMENTS[document_id].text for answer in question.answers)


def content_words(text):
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3} - FUNCTION_WORDS


def test_the_corpus_is_large_enough_and_its_ids_are_unique():
    assert len(DOCUMENTS) == len(demo.documents()) >= 45
    assert len({document.digest for document in DOCUMENTS.values()}) == len(DOCUMENTS)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*(-\d{4})?", identity) for identity in DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=lambda document: document.id)
def test_a_document_is_short_and_begins_with_its_title(document):
    title, body = document.text.split("\n", 1)
    assert document.metadata == {"title": title}
    assert 80 <= len(body.split()) <= 220


def test_there_are_enough_questions_of_each_type():
    types = [question.type for question in QUESTIONS]
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS) >= 25
    assert set(types) == {"one-hop", "multi-hop", "theme"}
    assert types.count("multi-hop") >= 8
    assert types.count("theme") >= 5


@of_type("one-hop", "multi-hop", "theme")
def test_gold_documents_exist(question):
    assert question.answers
    assert len(set(question.supporting_ids)) == len(question.supporting_ids)
    assert set(question.supporting_ids) <= set(DOCUMENTS)


@of_type("one-hop")
def test_a_one_hop_answer_stands_in_its_document_alone(question):
    (document_id,) = question.supporting_ids
    assert holds(document_id, question)


@of_type("multi-hop")
def test_a_multi_hop_answer_stands_in_the_last_document_only(question):
    *first, last = question.supporting_ids
    assert first
    assert holds(last, question)
    assert not any(holds(document_id, question) for document_id in first)


@of_type("multi-hop")
def test_the_last_document_of_a_multi_hop_question_does_not_share_its_words(question):
    shared = content_words(question.question) & content_words(DOCUMENTS[question.supporting_ids[-1]].text)
    assert len(shared) <= 1


@of_type("multi-hop")
def test_the_documents_of_a_multi_hop_question_share_a_name(question):
    names = [
        set(re.findall(r"(?<![.!?:] )(?<!\n)\b[A-Z][a-z]{2,}", DOCUMENTS[document_id].text))
        for document_id in question.supporting_ids
    ]
    assert set.intersection(*names)


@of_type("theme")
def test_a_theme_is_spread_over_documents(question):
    assert len(question.supporting_ids) >= 4


def test_the_showcase_are_questions_of_the_demo():
    assert len(demo.showcase()) == 3
    assert set(demo.showcase()) <= set(QUESTIONS)

"""The demo corpus: its documents, and questions whose answers are where they should be."""

from __future__ import annotations

import re

from stratagraph import demo

DOCUMENTS = {document.id: document for document in demo.documents()}
QUESTIONS = demo.questions()
FUNCTION_WORDS = {"what", "which", "that", "with", "from", "were", "have", "there", "where", "when", "whose"}


def content_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3} - FUNCTION_WORDS


def names(document: str) -> set[str]:
    return set(re.findall(r"(?<![.!?:] )(?<!\n)\b[A-Z][a-z]{2,}", DOCUMENTS[document].text))


def test_the_corpus_is_large_enough_and_its_ids_are_unique() -> None:
    assert len(DOCUMENTS) == len(demo.documents()) >= 45
    assert len({document.digest for document in DOCUMENTS.values()}) == len(DOCUMENTS)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*(-\d{4})?", identity) for identity in DOCUMENTS)


def test_documents_are_short_and_begin_with_their_titles() -> None:
    for document in DOCUMENTS.values():
        title, body = document.text.split("\n", 1)
        assert document.metadata == {"title": title}
        assert 80 <= len(body.split()) <= 220, document.id


def test_there_are_enough_questions_of_each_type() -> None:
    types = [question.type for question in QUESTIONS]
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS) >= 25
    assert set(types) == {"one-hop", "multi-hop", "theme"}
    assert types.count("multi-hop") >= 8
    assert types.count("theme") >= 5
    assert len(demo.showcase()) == 3
    assert set(demo.showcase()) <= set(QUESTIONS)


def test_answers_are_in_the_documents_that_the_type_of_the_question_says() -> None:
    for question in QUESTIONS:
        gold = question.supporting_ids
        assert question.answers
        assert len(set(gold)) == len(gold)
        assert set(gold) <= set(DOCUMENTS)
        if question.type == "theme":
            assert len(gold) >= 4, question.id
            continue
        holding = [any(answer in DOCUMENTS[each].text for answer in question.answers) for each in gold]
        assert holding == [False] * (len(gold) - 1) + [True], (
            f"{question.id}: the last document alone answers"
        )
        assert (len(gold) > 1) == (question.type == "multi-hop"), question.id
        if question.type == "multi-hop":
            assert len(content_words(question.question) & content_words(DOCUMENTS[gold[-1]].text)) <= 1
            assert set.intersection(*map(names, gold)), f"{question.id}: a name leads to the next document"

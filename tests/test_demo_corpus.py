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

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import cases

from stratagraph.ingest.chunk import ChunkConfig, split, stream_statements
from stratagraph.text.sentences import sentences
from stratagraph.text.statements import statements
from stratagraph.text.tokens import TokenEstimate
from stratagraph.types.records import Document, StreamedDocument

COUNT = TokenEstimate()


def chunks_of(text, size=300, overlap=50):
    return list(split(Document("d", text), ChunkConfig(size, overlap), COUNT))


def texts_of(text, size=300, overlap=0):
    return [chunk.text for chunk in chunks_of(text, size, overlap)]


def sentence_texts(text):
    return [text[start:end] for start, end in sentences(text)]


SENTENCES = [
    "The ferry Plover left at seven.",
    "Who had the key?",
    "Nobody knew!",
    "In 1871, at 6.30 p.m., Dr. Orla Venn and Mr. J. Pell measured 3.14 metres, i.e. about ten feet.",
    "渡船晚了两个小时。",
    "أين المفتاح؟",
    "नाव देर से पहुँची।",
    "🙂👍🏽 Well, well, well: the bridge, which the guild had paid for, fell.",
]
SPACES = ["\n\n", "\r\n", "\n", " ", "  ", "\t"]
PARTS = st.sampled_from([*SENTENCES, *SPACES, "word", "\ufeff", "\x00", "a" * 40])
TEXTS = st.lists(PARTS, max_size=60).map(" ".join) | st.text(max_size=300)


@pytest.mark.parametrize(("text", "expected"), cases(__file__, "sentences"))
def test_sentences(text, expected):
    assert sentence_texts(text) == expected


@given(TEXTS)
def test_sentences_leave_out_nothing_but_blank_space(text):
    spans = list(sentences(text))
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)


def recounted(text: str) -> int:
    """Signs that count alone, or as one with those before them: where pieces meet, that may change."""
    return sum(sign >= "\u0900" and not sign.isalnum() for sign in text)


@given(TEXTS, st.integers(1, 60), st.data())
def test_chunks_are_exact_bounded_and_complete(text, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    chunks = chunks_of(text, size, overlap)
    covered = set()
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert chunk.text[chunk.repeated :] == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert COUNT(chunk.text) <= size + recounted(chunk.text) or len(chunk.text) == 1
        covered.update(range(chunk.start, chunk.end))
    assert all(text[at].isspace() for at in set(range(len(text))) - covered)
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        both = text[after.start : before.end]
        assert COUNT(both) <= overlap + recounted(both)


@given(TEXTS, st.integers(1, 40), st.data())
def test_the_blocks_do_not_matter(text, size, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    edges = [0, *cuts, len(text)]
    blocks = [text[a:b] for a, b in pairwise(edges)]
    config = ChunkConfig(size, size // 3)
    streamed = StreamedDocument("d", lambda: iter(blocks))
    assert list(split(streamed, config, COUNT)) == list(split(Document("d", text), config, COUNT))


@settings(max_examples=25, deadline=None)
@given(st.lists(PARTS, min_size=20, max_size=60), st.integers(1, 5000))
def test_a_long_stream_has_the_statements_of_the_whole_text(parts, width):
    text = " ".join(parts) * 60
    blocks = [text[at : at + width] for at in range(0, len(text), width)]
    found = list(stream_statements(blocks))
    assert "".join(each.text for each in found) == text
    whole = statements(text)
    if len(text) < 60_000:
        assert [
            each.start + len(each.text) - len(each.text.lstrip()) for each in found if each.text.strip()
        ] == [each.start for each in whole]


def test_chunks_end_at_sentences_and_overlap_by_sentences():
    text = " ".join(f"Sentence number {n} is about the harbour." for n in range(60))
    chunks = chunks_of(text, size=50, overlap=20)
    assert len(chunks) > 5
    for chunk in chunks:
        assert chunk.text.endswith(".")
        assert chunk.text.startswith("Sentence")
    for before, after in pairwise(chunks):
        assert after.start < before.end


def test_a_paragraph_that_ends_late_in_a_chunk_ends_it():
    first = "The bridge fell in the night. " * 5 + "Nobody was hurt."
    second = "The inquiry began in spring. " * 8
    assert texts_of(f"{first}\n\n{second}", size=50)[0] == first


def test_a_sentence_longer_than_a_chunk_is_cut_at_clauses_then_words():
    clauses = "when the tide turned and the wind fell, " * 20
    assert all(text.endswith(",") for text in texts_of(clauses, size=40)[:-1])
    words = "tide " * 300
    assert all(set(text.split()) == {"tide"} for text in texts_of(words, size=40))


def test_a_cut_inside_a_word_keeps_accents_and_composed_emoji_whole():
    for cluster in ("e\u0301\u0323", "👩\u200d👩\u200d👧", "👍\U0001f3fd"):
        assert all(text[0] == cluster[0] for text in texts_of(cluster * 200, size=30))


@pytest.mark.parametrize("text", [".", "!", "\n", " ", "\n ", '."', "。", "a.", ". ", "1. ", "J. "])
def test_repetition_is_no_trap(text):
    chunks = chunks_of("start" + text * (200_000 // len(text)) + "end")
    assert chunks[0].text.startswith("start")
    assert chunks[-1].text.endswith("end")


def test_a_large_document_is_read_lazily():
    read = 0

    def blocks():
        nonlocal read
        while True:
            read += 1
            yield "The tide came in and went out again. " * 1000

    passages = split(StreamedDocument("d", blocks), ChunkConfig(), COUNT)
    for _ in range(50):
        next(passages)
    assert read < 12


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"size": 0}, ValueError),
        ({"size": -1}, ValueError),
        ({"size": 10, "overlap": 10}, ValueError),
        ({"overlap": -1}, ValueError),
        ({"size": 1.5}, TypeError),
        ({"size": True}, TypeError),
        ({"overlap": "5"}, TypeError),
    ],
)
def test_a_config_checks_itself(arguments, error):
    with pytest.raises(error, match=r"size|overlap"):
        ChunkConfig(**arguments)

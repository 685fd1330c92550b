"""Raw output of models as text and JSON: cleaned whole and in pieces, put right, or refused with a reason."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from stratagraph.errors import ParseFailed
from stratagraph.models.cleaning import Cleaner, clean
from stratagraph.models.structured import json_as, plain_text, read_json
from tests.cases import cases


class Entity(BaseModel):
    name: str
    kind: str = "thing"
    aliases: list[str] = Field(default_factory=list)
    note: str | None = None


class Entities(BaseModel):
    entities: list[Entity]


class Report(BaseModel):
    title: str
    rating: float


entity = json_as(Entity)
entities = json_as(Entities)
report = json_as(Report)


@pytest.mark.parametrize(("answer", "text"), cases(__file__, "plain text"))
def test_plain_text(answer: str, text: str) -> None:
    assert plain_text(answer) == text


@pytest.mark.parametrize(
    "answer", ["", "  \n", '""', "```\n\n```", "<think>only thoughts</think>", "<think>cut sho"]
)
def test_nothing_is_no_text(answer: str) -> None:
    with pytest.raises(ParseFailed, match="empty"):
        plain_text(answer)


@pytest.mark.parametrize("answer", cases(__file__, "a refusal is no text"))
def test_a_refusal_is_no_text(answer: str) -> None:
    with pytest.raises(ParseFailed, match="declines"):
        plain_text(answer)


def test_a_long_text_may_begin_like_a_refusal() -> None:
    text = "I'm sorry, but I can't stay, says the captain. " + "He then tells of the harbour. " * 20
    assert plain_text(text) == text.strip()


@pytest.mark.parametrize("answer", cases(__file__, "json is found and put right"))
def test_json_is_found_and_put_right(answer: str) -> None:
    found = entity(answer)
    assert (found.name, found.kind, found.aliases, found.note) == ("Ada", "person", [], None)


@pytest.mark.parametrize("answer", cases(__file__, "lists"))
def test_lists(answer: str) -> None:
    assert [each.name for each in entities(answer).entities] == ["A", "B"]


def test_an_object_where_a_list_was_asked() -> None:
    assert entities('{"entities": {"name": "A"}}').entities == [Entity(name="A")]
    assert entities('{"name": "A"}').entities == [Entity(name="A")]
    assert entity('{"name": "A", "aliases": "B"}').aliases == ["B"]
    assert entities("[]").entities == []
    with pytest.raises(ParseFailed):
        entities("{}")
    assert report('{"title": 1984, "rating": "8.5"}') == Report(title="1984", rating=8.5)


@pytest.mark.parametrize(("answer", "reason"), cases(__file__, "what does not fit is refused with a reason"))
def test_what_does_not_fit_is_refused_with_a_reason(answer: str, reason: str) -> None:
    with pytest.raises(ParseFailed, match=reason):
        report(answer)


@pytest.mark.parametrize("around", ["{}", "Here:\n```json\n{}\n```\nDone [1].", "Here: {} That is all."])
def test_only_what_was_cut_off_is_shortened(around: str) -> None:
    """A last element that is wrong, in correct JSON, is wrong: the model is asked again."""
    whole = '{"entities": [{"name": "A"}, {"kind": "person"}]}'
    with pytest.raises(ParseFailed, match="Field required"):
        entities(around.replace("{}", whole))
    assert [each.name for each in entities(whole[:-4]).entities] == ["A"]


@given(
    st.builds(
        Report,
        title=st.text(st.characters(exclude_characters="\0", codec="utf-8")),
        rating=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_whatever_was_written_correctly_is_read_back(original: Report) -> None:
    assert report(original.model_dump_json()) == original
    assert report(f"Of course.\n```json\n{json.dumps(original.model_dump(), indent=1)}\n```") == original


@given(st.text())
def test_any_text_parses_or_fails_cleanly(text: str) -> None:
    for parse in (plain_text, entity, entities):
        with contextlib.suppress(ParseFailed):  # and no other error
            parse(text)


def test_half_of_an_escaped_surrogate_pair_is_replaced() -> None:
    class Said(BaseModel):
        text: str

    read = json_as(Said)
    assert read(r'{"text": "a \ud800 b"}').text == "a \ufffd b"
    assert read(r'{"text": "\ude00 \ud83d\ude00"}').text == "\ufffd \U0001f600"
    assert read(r'{"text": "\\ud83d\ude00 \\u0000\u0000"}').text == "\\ud83d\ufffd \\u0000"
    assert read(r"{'text': '\ud83d\ude00'}").text == "\U0001f600"


class Scored(BaseModel):
    score: float = Field(description="From 0 to 100")
    rating: float = Field(default=0, le=10)
    count: int = 0


@pytest.mark.parametrize(("written", "score"), cases(__file__, "numbers as models write them"))
def test_numbers_as_models_write_them(written: str, score: float) -> None:
    assert json_as(Scored)(f'{{"score": {written}, "rating": "4/5", "count": "3"}}').score == score
    assert json_as(Scored)('{"score": 1, "rating": "4/5"}').rating == 8


@pytest.mark.parametrize("answer", ["[" * 400, "[" * 60_000, '{"a":' * 400, "<think>" * 60_000])
def test_monstrous_answers_are_refused(answer: str) -> None:
    with pytest.raises(ParseFailed):
        json_as(Scored)(answer)


def test_other_keys_are_named() -> None:
    with pytest.raises(ParseFailed, match="none of the fields that were asked for, but 'points_of_it'"):
        read_json('{"points_of_it": "x"}', lambda value, repaired: None)


MEGABYTE = 2**20


@pytest.mark.parametrize(("raw", "cleaned"), cases(__file__, "raw texts"))
def test_a_stream_is_cleaned_as_a_whole_wherever_it_is_cut(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned
    for cuts in (*([at] for at in range(len(raw))), range(len(raw))):
        cleaner, ends = Cleaner(), [0, *cuts, len(raw)]
        pieces = [cleaner.feed(raw[at:end]) for at, end in itertools.pairwise(ends)]
        assert "".join(pieces) + cleaner.close() == cleaner.text == cleaned, ends


@pytest.mark.parametrize("text", ["Ask the assistant: she knows.", "The assistant\nleft."])
def test_a_speaker_is_named_at_the_beginning_alone(text: str) -> None:
    assert clean(text) == plain_text(f"Assistant: {text}") == text
    cleaner = Cleaner()
    assert "".join(map(cleaner.feed, text)) + cleaner.close() == text


@pytest.mark.parametrize("raw", ["Maybe</think>At seven.", "Maybe `</think>At seven."])
def test_only_a_closing_mark_leaves_what_follows(raw: str) -> None:
    assert clean(raw) == "At seven."
    cleaner = Cleaner(thinking=True)
    assert cleaner.feed(raw) + cleaner.close() == "At seven."


def test_a_megabyte_of_thoughts_without_an_end_is_no_text() -> None:
    raw = "<think>" + "Hm, `so`. " * (MEGABYTE // 10)
    assert clean(raw) == ""
    cleaner = Cleaner()
    assert {cleaner.feed(raw[at : at + 4096]) for at in range(0, len(raw), 4096)} == {""}
    assert cleaner.close() == cleaner.text == ""


class Ship(BaseModel):
    name: str


@pytest.mark.parametrize("draft", ["[" * 10_000, "[" * 10_000 + "]" * 10_000, '{"name":' * 10_000])
def test_deep_json_in_a_thought_is_passed_over(draft: str) -> None:
    assert json_as(Ship)(f"<think>{draft}</think>{json.dumps({'name': 'Ostra'})}").name == "Ostra"


class Finding(BaseModel):
    summary: str
    explanation: str


class CommunityReport(BaseModel):
    title: str
    summary: str
    rating: float
    rating_explanation: str
    findings: list[Finding]


@pytest.fixture(scope="module")
def completions(shared_data: Path) -> dict[str, list[str]]:
    file = shared_data / "nano_graphrag_raw_llm_outputs" / "outputs.jsonl"
    if not file.is_file():
        pytest.skip("these completions are not here")
    kinds: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        kinds.setdefault(row["kind"], []).append(row["output"])
    return kinds


def test_every_report_is_read(completions: dict[str, list[str]]) -> None:
    parse = json_as(CommunityReport)
    reports = [parse(answer) for answer in completions["community_report"]]
    assert len(reports) == 346
    assert all(each.title and each.findings for each in reports)


def test_reports_survive_damage(completions: dict[str, list[str]]) -> None:
    parse = json_as(CommunityReport)
    for answer in completions["community_report"][::10]:
        whole = parse(answer)
        assert parse(f"Here is the report:\n```json\n{answer}\n```\nDone.") == whole
        cut = answer.rstrip()[:-4]  # within the end of the last finding, or after it
        assert parse(cut).title == whole.title
        trailing = re.sub(r"\}\s*\]\s*\}\s*$", "},]}", answer)
        assert parse(trailing) == whole

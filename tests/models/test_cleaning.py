"""Raw output of models as text, whole and in pieces."""

from __future__ import annotations

import itertools
import json

import pytest
from pydantic import BaseModel

from stratagraph.models.cleaning import Cleaner, clean
from stratagraph.models.structured import json_as

MEGABYTE = 2**20
TEXTS = {
    "<think>maybe [2]</think>At seven [1].": "At seven [1].",
    "<THINK>a<think>b</think>c</Think>At seven.": "At seven.",
    "<|channel|>analysis<|message|>Hm<|end|><|channel|>final<|message|>At seven.<|return|>": "At seven.",
    "analysisWell.assistantfinalAt seven.": "At seven.",
    "analysis of the fares": "analysis of the fares",
    "Assistant: At seven.<|im_end|>\n<|im_start|>user\nAnd then?": "At seven.",
    "Assistants wait.": "Assistants wait.",
    "<answer>At seven.</answer>": "At seven.",
    "At seven.<think>Or not": "At seven.",
    "Use `<think>` and `</think>`.": "Use `<think>` and `</think>`.",
    "So:\n```\n<think>x</think>\n```\nDone.": "So:\n```\n<think>x</think>\n```\nDone.",
    '{"text": "a <think> mark"}': '{"text": "a <think> mark"}',
    "At < seven > six [2], ◁ and <": "At < seven > six [2], ◁ and <",
}


@pytest.mark.parametrize("raw", TEXTS)
def test_a_stream_is_cleaned_as_a_whole_wherever_it_is_cut(raw: str) -> None:
    assert clean(raw) == TEXTS[raw]
    for cuts in (*([at] for at in range(len(raw))), range(len(raw))):
        cleaner, ends = Cleaner(), [0, *cuts, len(raw)]
        pieces = [cleaner.feed(raw[at:end]) for at, end in itertools.pairwise(ends)]
        assert "".join(pieces) + cleaner.close() == cleaner.text == TEXTS[raw], ends


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

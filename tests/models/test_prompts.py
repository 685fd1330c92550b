"""What all prompts have in common."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from stratagraph.models.prompts import PACKAGES, load_prompt
from stratagraph.models.task import Prompt

ALL = [
    (package, file.name.removesuffix(".md"))
    for package in (*PACKAGES, "stratagraph.eval")
    for file in sorted(files(package).joinpath("prompts").iterdir(), key=lambda each: each.name)
    if file.name.endswith(".md")
]
SETTINGS = {"words", "count", "most", "elements", "users", "tasks", "questions", "queries", "length"}
SETTINGS |= {"relation_types", "relation_form"}


def parts(package: str, name: str) -> tuple[Prompt, str, str]:
    """A prompt, and the templates of its two messages."""
    prompt = load_prompt(package, name)
    system, role, user = prompt.template.partition('{{role "user"}}\n')
    assert role
    return prompt, system, user


@pytest.mark.parametrize(("package", "name"), ALL)
def test_rules_in_the_system_message_data_in_blocks_of_the_users(package: str, name: str) -> None:
    _, system, user = parts(package, name)
    assert set(re.findall(r"\{\{(\w+)\}\}", system)) <= SETTINGS | {"types"}
    outside = re.sub(r"<([\w-]+)>\n\{\{\w+\}\}\n</\1>", "", user)
    assert "{{" not in outside.replace("{{note}}", "")  # a block, or nothing
    assert outside.strip().endswith(":")


@pytest.mark.parametrize(("package", "name"), ALL)
def test_prompts_for_json_end_alike(package: str, name: str) -> None:
    _, system, user = parts(package, name)
    if "JSON" in system:
        assert re.search(
            r"\n\n(?:{{\w+}})?Answer with one JSON object of this form and nothing else:\n\{[^\n]", system
        )
        assert user.replace("{{note}}", "").endswith("\n\nJSON:\n")
    else:
        assert "JSON" not in user


def test_rules_are_the_same_for_all_calls_of_a_kind() -> None:
    """So that providers which keep what many prompts begin with need not read it again."""
    prompt = load_prompt("stratagraph.ingest", "extract")
    types = {"types": "person", "relation_types": "", "relation_form": ""}
    one, other = (prompt.render({**types, "passage": text}) for text in ("Ada.", "Bo."))
    assert one.system == other.system
    assert one.user != other.user

"""What the server's model writes: JSON for the package's own prompts, a sentence for anything else."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

_LISTED = re.compile(r"^<member(?:-\w+)?>\n([^:\n]+)", re.MULTILINE)
_NAME = re.compile(
    r"\b(?!(?:The|An?|It|He|She|They|In|On|At|By|Its|His|Her|This|There)\b)[A-Z]\w+(?: [A-Z]\w+)*|\b1\d{3}\b"
)
_ASKED = re.compile(r"(\d+) words")
_OF_ASKED = 0.9  # of the words that a prompt allows, which models rarely use up
_FINDINGS = re.compile(r"sentences, (\d+) words at most")
_FINDINGS_WRITTEN = 7  # of the ten that are allowed
_NUMBERED = re.compile(r"^\[(\d+)\]", re.MULTILINE)


def written(prompt: str) -> str:
    """The answer to a prompt: always the same for the same prompt."""
    for tag, write in ({} if _within(prompt, "passages") else _WRITERS).items():
        data = _within(prompt, tag)
        if data is not None:
            return json.dumps(write(data, prompt))
    if '"entities"' in prompt and _within(prompt, "question") is not None:
        return json.dumps({"entities": _names(_within(prompt, "question") or "")[:3]})
    data = _within(prompt, "statements") or _within(prompt, "passages") or prompt[-1500:]
    if '"elements"' in prompt:
        return json.dumps({"elements": [{"title": "What it says", "text": _said(data, prompt)}]})
    cited = _NUMBERED.search(prompt)
    return f"{_said(data, prompt)} [{cited[1] if cited else 1}]"


def _within(prompt: str, tag: str) -> str | None:
    found = re.search(rf"<{tag}((?:-\w+)?)>\n(.*)\n</{tag}\1>", prompt, re.DOTALL)
    return None if found is None else found[2]


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(_NAME.findall(text)))


def _said(text: str, prompt: str) -> str:
    """Words of the data in a prompt, nearly as many as the prompt asks for."""
    asked = _ASKED.search(prompt)
    most = round(_OF_ASKED * int(asked[1])) if asked else 40
    return "It is said that " + " ".join(re.sub(r"<[^>]*>", " ", text).split()[: most - 4]).strip(":")


def _extraction(passage: str, prompt: str) -> dict[str, Any]:
    """Each name with the sentence that it is in, as the prompt asks."""
    sentences = [each for each in re.split(r"(?<=[.!?])\s+", passage) if each.strip()]
    said = {name: _start(each) for each in reversed(sentences) for name in _names(each)} or {
        "Something": passage[:80]
    }
    names = list(said)
    pairs = [(one, other) for each in sentences for one, other in pairwise(_names(each))]
    return {
        "units": [{"text": each, "entities": _names(each)[:4]} for each in sentences],
        "entities": [{"name": name, "type": "thing", "description": said[name]} for name in names],
        "relations": [
            {"source": one, "target": other, "description": f"{one}: {said[other]}", "strength": 5}
            for one, other in pairs[: len(names)]
        ],
    }


def _names_of_sentences(sentences: str, prompt: str) -> dict[str, Any]:
    """The names of each numbered sentence; each speaks of the first name of its passage, as most do."""
    named = []
    for passage in sentences.split("Passage\n"):
        numbered = re.findall(r"^(\d+) (.*)$", passage, re.MULTILINE)
        main = next((name for _, text in numbered for name in _names(text)), "Something")
        named += [(number, list(dict.fromkeys([main, *_names(text)[:4]]))) for number, text in numbered]
    every = dict.fromkeys(name for _, names in named for name in names)
    return {
        "sentences": ["|".join((number, *names)) for number, names in named],
        "types": ["|".join(("thing", *every))],
    }


def _start(sentence: str) -> str:
    return " ".join(sentence.split()[:22])


def _report(members: str, prompt: str) -> dict[str, Any]:
    """A title, a summary, and one finding for each numbered member, if the prompt asks for findings."""
    report: dict[str, Any] = {
        "title": ", ".join(_names(members)[:3]) or "Members",
        "summary": _said(members, prompt),
    }
    if most := _FINDINGS.search(prompt):
        told = re.findall(r"^\[(\d+)\] (.*)$", members, re.MULTILINE)[:_FINDINGS_WRITTEN]
        words = round(_OF_ASKED * int(most[1]))
        report["findings"] = [
            {"text": " ".join(text.split()[:words]), "members": [int(number)]} for number, text in told
        ]
    return report


def _of_texts(texts: str, prompt: str) -> dict[str, Any]:
    """Which texts are needed and what is missing, if the prompt asks for that; else points of the texts."""
    numbers = [int(number) for number in _NUMBERED.findall(texts)] or [1]
    if '"needed"' in prompt:
        missing = {"missing": " ".join(_names(texts)[:3])} if '"missing"' in prompt else {}
        return {"needed": numbers[:2], **missing}
    points = [
        {"description": f"Text {number} says so.", "score": 70.0, "sources": [number]}
        for number in numbers[:3]
    ]
    return {"points": points}


def _summary(entities: str, prompt: str) -> dict[str, Any]:
    names = _names(entities)[:2]
    title = "Things about " + " and ".join(names)
    members = ["|".join(("6", *map(str, range(1, len(_LISTED.findall(entities)) + 1))))]
    return {
        "entities": [
            {"name": title, "type": "topic", "description": _said(entities, prompt), "members": members}
        ]
    }


_WRITERS = {
    "passage": _extraction,
    "sentences": _names_of_sentences,
    "members": _report,
    "texts": _of_texts,
    "entities": _summary,
    "sample": lambda sample, prompt: {"types": ["place", "person"]},
}

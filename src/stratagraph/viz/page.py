"""A page around data. All markup is our own; text from documents is only ever shown as text.

Data travels as JSON in a block that no browser runs, with every `<`, `>` and `&` as an escape, so that
nothing in it can end the block. The scripts put it on the page as text content. As a second barrier, the
content security policy runs only our scripts, known by their hashes, and forbids loading anything.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from stratagraph.types.results import Picture

_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def page(
    title: str, notes: Sequence[str], body: str, *, data: Any = None, scripts: Sequence[str] = ()
) -> Picture:
    """A picture with a title, notes below it and a body of our own markup.

    Parameters
    ----------
    title, notes
        Plain text.
    body
        Markup, in which the caller has escaped all texts.
    data
        JSON-native, for the scripts.
    scripts
        Names of files in `assets`, in the order in which they run.
    """
    sources = [asset(name) for name in scripts]
    hashes = [b64encode(sha256(source.encode("utf-8")).digest()).decode() for source in sources]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>',
        f"<style>\n{asset('style.css')}</style>\n</head>\n<body>",
        f"<header><h1>{escape(title)}</h1>",
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
        f"</header>\n{body}",
    ]
    if sources:
        parts.append(f'<script type="application/json" id="data">{embedded(data)}</script>')
        parts += [f"<script>{source}</script>" for source in sources]
    parts.append("</body>\n</html>\n")
    return Picture(title, "\n".join(parts), notes=tuple(notes), data=data)


def embedded(data: Any) -> str:
    """Data as ASCII JSON without characters that an HTML parser reads."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


@cache
def asset(name: str) -> str:
    """The text of a file in `assets`."""
    return files("stratagraph.viz").joinpath("assets", *name.split("/")).read_text("utf-8")


def shortened(text: str, limit: int) -> str:
    """A text on one line of at most `limit` characters, cut at a blank if possible."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    border = line.rfind(" ", limit // 2, limit)
    return line[: border if border > 0 else limit - 1] + "…"


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of a text, with an ellipsis if there are more."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def counted(number: int, one: str, many: str = "") -> str:
    """A number and what it counts: `1 passage`, `2,300 passages`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

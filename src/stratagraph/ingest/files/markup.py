"""HTML and Markdown: their text, with the headings above each part."""

from __future__ import annotations

import re
from typing import Any

from stratagraph.ingest.files.made import DEPTH, INSTALL, TAGS, Headings, Made, Unreadable, Writer

_SILENT = ["script", "style", "noscript", "template", "svg", "nav", "footer", "iframe", "form"]
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = ["p", "li", "pre", "blockquote", "tr", "dt", "dd", "figcaption", *_HEADINGS]
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w .-]*):[ \t]*(.*)$")


def from_html(text: str) -> Made:
    """The visible text, without scripts and navigation; a heading begins a section."""
    made = html_text(text)
    if not made.text:
        raise Unreadable("HTML without any text")
    return made


def html_text(text: str) -> Made:
    """What `from_html` returns, or an empty text."""
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise Unreadable(f"HTML; {INSTALL}") from None
    if text.count("<") > TAGS:
        raise Unreadable(f"HTML of more than {TAGS:,} tags")
    page = BeautifulSoup(text, "html.parser")
    depths = {id(page): 0}
    for tag in page.find_all(True):
        depths[id(tag)] = depth = depths[id(tag.parent)] + 1
        if depth > DEPTH:
            raise Unreadable(f"HTML, nested more than {DEPTH} deep")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for silent in page(_SILENT):
        silent.decompose()
    body = page.body or page
    writer, headings = Writer(), Headings()
    blocks = body.find_all(_BLOCKS)
    inner = {id(parent) for block in blocks for parent in block.parents}
    for block in blocks:
        if id(block) in inner:  # what it holds comes by itself
            continue
        said = block.get_text("" if block.name == "pre" else " ", strip=block.name != "pre")
        if block.name in _HEADINGS and said:
            writer.section(headings.enter(_HEADINGS[block.name], said))
        writer.add(said)
    made = writer.made({"title": title})
    if made.text:
        return made
    writer.add(body.get_text("\n", strip=True))
    return writer.made({"title": title})


def from_markdown(text: str) -> Made:
    """The text unchanged; a heading begins a section with `headings`, front matter becomes metadata."""
    text = text.replace("\r\n", "\n")
    metadata: dict[str, Any] = {}
    if front := _FRONT.match(text):
        metadata, text = _fields(front[1]), text[front.end() :]
    writer, headings = Writer(), Headings()
    block: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and (heading := _ATX.match(line)):
            writer.add("\n".join(block))
            block = []
            writer.section(headings.enter(len(heading[1]), heading[2]))
        block.append(line)
    writer.add("\n".join(block))
    return writer.made(metadata)


def _fields(front: str) -> dict[str, Any]:
    """`key: value` lines, `[a, b]` and `- a` lists as strings; other YAML is ignored."""
    values: dict[str, Any] = {}
    key = ""
    for line in front.split("\n"):
        item = re.match(r"^\s*-[ \t]+(.*)$", line)
        if item and key and isinstance(values[key] or [], list):
            values[key] = [*(values[key] or []), _plain(item[1])]
        elif field := _FIELD.match(line):
            key, value = field[1].strip(), field[2].strip()
            is_list = value.startswith("[") and value.endswith("]")
            values[key] = (
                [_plain(each) for each in value[1:-1].split(",") if each.strip()]
                if is_list
                else _plain(value)
            )
    return {key: value for key, value in values.items() if value != ""}


def _plain(value: str) -> Any:
    """A value without quotes; a whole number as a number."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return int(value) if re.fullmatch(r"-?\d{1,15}", value) else value

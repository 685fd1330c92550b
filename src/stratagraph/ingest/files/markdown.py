"""Markdown, notebooks and reStructuredText: text with marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.reading import ENTRY, FileText, Headings, Unreadable, Writer

_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(={2,}|-{2,})[ \t]*$")
_PLAIN = re.compile(r"^ {0,3}(?![-*+>|#<`~]|\d+[.)] )\S.{0,200}$")
_FENCE = re.compile(r"^(?:\s|[-*+>]\s|\d{1,9}[.)]\s)*(`{3,}|~{3,})(.*)$")
_FRONT = re.compile(r"\A---[ \t]*\n(?=\S)(.{0,20000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([\w\"'][\w .\"'-]*?):(?:[ \t]+(.*))?$")
_PICTURE = re.compile(
    r"(?<=\()\s*data:[\w.+/-]+[^,\s()]*;base64,[\w+/=\s-]*(?=\))|"
    r"data:[\w.+/-]+[^,\s()]*;base64,[\w+/=-]{100,}"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,} *$")
_RST_FIELD = re.compile(r":([A-Za-z][\w -]{0,40}):[ \t]+(.{1,500})$")
_MARKUP = re.compile(r"( *)\.\.(?: +(?:\|[^|]{1,100}\| +)?(?:([\w:.+-]{1,60}):: *)?(.*))?$")
_OPTION = re.compile(r" +:[\w-]{1,60}:(?: |$)")
_WITHOUT_TEXT = {
    "autoclass", "automodule", "contents", "currentmodule", "default-role", "graphviz", "highlight", "image",
    "include", "index", "literalinclude", "meta", "module", "raw", "role", "sectnum", "testsetup", "toctree",
}  # fmt: skip
_INLINE = re.compile(
    r"``([^`]{1,500})``"
    r"|(?::[\w:+.-]{1,60}:)?`([^`<]{0,500}[^`<\s])(?: *<[^`<>]{1,500}>)?`_{0,2}"
    r"|(?<![\w*])\*{1,2}(?![\s*])([^*]{1,500})(?<!\s)\*{1,2}(?![\w*])"
)


def from_markdown(text: str) -> FileText:
    """The text as it stands, without pictures in base64; a heading begins a section with `headings`.

    Front matter becomes metadata.
    """
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    metadata = _fields(front[1]) if front else {}
    text = _PICTURE.sub("", text[front.end() :] if front and metadata else text)
    writer, headings = Writer(), Headings()
    block: list[str] = []
    fence = ""

    def enter(level: int, title: str) -> None:
        writer.add("\n".join(block))
        block.clear()
        writer.section(headings.enter(level, title))

    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence:
            fence = "" if mark[1].startswith(fence) and not mark[2].strip() else fence
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif not fence and (heading := _ATX.match(line)):
            enter(len(heading[1]), heading[2])
        elif not fence and (underline := _SETEXT.match(line)):
            title = list(takewhile(str.strip, islice(reversed(block), 4)))[::-1]
            if 0 < len(title) <= 3 and all(map(_PLAIN.match, title)):
                del block[-len(title) :]
                enter(1 if underline[1][0] == "=" else 2, " ".join(title))
                block += title
        block.append(line)
    writer.add("\n".join(block))
    return writer.file_text(metadata)


def _fields(front: str) -> dict[str, Any]:
    """The values of front matter: texts, whole numbers and lists; nothing if it is no mapping."""
    values: dict[str, Any] = {}
    key = ""
    for line in front.split("\n"):
        stated = line.strip()
        if not stated or stated.startswith("#"):
            continue
        if key and re.match(r"\s*-(?:\s|$)", line) and isinstance(values[key] or [], list):
            values[key] = [*(values[key] or []), _plain(stated[1:])]
        elif key and line[0] in " \t":  # a text of several lines, or a mapping, which is kept as text
            values[key] = f"{str(values[key]).lstrip('|>-')} {stated}".strip()
        elif field := _FIELD.match(line):
            key, stated = field[1].strip("\"' "), (field[2] or "").strip()
            each = [_plain(part) for part in stated[1:-1].split(",") if part.strip()]
            values[key] = each if stated.startswith("[") and stated.endswith("]") else _plain(stated)
        else:
            return {}
    return values


def _plain(value: str) -> Any:
    """A value without quotes; a whole number as a number."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return int(value) if re.fullmatch(r"-?\d{1,15}", value) else value


def from_notebook(path: Path) -> FileText:
    """The cells of a Jupyter notebook, with the outputs that are text; headings begin sections."""
    if path.stat().st_size > ENTRY:
        raise Unreadable(f"a notebook of more than {ENTRY:,} bytes")
    writer = Writer()
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        texts = [(cell["cell_type"] == "code", "".join(cell["source"]))]
        for output in cell.get("outputs", ()):
            shown = output.get("data", output)
            if output.get("output_type") == "error":
                texts.append((True, f"{output.get('ename', '')}: {output.get('evalue', '')}"))
            elif "text/markdown" in shown:
                texts.append((False, "".join(shown["text/markdown"])))
            elif not any(kind.startswith("image/") for kind in shown):  # whose text only names it
                texts.append((True, "".join(shown.get("text/plain", shown.get("text", "")))))
        for is_code, text in texts:
            text = _COLOUR.sub("", text).strip("\n")
            writer.add(f"```\n{text}\n```" if is_code and text.strip() else text)
    return from_markdown(writer.file_text({}).text)


def from_rst(text: str) -> FileText:
    """The text without directives, comments and inline markup.

    A heading begins a section with `headings`. Fields at the beginning become metadata.
    """
    writer, headings = Writer(), Headings()
    marks: list[str] = []
    metadata: dict[str, str] = {}
    block: list[str] = []
    over = ""  # the mark of a line above a title
    at_start = True
    for line in [*_without_directives(text.expandtabs().splitlines()), ""]:
        adornment = _ADORNMENT.match(line)
        if adornment and len(block) == 1:
            mark = over + adornment[1]
            marks += [] if mark in marks else [mark]
            metadata.setdefault("title", block[0].strip())
            writer.section(headings.enter(marks.index(mark) + 1, block[0]))
            writer.add(block.pop().strip())
        elif adornment and not block:
            over = adornment[1]
            continue
        elif at_start and not block and (field := _RST_FIELD.match(line)):
            metadata.setdefault(field[1].strip().lower(), _without_marks(field[2]))
        elif line.strip():
            block.append(_without_marks(line))
            continue
        else:
            at_start = at_start and not block
            writer.add("\n".join(block))
            block.clear()
        over = ""
    return writer.file_text(metadata)


def _without_directives(lines: Iterable[str]) -> Iterator[str]:
    """The lines without comments and directives; the text of directives stays."""
    hidden: int | None = None  # the indentation of what is left out
    options = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if hidden is not None and (not line.strip() or indent > hidden):
            continue
        hidden = None
        if options and _OPTION.match(line):
            continue
        markup = _MARKUP.match(line)
        options = markup is not None
        if markup is None:
            yield line
        elif not markup[2] or markup[2].rpartition(":")[2] in _WITHOUT_TEXT:
            hidden = len(markup[1])
            yield ""
        else:
            is_version = markup[2].startswith(("version", "deprecated"))
            yield f"{markup[2]} {markup[3]}" if is_version else markup[3]


def _without_marks(line: str) -> str:
    if line.rstrip().endswith("::"):
        line = line.rstrip()[:-1].rstrip(":") + ":" if line.strip() != "::" else ""
    return _INLINE.sub(lambda mark: next(filter(None, mark.groups())), line)

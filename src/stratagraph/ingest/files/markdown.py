"""Markdown, notebooks and reStructuredText: text with marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.reading import FileText, Headings, Unreadable, Writer, reading

LARGEST_PARSED = 32 * 2**20
"""Bytes of a notebook without its pictures."""
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(={2,}|-{2,})[ \t]*$")
_PLAIN = re.compile(r"^ {0,3}(?![-*+>|#<`~]|\d+[.)] )\S.{0,200}$")
_FENCE = re.compile(r"^(?:\s|[-*+>]\s|\d{1,9}[.)]\s)*(`{3,}|~{3,})(.*)$")
_FRONT = re.compile(r"\A---[ \t]*\n(?=\S)(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([\w\"'][\w .\"'-]*?):(?:[ \t]+(.*))?$")
_PICTURE = re.compile(
    r"\(\s*data:[\w.+/-]+[^,\s()]*;base64,[\w+/=\s-]*\)|data:[\w.+/-]+[^,\s()]*;base64,[\w+/=-]{100,}"
)
_PICTURE_IN_JSON = re.compile(
    r'"((?:image|application|video|audio)/(?!json|vnd)[\w.+-]+)"\s*:\s*(?:"[^"]*"|\[[^\]\[]*\])'
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+ *$")
_BORDER = re.compile(r" *(?:\+(?:[-=]+\+)+|=+(?: +=+)+) *$")
_RST_FIELD = re.compile(r":([A-Za-z][\w -]{0,40}):[ \t]+(.{1,500})$")
_RST_MARKUP = re.compile(r"( *)\.\.(?: +(.*))?$")
_DIRECTIVE = re.compile(r"(?:\|[^|]{1,100}\| +)?([\w:.+-]{1,60}):: *(.*)$")
_NOTE = re.compile(r"\[[^\]]{1,100}\] +(.*)$")
_OPTION = re.compile(r" +:[\w-]{1,60}:(?: |$)")
_WITHOUT_TEXT = {
    "autoclass", "automodule", "contents", "currentmodule", "default-role", "graphviz", "highlight",
    "image", "include", "index", "literalinclude", "meta", "module", "raw", "role", "sectnum", "testsetup",
    "toctree",
}  # fmt: skip
_OF_VERSIONS = {
    "deprecated": "Deprecated since",
    "versionadded": "Added in",
    "versionchanged": "Changed in",
    "versionremoved": "Removed in",
}
_ARGUMENT_IS_NO_TEXT = {"class", "code", "code-block", "container", "figure", "parsed-literal", "sourcecode"}
_SHORT = 4  # characters of an adornment that may be shorter than its title
_ROLE = re.compile(r"(?::[\w:+.-]{1,60}:)?`([^`<]{0,500}[^`<\s])(?: *<[^`<>]{1,500}>)?`_{0,2}")
_LITERAL = re.compile(r"``([^`]{1,500})``")
_STRONG = re.compile(r"(?<![\w*])\*{1,2}(?![\s*])([^*]{1,500})(?<!\s)\*{1,2}(?![\w*])")


def from_markdown(text: str) -> FileText:
    """The text as it stands, without pictures in base64; a heading begins a section with `headings`.

    Front matter becomes metadata.
    """
    text = text.replace("\r\n", "\n")
    metadata: dict[str, Any] | None = None
    if front := _FRONT.match(text):
        metadata = _fields(front[1])
    text = _PICTURE.sub(
        lambda found: "()" if found[0][0] == "(" else "", text[front.end() :] if front and metadata else text
    )
    writer, headings = Writer(), Headings()
    block: list[str] = []
    fence = ""

    def enter(level: int, title: str) -> None:
        nonlocal block
        writer.add("\n".join(block))
        block = []
        writer.section(headings.enter(level, title))

    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence:
            fence = "" if mark[1].startswith(fence) and not mark[2].strip() else fence
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif not fence and (heading := _ATX.match(line)):
            enter(len(heading[1]), heading[2])
        elif not fence and block and (underline := _SETEXT.match(line)):
            title = list(takewhile(str.strip, reversed(block)))[::-1]
            if 0 < len(title) <= 3 and all(map(_PLAIN.match, title)):
                del block[-len(title) :]
                enter(1 if underline[1][0] == "=" else 2, " ".join(title))
                block = title
        block.append(line)
    writer.add("\n".join(block))
    return writer.file_text(metadata or {})


def _fields(front: str) -> dict[str, Any] | None:
    """The values of front matter: texts, whole numbers and lists; None if it is no mapping.

    Anything nested is its text.
    """
    values: dict[str, Any] = {}
    key = ""
    for line in front.split("\n"):
        item = re.match(r"\s*-(?:[ \t]+(.*))?$", line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if key and item and isinstance(values[key] or [], list):
            values[key] = [*(values[key] or []), _plain(item[1] or "")]
        elif key and line[0] in " \t":
            before = (
                values[key] if isinstance(values[key], str) else json.dumps(values[key], ensure_ascii=False)
            )
            values[key] = (
                f"{before.removeprefix('|').removeprefix('>').removeprefix('-')} {line.strip()}".strip()
            )
        elif field := _FIELD.match(line):
            key, stated = field[1].strip("\"' "), (field[2] or "").strip()
            is_list = stated.startswith("[") and stated.endswith("]")
            values[key] = (
                [_plain(each) for each in stated[1:-1].split(",") if each.strip()]
                if is_list
                else _plain(stated)
            )
        else:
            return None
    return {key: own for key, own in values.items() if own != ""} if values else None


def _plain(value: str) -> Any:
    """A value without quotes; a whole number as a number."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return int(value) if re.fullmatch(r"-?\d{1,15}", value) else value


@reading("notebook")
def from_notebook(path: Path) -> FileText:
    """The cells of a Jupyter notebook, with the outputs that are text; headings begin sections."""
    content = _PICTURE_IN_JSON.sub(r'"\1": ""', path.read_text("utf-8"))
    if len(content) > LARGEST_PARSED:
        raise Unreadable(f"a notebook of more than {LARGEST_PARSED:,} characters")
    notebook = json.loads(content)
    sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
    writer = Writer()
    for cell in (cell for sheet in sheets for cell in sheet["cells"]):
        source = _joined(cell.get("source", cell.get("input", "")))
        is_code = cell["cell_type"] == "code"
        writer.add(f"```\n{source}\n```" if is_code and source.strip() else source)
        for output in cell.get("outputs", ()):
            shown = output.get("data", output)
            if output.get("output_type") in ("error", "pyerr"):
                text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
            elif "text/markdown" in shown:
                writer.add(_joined(shown["text/markdown"]))
                continue
            elif any(kind.startswith("image/") or "widget" in kind for kind in shown):
                continue  # its text only names the picture
            else:
                text = _joined(shown.get("text/plain", shown.get("text", "")))
            text = _COLOUR.sub("", text).strip("\n")
            writer.add(f"```\n{text}\n```" if text.strip() else "")
    return from_markdown(writer.file_text({}).text)


def _joined(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def from_rst(text: str) -> FileText:
    """The text without directives, comments and inline markup.

    A heading begins a section with `headings`. Fields at the beginning become metadata.
    """
    lines = list(_without_directives(text.expandtabs().splitlines()))
    writer, headings = Writer(), Headings()
    marks: list[str] = []
    metadata: dict[str, str] = {}
    block: list[str] = []
    place, at_start = 0, True
    while place < len(lines):
        title, mark, taken = _heading(lines[place : place + 3], after_blank=not block)
        if mark:
            if at_start and not marks:
                metadata["title"] = title
            if mark not in marks:
                marks.append(mark)
            writer.section(headings.enter(marks.index(mark) + 1, title))
            writer.add(title)
        elif at_start and (field := _RST_FIELD.match(lines[place])):
            metadata.setdefault(field[1].strip().lower(), _without_marks(field[2]))
        elif not lines[place].strip():
            writer.add("\n".join(block))
            block = []
        elif not _BORDER.match(lines[place]) and (block or not _ADORNMENT.match(lines[place])):
            block.append(_without_marks(lines[place]))
            at_start = False
        place += taken
    writer.add("\n".join(block))
    return writer.file_text(metadata)


def _heading(lines: list[str], *, after_blank: bool) -> tuple[str, str, int]:
    """Title and mark of a heading that begins here, and its lines; no mark if there is none."""
    first, second, third = (each.rstrip() for each in [*lines, "", ""][:3])
    if not after_blank or not first or not second:
        return "", "", 1
    if _ADORNMENT.match(first):
        over = third[:1] == first[:1] and _ADORNMENT.match(third) and _spans(first, second.strip())
        return (_without_marks(second.strip()), first[0] * 2, 3) if over else ("", "", 1)
    if first[0] != " " and _ADORNMENT.match(second) and _spans(second, first):
        return _without_marks(first), second[0], 2
    return "", "", 1


def _spans(adornment: str, title: str) -> bool:
    return len(adornment) >= min(len(title), _SHORT)


def _without_directives(lines: Iterable[str]) -> Iterator[str]:
    """The lines without comments and directives; the text of directives stays."""
    hidden: int | None = None  # the indentation of what is left out
    options = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if hidden is not None:
            if not line.strip() or indent > hidden:
                continue
            hidden = None
        if options and _OPTION.match(line):
            continue
        options = False
        if not (markup := _RST_MARKUP.match(line)):
            yield line
            continue
        directive, note = _DIRECTIVE.match(markup[2] or ""), _NOTE.match(markup[2] or "")
        name = directive[1].rpartition(":")[2] if directive else ""
        if note:
            yield note[1]
        elif not directive or name in _WITHOUT_TEXT or directive[0].startswith("|"):
            hidden = len(markup[1])
            yield ""
        elif name in _OF_VERSIONS:
            version, _, rest = directive[2].partition(" ")
            yield f"{markup[1]}{_OF_VERSIONS[name]} version {version}. {rest}".rstrip()
        else:
            options = True
            yield "" if name in _ARGUMENT_IS_NO_TEXT else directive[2]


def _without_marks(line: str) -> str:
    if line.rstrip().endswith("::"):
        line = line.rstrip()[:-1].rstrip(":") + ":" if line.strip() != "::" else ""
    if line.startswith("|") and line.rstrip().endswith("|"):  # a row of a table
        line = " | ".join(cell.strip() for cell in line.strip()[1:-1].split("|"))
    return _STRONG.sub(r"\1", _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line)))

"""HTML, Markdown and reStructuredText: their text, with the headings above each part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from stratagraph.ingest.files.reading import DEPTH, INSTALL, TAGS, FileText, Headings, Unreadable, Writer

_SILENT = ["script", "style", "noscript", "template", "svg", "nav", "footer", "iframe", "form"]
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = ["p", "li", "pre", "blockquote", "tr", "dt", "dd", "figcaption", *_HEADINGS]
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w .-]*):[ \t]*(.*)$")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+ *$")
_BORDER = re.compile(r" *(?:\+(?:[-=]+\+)+|=+(?: +=+)+) *$")
_RST_FIELD = re.compile(r":([A-Za-z][\w -]{0,40}):[ \t]+(.{1,500})$")
_RST_MARKUP = re.compile(r"( *)\.\.(?: +(.*))?$")
_DIRECTIVE = re.compile(r"(?:\|[^|]{1,100}\| +)?([\w:.+-]{1,60}):: *(.*)$")
_NOTE = re.compile(r"\[[^\]]{1,100}\] +(.*)$")
_OPTION = re.compile(r" +:[\w-]{1,60}:(?: |$)")
_WITH_TEXT = {
    "admonition", "attention", "caution", "danger", "deprecated", "epigraph", "error", "figure",
    "hint", "important", "note", "pull-quote", "rubric", "seealso", "sidebar", "table", "tip",
    "topic", "versionadded", "versionchanged", "warning",
}  # fmt: skip
_WITH_CODE = {"code", "code-block", "parsed-literal", "sourcecode"}
_SHORT = 4  # characters of an adornment that may be shorter than its title
_ROLE = re.compile(r"(?::[\w:+.-]{1,60}:)?`([^`<]{0,500}[^`<\s])(?: *<[^`<>]{1,500}>)?`_{0,2}")
_LITERAL = re.compile(r"``([^`]{1,500})``")
_STRONG = re.compile(r"(?<![\w*])\*{1,2}(?![\s*])([^*]{1,500})(?<!\s)\*{1,2}(?![\w*])")


def from_html(text: str) -> FileText:
    """The visible text, without scripts and navigation; a heading begins a section."""
    document = html_text(text)
    if not document.text:
        raise Unreadable("HTML without any text")
    return document


def html_text(text: str) -> FileText:
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
        block_text = block.get_text("" if block.name == "pre" else " ", strip=block.name != "pre")
        if block.name in _HEADINGS and block_text:
            writer.section(headings.enter(_HEADINGS[block.name], block_text))
        writer.add(block_text)
    document = writer.file_text({"title": title})
    if document.text:
        return document
    writer.add(body.get_text("\n", strip=True))
    return writer.file_text({"title": title})


def from_markdown(text: str) -> FileText:
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
    return writer.file_text(metadata)


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
            metadata.setdefault(field[1].strip().lower(), _plain_rst(field[2]))
        elif not lines[place].strip():
            writer.add("\n".join(block))
            block = []
        elif not _is_ruled(lines[place], after_blank=not block):
            block.append(_plain_rst(lines[place]))
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
        return (_plain_rst(second.strip()), first[0] * 2, 3) if over else ("", "", 1)
    if first[0] != " " and _ADORNMENT.match(second) and _spans(second, first):
        return _plain_rst(first), second[0], 2
    return "", "", 1


def _is_ruled(line: str, *, after_blank: bool) -> bool:
    """Whether a line is the border of a table, or goes across the page."""
    return bool(_BORDER.match(line)) or (after_blank and bool(_ADORNMENT.match(line)))


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
        content = markup[2] or ""
        directive, note = _DIRECTIVE.match(content), _NOTE.match(content)
        if directive and directive[1] in _WITH_TEXT:
            options = True
            yield directive[2] if directive[1] != "figure" else ""
        elif directive and directive[1] in _WITH_CODE:
            options = True
            yield ""
        elif note:
            yield note[1]
        else:
            hidden = len(markup[1])
            yield ""


def _plain_rst(line: str) -> str:
    if line.rstrip().endswith("::"):
        line = line.rstrip()[:-1].rstrip(":") + ":" if line.strip() != "::" else ""
    if line.startswith("|") and line.rstrip().endswith("|"):  # a row of a table
        line = " | ".join(cell.strip() for cell in line.strip()[1:-1].split("|"))
    return _STRONG.sub(r"\1", _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line)))

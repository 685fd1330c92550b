"""reStructuredText: its text without markup, with the headings above each part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stratagraph.ingest.files.made import Headings, Made, Writer

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+ *$")
_BORDER = re.compile(r" *(?:\+(?:[-=]+\+)+|=+(?: +=+)+) *$")
_FIELD = re.compile(r":([A-Za-z][\w -]{0,40}):[ \t]+(.{1,500})$")
_MARKUP = re.compile(r"( *)\.\.(?: +(.*))?$")
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


def from_rst(text: str) -> Made:
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
        elif at_start and (field := _FIELD.match(lines[place])):
            metadata.setdefault(field[1].strip().lower(), _plain(field[2]))
        elif not lines[place].strip():
            writer.add("\n".join(block))
            block = []
        elif not _is_ruled(lines[place], after_blank=not block):
            block.append(_plain(lines[place]))
            at_start = False
        place += taken
    writer.add("\n".join(block))
    return writer.made(metadata)


def _heading(lines: list[str], *, after_blank: bool) -> tuple[str, str, int]:
    """Title and mark of a heading that begins here, and its lines; no mark if there is none."""
    first, second, third = (each.rstrip() for each in [*lines, "", ""][:3])
    if not after_blank or not first or not second:
        return "", "", 1
    if _ADORNMENT.match(first):
        over = third[:1] == first[:1] and _ADORNMENT.match(third) and _spans(first, second.strip())
        return (_plain(second.strip()), first[0] * 2, 3) if over else ("", "", 1)
    if first[0] != " " and _ADORNMENT.match(second) and _spans(second, first):
        return _plain(first), second[0], 2
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
        if not (markup := _MARKUP.match(line)):
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


def _plain(line: str) -> str:
    if line.rstrip().endswith("::"):
        line = line.rstrip()[:-1].rstrip(":") + ":" if line.strip() != "::" else ""
    if line.startswith("|") and line.rstrip().endswith("|"):  # a row of a table
        line = " | ".join(cell.strip() for cell in line.strip()[1:-1].split("|"))
    return _STRONG.sub(r"\1", _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line)))

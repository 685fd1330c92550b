"""What of a text in Markdown is prose, in which names may stand.

Documentation is full of capitals that name nothing: keywords of code, classes of markup, headers of tables.
They are blanked and not removed, so that every offset stays.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,}|:{3,})[ \t]*([^\n]*)$", re.MULTILINE)
_MARKS = re.compile(
    r"^[ \t]*(?:\$[ ][a-z]|>>>[ ])[^\n]*(?:\n[ \t]*\.\.\.[ ][^\n]*)*$"  # a session in a terminal
    r"|^[ \t]*(?:/{3}|!{3}|\?{3}\+?)[ \t]*[\w-]*"  # an admonition and its kind
    r"|^[ \t]*\.\.[ ][\w:-]+::[^\n]*$|^[ \t]*:\w+:[^\n]*$"  # a directive of reStructuredText, and its options
    r"|^[^\n|]*\|[^\n]*\n(?=[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\||$))"  # the header of a table
    r"|<!--.{0,2000}?-->|</?[a-zA-Z][^<>\n]{0,500}>"
    r"|(?<=\])\([^()\s]{1,500}(?:[ ]\"[^\"\n]*\")?\)|\bhttps?://[^\s)>\]]+"  # where a link leads
    r"|\{[ ]?[#.:%*{][^{}\n]{0,200}\}{1,2}"  # attributes and templates
    # Code in a line that is more than a name, or a keyword; ``a quotation'' is none.
    r"|(?<!`)(`{1,2})(?![\s`])(?:(?:True|False|None)"
    r"|(?=[^`\n]*[^\w`\n.])(?:(?!'')[^`\n]){1,200})\1(?!`)",
    re.MULTILINE,
)
_SIGNS = ("`", "<", "|", "{", "://", "///", "!!!", "???", ".. ", ">>>", "$ ", "~~~", ":::")
_VISIBLE = re.compile(r"[^\s]")


def prose(text: str) -> str:
    """A text of the same length with spaces in place of code, tags, targets of links and headers of tables.

    Fenced blocks of a passage may have lost a fence to the passage before or after it: a fence without a
    language ends a block that begins the passage, and a block without an end goes on to the end.
    """
    if not any(sign in text for sign in _SIGNS):
        return text
    return _MARKS.sub(_blank, _unfenced(text))


def _blank(markup: re.Match[str]) -> str:
    return _VISIBLE.sub(" ", markup[0])


def _unfenced(text: str) -> str:
    fences = [each for each in _FENCE.finditer(text) if each[1][0] != ":"]
    if not fences:
        return text
    parts, place, opened = [], 0, None
    first = fences[0]
    if not first[2].strip() and sum(each[1][0] == first[1][0] for each in fences) % 2:
        opened = first[1]  # the end of a block that began before the passage
    for fence in fences:
        if opened is None:
            parts.append(text[place : fence.start()])
            place, opened = fence.start(), fence[1]
        elif not fence[2].strip() and fence[1].startswith(opened):
            parts.append(_VISIBLE.sub(" ", text[place : fence.end()]))
            place, opened = fence.end(), None
    rest = text[place:]
    parts.append(rest if opened is None else _VISIBLE.sub(" ", rest))
    return "".join(parts)

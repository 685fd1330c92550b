"""Records such as `("entity"<|>"name"<|>"type"<|>"description")##`, and what models make of them.

The grammar is that of the first graph-RAG prompts. Seen in real completions: headings, numbering, bold
type and fences around the records, a missing closing quote or parenthesis, typographic quotes,
damaged separators (`"|>9`, `</|>`, `|<8>`), several records in a line and stray words between them.
"""

from __future__ import annotations

import re
from itertools import pairwise

from stratagraph.errors import ParseFailed

_LONGEST = 400_000  # characters of an answer that are read
_SEPARATOR = "<|>"
_DOUBLE = '"\u201c\u201d\u201e'
_END = re.compile(r"<\|?\s*/?\s*COMPLETE\s*\|?>", re.IGNORECASE)
# Before a separator stands the end of a quoted field, so that prose with a bar in it is left alone.
_DAMAGED = re.compile(
    rf"(?<=[{_DOUBLE}])\s*(?:<\s*/?\s*\|\s*>|\|\s*>|<\s*\||\|\s*<(?=\s*\d+(?:\.\d+)?>))"
    rf"|<\s*/?\s*\|\s*>"
)
_NUMBER_IN_ANGLES = re.compile(r"<\|>\s*(\d+(?:\.\d+)?)>")
# A record's kind, after a parenthesis or at the start of a line.
_START = re.compile(
    rf"\(\s{{0,9}}[{_DOUBLE}']?\s{{0,9}}[A-Za-z][\w \-]{{0,30}}?\s*[{_DOUBLE}']?\s*(?=<\|>)"
    rf"|^[ \t#*\d.\-]{{0,40}}[{_DOUBLE}']?[A-Za-z][\w\-]{{0,30}}[{_DOUBLE}']?\s*(?=<\|>)",
    re.MULTILINE,
)
_QUOTED = re.compile(rf"\A[{_DOUBLE}](.*?)[{_DOUBLE}]\s*(?:\).*|\*+\s*)?\Z", re.DOTALL)
_BARE_END = re.compile(r"\)\s*(?:<[^<>]*>|[\w*#]*)\s*\Z|\s*#{2,}\s*\Z")


def delimited_records(answer: str) -> list[tuple[str, ...]]:
    """The records of an answer, each a tuple of its fields, the kind first and in lower case.

    An answer that only says that it is complete has no records.

    Raises
    ------
    ParseFailed
        If there is neither a record nor the mark of completion.
    """
    answer = answer[:_LONGEST]
    text = _NUMBER_IN_ANGLES.sub(r"<|>\1", _DAMAGED.sub(_SEPARATOR, answer))
    starts = [match.start() for match in _START.finditer(text)]
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    records = [record for piece in pieces if (record := _record(piece)) is not None]
    if not records and not _END.search(answer):
        raise ParseFailed(
            'the answer holds no record; each must look like ("entity"<|>"name"<|>"type"<|>"description")##'
        )
    return records


def _record(piece: str) -> tuple[str, ...] | None:
    """The fields of one record, from text that runs up to the next one."""
    kind, *fields = _END.split(piece)[0].split(_SEPARATOR)
    kind = kind.strip().lstrip("(#*-.0123456789 \t\n").strip(_DOUBLE + "' ").lower()
    if not kind or not fields:
        return None
    fields[-1] = _last_field(fields[-1])
    return (kind, *(_unquoted(field) for field in fields))


def _last_field(field: str) -> str:
    """The last field without what follows the record: its end mark, headings, stray words."""
    field = re.split(r"##|```", field)[0]
    field = re.split(r"\n\s*\n", field.strip())[0].strip()
    quoted = _QUOTED.match(field)
    if quoted is not None:
        return quoted[1]
    return _BARE_END.sub("", field.split("\n")[0] if field[:1] not in _DOUBLE else field)


def _unquoted(field: str) -> str:
    field = field.strip()
    if len(field) > 1 and field[0] in _DOUBLE and field[-1] in _DOUBLE:
        return field[1:-1].strip()
    return field.strip(_DOUBLE).strip() if field[:1] in _DOUBLE or field[-1:] in _DOUBLE else field

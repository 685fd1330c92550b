"""CSV, JSON, mail and notebooks: a row or a message is a document; a notebook has cells without outputs."""

from __future__ import annotations

import csv
import json
import mailbox
from collections.abc import Iterator
from email import message_from_binary_file, message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, TextIO

from stratagraph.ingest.files.markup import from_html, from_markdown
from stratagraph.ingest.files.reading import COLUMNS, LINE, FileText, Unreadable, Writer, reading

_TEXTS = ("text", "contents")
_SAMPLE = 64 * 2**10
Row = tuple[int, dict[str, Any]]
LARGEST_PARSED = 64 * 2**20
"""Bytes of a message or notebook."""


def csv_rows(lines: TextIO, sample: str, *, tabs: bool = False) -> Iterator[Row]:
    """Rows with the number of their last line; keys are the first row's."""
    try:
        dialect: Any = csv.excel_tab if tabs else csv.Sniffer().sniff(sample[:_SAMPLE], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    reader = csv.reader(bounded_lines(lines), dialect)
    try:
        first = next(reader, [])
        if len(first) > COLUMNS:
            raise Unreadable(f"CSV of more than {COLUMNS:,} columns")
        names = [name.strip() or f"column {number}" for number, name in enumerate(first, 1)]
        for values in reader:
            row = {name: value for name, value in zip(names, values, strict=False) if value.strip()}
            if row:
                yield reader.line_num, as_record(row)
    except csv.Error as error:
        raise Unreadable(f"CSV, line {reader.line_num}: {error}") from None


def bounded_lines(lines: TextIO) -> Iterator[str]:
    """The lines of a file. Raises `Unreadable` if one has more than `LINE` characters."""
    while line := lines.readline(LINE + 1):
        if len(line) > LINE:
            raise Unreadable(f"a line of more than {LINE:,} characters")
        yield line


def json_rows(text: str) -> Iterator[Row] | None:
    """Objects of a list, or of the only list in an object; None where there is no such list."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise Unreadable("JSON, nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None
    if isinstance(value, dict):
        lists = [each for each in value.values() if _is_table(each)]
        value = lists[0] if len(lists) == 1 else None
    if not _is_table(value):
        return None
    return ((number, as_record(row)) for number, row in enumerate(value, 1))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def as_record(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a text: its own, else its columns as `name: value` lines; columns are metadata too.

    `id` is that column, in letters of any case.
    """
    name = "id" if "id" in row else next((key for key in row if key.casefold() == "id"), "id")
    identity = {"id": row[name]} if name in row else {}
    if any(isinstance(row.get(key), str) for key in _TEXTS):
        return row | identity
    fields = {key: value for key, value in row.items() if value not in (None, "", [], {})}
    lines = [f"{key}: {_written(value)}" for key, value in fields.items()]
    metadata = {key: value for key, value in fields.items() if key != name}
    return {"text": "\n".join(lines), "metadata": metadata, **identity}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@reading("mail")
def from_mail(path: Path) -> FileText:
    """A message: subject and body as text; `subject`, `from`, `to`, `date`, `attachments` as metadata."""
    _check_size(path.stat().st_size)
    with path.open("rb") as file:
        return _message(message_from_binary_file(file, policy=default))


def mailbox_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The messages of a mailbox with their numbers, as records; `id` is the Message-ID, if there is one."""
    box = mailbox.mbox(path, create=False)
    try:
        for number, key in enumerate(box.iterkeys(), 1):
            content = box.get_bytes(key)
            _check_size(len(content))
            try:
                message = message_from_bytes(content, policy=default)
                letter = _message(message)
                identity = str(message["message-id"] or "").strip("<> \t\r\n")
            except Exception as error:
                letter, identity = FileText(""), ""
                if not isinstance(error, Unreadable):
                    raise Unreadable(f"mailbox, message {number} damaged ({error})") from error
            yield (
                number,
                {"text": letter.text, "metadata": letter.metadata} | ({"id": identity} if identity else {}),
            )
    finally:
        box.close()


def _check_size(size: int) -> None:
    if size > LARGEST_PARSED:
        raise Unreadable(f"more than {LARGEST_PARSED:,} bytes")


def _message(message: EmailMessage) -> FileText:
    writer = Writer()
    writer.add(str(message["subject"] or ""))
    body = message.get_body(("plain", "html"))
    if body is not None:
        text = str(body.get_content())
        writer.add(from_html(text).text if body.get_content_type() == "text/html" else text)
    names = [str(part.get_filename() or "") for part in message.iter_attachments()]
    headers = {name: str(message[name] or "") for name in ("subject", "from", "to", "date")}
    return writer.file_text({**headers, "attachments": [name for name in names if name]})


@reading("notebook")
def from_notebook(path: Path) -> FileText:
    """The Markdown and code cells of a Jupyter notebook, without outputs; headings begin sections."""
    _check_size(path.stat().st_size)
    writer = Writer()
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = cell["source"]
        text = source if isinstance(source, str) else "".join(source)
        if cell["cell_type"] == "code" and text.strip():
            writer.add(f"```\n{text}\n```")
        elif cell["cell_type"] == "markdown":
            writer.add(text)
    return from_markdown(writer.file_text({}).text)

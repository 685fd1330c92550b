"""Mail, mailboxes and notebooks."""

from __future__ import annotations

import json
import mailbox
from collections.abc import Iterator
from email import message_from_binary_file, message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from stratagraph.ingest.files.markup import from_html, from_markdown
from stratagraph.ingest.files.reading import FileText, Unreadable, Writer, reading

LARGEST_PARSED = 64 * 2**20
"""Bytes of a message or notebook."""


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

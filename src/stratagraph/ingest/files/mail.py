"""Mail and mailboxes: headers, text, text attachments and forwarded messages."""

from __future__ import annotations

import mailbox
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import EmailPolicy
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, cast

from stratagraph.ingest.files.html import Page
from stratagraph.ingest.files.reading import ENTRY, FileText, Unreadable, Writer

_MOST_LINES = 2_000_000
_MOST_OF_HEADER = 4000  # characters; the standard library's time and memory grow with the square and more
_MOST_HEADERS = 100_000  # of a message with all that it holds; a header is searched among all
_MOST_FORWARDED = 10  # messages inside of each other
_SHOWN = ("subject", "from", "to", "cc", "date")
_TEXT_FILE = re.compile(r"\.(?:csv|html?|ics|json|log|markdown|md|rst|tsv|txt|xml)", re.IGNORECASE)
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")


class _Policy(EmailPolicy):
    """Cuts headers before anything parses them, and counts them."""

    _numbers: Iterator[int]

    def __init__(self) -> None:
        super().__init__(message_factory=EmailMessage)
        object.__setattr__(self, "_numbers", count(1))  # policies refuse other changes

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        if next(self._numbers) > _MOST_HEADERS:
            raise Unreadable(f"mail of more than {_MOST_HEADERS:,} headers")
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_MOST_OF_HEADER]


def from_mail(path: Path) -> FileText:
    """A message: its headers, its text, and a section with `attachment` for each part that is text.

    `subject`, `from`, `to`, `date` and `attachments` are metadata.
    """
    with path.open("rb") as file:
        return _message(file.read(ENTRY + 1))[0]


def mailbox_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The messages of a mailbox with their numbers, as records; `id` is the Message-ID, if there is one."""
    with closing(mailbox.mbox(path, create=False)) as box:
        for number, key in enumerate(box.iterkeys(), 1):
            letter, identity = _message(box.get_bytes(key))
            record = {"text": letter.text, "metadata": letter.metadata, "notes": letter.notes}
            yield number, record | ({"id": identity} if identity else {})


def _message(content: bytes) -> tuple[FileText, str]:
    """A message and its Message-ID."""
    if len(content) > ENTRY or content.count(b"\n") > _MOST_LINES:
        raise Unreadable(f"mail of more than {ENTRY:,} bytes or {_MOST_LINES:,} lines")
    message = cast(EmailMessage, message_from_bytes(content, policy=_Policy()))
    writer, names = Writer(), list[str]()
    _write(message, writer, names, {}, 0)
    headers: dict[str, Any] = {name: _header(message, name) for name in _SHOWN}
    date = getattr(message["date"], "datetime", None)
    stated = {**headers, "date": date.date().isoformat() if date else "", "attachments": names}
    return writer.file_text(stated), _header(message, "message-id").strip("<> \t\r\n")


def _header(message: Message, name: str) -> str:
    return " ".join(str(message[name] or "").split())


def _write(message: EmailMessage, writer: Writer, names: list[str], own: dict[str, str], depth: int) -> None:
    """Write the headers of a message, whose section has `own` metadata, and its parts."""
    is_apart = False  # whether the last part was an attachment
    if depth > _MOST_FORWARDED:
        raise Unreadable(f"mail, more than {_MOST_FORWARDED} messages inside of each other")
    headers = [(name.capitalize(), _header(message, name)) for name in _SHOWN]
    writer.add("\n".join(f"{name}: {value}" for name, value in headers if value))
    for part, is_body in _parts(message):
        kind, name = part.get_content_type(), " ".join(str(part.get_filename() or "").split())
        if kind == "message/rfc822":
            for inner in cast(Sequence[EmailMessage], part.get_payload()):
                apart = {"attachment": name or _header(inner, "subject")}
                writer.section(apart)
                _write(inner, writer, names, apart, depth + 1)
            is_apart = True
            continue
        names += [name] if name else []
        is_text = part.get_content_maintype() == "text" or _TEXT_FILE.fullmatch(PurePosixPath(name).suffix)
        text = _text(part) if is_text else ""
        if is_text and "\0" not in text:
            if is_apart or not is_body:
                writer.section(own if is_body else {"attachment": name})
            writer.add("" if is_body else name)
            writer.add(text)
            is_apart = not is_body
        elif kind not in _SIGNATURES and not (part["content-id"] and not part.is_attachment()):
            writer.note(f"attachment {name or kind} is not read")


def _parts(message: EmailMessage) -> Iterator[tuple[EmailMessage, bool]]:
    """The parts to read, and whether each is the message's own text. Of alternatives, one is read."""
    if message.get_content_type() == "multipart/alternative":
        found = [list(_parts(cast(EmailMessage, each))) for each in message.iter_parts()]
        texts = {id(parts): sum(len(_text(part).split()) for part, own in parts if own) for parts in found}
        most = max(texts.values(), default=0)
        # the first, which is the plain text, unless it says less than half of what the page says
        yield from next((parts for parts in found if 2 * texts[id(parts)] >= most), [])
    elif message.get_content_maintype() == "multipart":
        for each in message.iter_parts():
            yield from _parts(cast(EmailMessage, each))
    else:
        is_text = message.get_content_maintype() == "text"
        yield message, is_text and not message.is_attachment() and not message.get_filename()


def _text(part: EmailMessage) -> str:
    """The text of a part, whatever it says of its encoding."""
    if part.get_content_maintype() not in ("text", "application"):
        return ""
    content = cast(bytes, part.get_payload(decode=True) or b"")
    text = content.decode("cp1252", "replace")
    for encoding in (part.get_content_charset() or "utf-8", "utf-8"):
        with suppress(LookupError, UnicodeDecodeError):
            text = content.decode(encoding)
            break
    if part.get_content_type() != "text/html":
        return text.replace("\r\n", "\n")
    writer = Writer()
    Page(text, writer)
    return writer.file_text({}).text

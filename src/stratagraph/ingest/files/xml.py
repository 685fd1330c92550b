"""Archives of XML, and the events of their parts."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from html.entities import entitydefs
from xml.parsers.expat import ParserCreate

from stratagraph.ingest.files.reading import DEPTH, ENTRY, TAGS, Unreadable

_BLOCK = 2**16  # bytes that are parsed at a time
_MOST_NAMED = 1000  # characters of a title
Event = tuple[str, str, dict[str, str]]
"""What happens, "start", "text" or "end"; a local name or the text; attributes by their local names."""


class Package:
    """An archive, each file of which is read once, so that it costs no more than it holds."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._taken: set[str] = set()
        self._elements = 0

    def __contains__(self, name: str) -> bool:
        return name in self._archive.NameToInfo

    def take(self, name: str) -> bytes:
        """The content of a file; nothing if there is none, or it was taken before."""
        if name not in self or name in self._taken:
            return b""
        self._taken.add(name)
        if self._archive.getinfo(name).file_size > ENTRY:
            raise Unreadable(f"an archive with a part of more than {ENTRY:,} bytes")
        return self._archive.read(name)

    def events(self, name: str) -> Iterator[Event]:
        """The elements and texts of a file in order.

        `Unreadable` if it is nested too deep, has too many elements, or declares entities, which can grow
        without end.
        """
        content = self.take(name)
        if b"<!ENTITY" in (content.replace(b"\0", b"") if b"\0" in content else content):  # in UTF-16 too
            raise Unreadable("XML with entities of its own")
        events: list[Event] = []
        names: dict[str, str] = {}
        depth = 0

        def start(raw: str, attributes: dict[str, str]) -> None:
            own: dict[str, str] = {}
            for key, value in attributes.items():
                space, _, local = key.rpartition("}")
                if space or local not in own:
                    own[local] = value
            # `alt` is the description of a picture in OpenDocument
            name = "alt" if ":svg-compatible:" in raw else raw.rpartition("}")[2]
            events.append(("start", names.setdefault(raw, name), own))

        parser = ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = start
        parser.EndElementHandler = lambda raw: events.append(("end", names[raw], {}))
        parser.CharacterDataHandler = lambda data: events.append(("text", data, {}))
        # letters as HTML names them, where a document type may declare them
        parser.SkippedEntityHandler = lambda name, _: events.append(("text", entitydefs.get(name, ""), {}))
        for place in range(0, len(content), _BLOCK):
            parser.Parse(content[place : place + _BLOCK], place + _BLOCK >= len(content))
            for event in events:
                if event[0] == "start":
                    depth += 1
                    self._elements += 1
                    if depth > DEPTH:
                        raise Unreadable(f"XML, nested more than {DEPTH} deep")
                    if self._elements > TAGS:
                        raise Unreadable(f"XML of more than {TAGS:,} elements")
                depth -= event[0] == "end"
                yield event
            events.clear()

    def elements(self, name: str, *wanted: str) -> list[tuple[str, dict[str, str], str]]:
        """The elements of some names in a file: name, attributes and own text of each, in order."""
        found: list[tuple[str, dict[str, str], str]] = []
        path: list[str] = []
        for kind, text, attributes in self.events(name):
            if kind == "end":
                path.pop()
            elif kind == "start":
                path.append(text)
                if text in wanted:
                    found.append((text, attributes, ""))
            elif path and path[-1] in wanted:
                own, stated, before = found[-1]
                found[-1] = own, stated, before + text
        return found

    def links(self, name: str) -> dict[str, tuple[str, str]]:
        """The files that a file of an Office document uses: kind and name by id."""
        folder, base = posixpath.split(name)
        elements = self.elements(posixpath.join(folder, "_rels", f"{base}.rels"), "Relationship")
        return {
            link.get("Id", ""): (
                link.get("Type", "").rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, link.get("Target", ""))).lstrip("/"),
            )
            for _, link, _ in elements
            if link.get("TargetMode") != "External"
        }

    def properties(self, name: str) -> dict[str, str]:
        """Title, author and date that a file states of its document."""
        authors, dates = ("creator", "initial-creator"), ("created", "creation-date", "date", "modified")
        stated: dict[str, str] = {}
        for key, _, text in self.elements(name, "title", *authors, *dates):
            stated[key] = stated.get(key) or text.strip()[:_MOST_NAMED]
        date = next((stated[key] for key in dates if stated.get(key)), "")
        day = re.match(r"\d{4}(?:-\d\d(?:-\d\d)?)?", date)
        author = next((stated[key] for key in authors if stated.get(key)), "")
        return {"title": stated.get("title", ""), "author": author, "date": day[0] if day else ""}

"""An index as a folder of Markdown: a page for each thing of several documents, each summary, each document.

Statements are those of passages, with numbers that lead to them; a summary that a model wrote stands with its
passages. All pages are made anew from the index, so nothing of a deleted text remains. What this module wrote
stands in `.stratagraph-wiki.json` with a checksum: only pages whose bytes differ are written, those that are
no more are deleted, and a page that somebody edited stops the export before anything is written.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

from stratagraph.errors import Damaged, NotAnIndex
from stratagraph.export.tables import whole
from stratagraph.search.filters import compile_where, with_ids
from stratagraph.types.question import Where
from stratagraph.types.records import GraphRelation, MethodNode

if TYPE_CHECKING:
    from stratagraph.index import Index

MANIFEST = ".stratagraph-wiki.json"
_KIND = "stratagraph wiki"
_FOLDERS = ("documents", "things", "summaries")
_ASIDE = ".writing"
_PAGE = re.compile(rf"index\.md|(?:{'|'.join(_FOLDERS)})/[^/\\]+\.md")
_SHOWN = 5  # edited pages that an error names
_LONGEST_NAME = 100  # bytes of a file's name, without what tells equal ones apart
_LONGEST_TITLE = 100  # characters
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE
)  # names of devices on Windows
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$%^!&])")
_INDENTED = re.compile(r"^[^\S\n]{4,}", re.MULTILINE)  # would be a block of code
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")  # turns the direction of what follows
_LIST = re.compile(r"^([^\S\n]*(?:\d+(?=[.)]))?)([-+=.)])", re.MULTILINE)

Key = tuple[str, str]


def write_wiki(
    index: Index,
    path: Path,
    methods: Sequence[str],
    where: Where | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Bring a folder of Markdown to what the index holds.

    Only passages that `where` admits: a thing needs two of their documents, a summary and a description need
    all of their passages to be among them. Nothing is written if the folder holds other files (`NotAnIndex`),
    its list of pages cannot be read (`Damaged`), or pages were edited by hand (`ValueError`, unless
    `overwrite`).
    """
    written = _written(path)
    pages = {name: text.encode() for name, text in _Wiki(index, methods, where).pages().items()}
    sums = {name: sha256(data).hexdigest() for name, data in pages.items()}
    present = {name: _sum_of(path / name) for name in {*written, *pages}}
    edited = [
        name for name, found in present.items() if found not in {None, *written.get(name, ()), sums.get(name)}
    ]
    if edited and not overwrite:
        shown = ", ".join(sorted(edited)[:_SHOWN]) + (" ..." if len(edited) > _SHOWN else "")
        raise ValueError(
            f"{len(edited)} pages of {str(path)!r} were edited by hand or are not ours: {shown}. Nothing was "
            "written; move them away, or pass overwrite=True (--overwrite) to replace them"
        )
    path.mkdir(parents=True, exist_ok=True)
    either = {
        name: sorted({*written.get(name, ()), *([sums[name]] if name in sums else [])}) for name in present
    }
    _list_pages(path, either)  # so that a killed export leaves no page that passes for an edited one
    aside = path / _ASIDE
    aside.mkdir(exist_ok=True)
    for left in aside.iterdir():  # of a killed export
        left.unlink()
    for folder in _FOLDERS:
        (path / folder).mkdir(exist_ok=True)
    for name, data in pages.items():
        if present[name] != sums[name]:
            (aside / "page").write_bytes(data)
            (aside / "page").replace(path / name)
    for name in written.keys() - pages.keys():
        (path / name).unlink(missing_ok=True)
    for folder in (*_FOLDERS, _ASIDE):
        with suppress(OSError):  # it holds pages, or somebody's file
            (path / folder).rmdir()
    _list_pages(path, {name: [found] for name, found in sums.items()})


def _written(path: Path) -> dict[str, list[str]]:
    """The pages that were written to a folder, with the checksums that they may have."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return {}
    manifest = path / MANIFEST
    if not path.is_dir() or manifest.is_symlink() or not manifest.is_file():
        raise NotAnIndex(f"{str(path)!r} holds other files, and no wiki of stratagraph; give another folder")
    try:
        listed = json.loads(manifest.read_text("utf-8"))
        pages = {str(name): [str(each) for each in sums] for name, sums in listed["pages"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{str(manifest)!r} is no list of pages ({error}); export to another folder") from error
    if listed.get("kind") != _KIND or not all(map(_PAGE.fullmatch, pages)):
        raise Damaged(f"{str(manifest)!r} lists what is no page of a wiki; export to another folder")
    return pages


def _list_pages(path: Path, pages: Mapping[str, Sequence[str]]) -> None:
    with whole(path / MANIFEST) as aside:
        aside.write_text(json.dumps({"kind": _KIND, "pages": pages}, indent=0, sort_keys=True), "utf-8")


def _sum_of(path: Path) -> str | None:
    """The checksum of a page; None if there is none, and empty for what is no file of its own."""
    if any(each.is_symlink() for each in (path, path.parent)):
        return ""
    if not path.exists():
        return None
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


class _Place(NamedTuple):
    """A passage: its document, the link to it from another page, and its heading."""

    document: str
    link: str
    heading: str


class _Wiki:
    """The pages of an index. A page is known by what it is of (`document`, `thing`, a method) and an id."""

    def __init__(self, index: Index, methods: Sequence[str], where: Where | None) -> None:
        admits = compile_where({} if where is None else where)
        chunks = {
            name: [each for each in own if admits(with_ids(each))] for name, own in index.chunks().items()
        }
        self._chunks = {name: own for name, own in chunks.items() if own}
        document_of = {each.id: name for name, own in self._chunks.items() for each in own}
        metadata = index.documents()
        self._entities = {each.id: each for each in index.entities()}
        self._stated: defaultdict[str, list[tuple[str, Sequence[str]]]] = defaultdict(list)
        for unit in index.units():
            if sources := [source for source in unit.sources if source in document_of]:
                for name in unit.entities:
                    self._stated[name].append((unit.text, sources))
        self._relations: defaultdict[str, list[GraphRelation]] = defaultdict(list)
        for relation in index.relations():
            if document_of.keys() >= {*relation.sources}:
                for end in {relation.source, relation.target}:
                    self._relations[end].append(relation)
        self._nodes = {
            (method, node.id): node
            for method in methods
            for node in index.nodes(method)
            if document_of.keys() >= {*node.sources}
        }
        things = {
            ("thing", each.id): each.name
            for each in self._entities.values()
            if len({document_of[source] for source in each.sources if source in document_of}) > 1
        }
        summaries = {key: _named(*key, node) for key, node in self._nodes.items()}
        documents = {}
        for name in self._chunks:
            title = metadata.get(name, {}).get("title")
            documents["document", name] = title if isinstance(title, str) and title.strip() else name
        self.titles: dict[Key, str] = {**documents, **things, **summaries}
        self._paths = {
            **_paths("documents", documents),
            **_paths("things", things),
            **_paths("summaries", summaries),
        }
        self.shown = {key: _escaped(_short(title)) for key, title in self.titles.items()}
        self.targets = {key: quote(path) for key, path in self._paths.items()}
        self.places = {
            chunk.id: _Place(name, f"../{self.targets['document', name]}#p{number}", f"p{number}")
            for name, own in self._chunks.items()
            for number, chunk in enumerate(own, 1)
        }
        self.citing: defaultdict[str, set[Key]] = defaultdict(set)
        """The pages that cite each document."""

    def pages(self) -> dict[str, str]:
        """All pages by their path in the folder."""
        kinds = {"thing": self._thing, "document": self._document}
        keys = sorted(self._paths, key=lambda key: key[0] == "document")  # which then know who cites them
        pages = {self._paths[key]: kinds.get(key[0], self._summary)(key) for key in keys}
        return {**pages, "index.md": self._index()}

    def _thing(self, key: Key) -> str:
        entity, numbers = self._entities[key[1]], _Numbers(self, key)
        stated = self._stated[entity.id]
        if not stated and self.places.keys() >= {*entity.sources}:
            stated = [(line, entity.sources) for line in entity.description.splitlines() if line.strip()]
        said = [_item(f"{_escaped(text)} {numbers.of(sources)}") for text, sources in stated]
        related = []
        for relation in self._relations[entity.id]:
            other = relation.target if relation.source == entity.id else relation.source
            if ("thing", other) in self._paths and other != entity.id:
                related.append(_item(f"{self.link(('thing', other))} {numbers.of(relation.sources)}"))
        numbers.of(source for source in entity.sources if source in self.places)
        head = [f"# {_escaped(entity.name)}", _escaped(entity.type)]
        return _page([*head, *said, *_under("Related", related), *numbers.listed()])

    def _summary(self, key: Key) -> str:
        node, numbers = self._nodes[key], _Numbers(self, key)
        named = [(key[0], member) for member in node.members] + [("thing", each) for each in node.members]
        members = [_item(self.link(each)) for each in named if each in self._paths]
        head = [f"# {_escaped(self.titles[key])}", f"{key[0]}, {_escaped(node.kind)}, level {node.level}"]
        body = [f"{_escaped(node.text)} {numbers.of(node.sources)}"]
        return _page([*head, *body, *_under("Members", members), *numbers.listed()])

    def _document(self, key: Key) -> str:
        passages = []
        for number, chunk in enumerate(self._chunks[key[1]], 1):
            passages += [f"## p{number}", _escaped(chunk.text)]
        head = [f"# {_escaped(self.titles[key])}", f"Document {_escaped(key[1])}"]
        return _page([*head, *passages, *_under("Cited by", self._sorted(self.citing[key[1]]))])

    def _index(self) -> str:
        lines = ["# Index"]
        for kind in dict.fromkeys(("thing", *(key[0] for key in self._nodes), "document")):
            heading = {"thing": "Things", "document": "Documents"}.get(kind, f"Summaries of {kind}")
            own = [key for key in self._paths if key[0] == kind]
            lines += _under(heading, self._sorted(own, to_root=""))
        return _page(lines)

    def _sorted(self, keys: Iterable[Key], to_root: str = "../") -> list[str]:
        ordered = sorted(keys, key=lambda key: (self.titles[key].casefold(), key))
        return [_item(self.link(key, to_root)) for key in ordered]

    def link(self, key: Key, to_root: str = "../") -> str:
        """A link to a page."""
        return f"[{self.shown[key]}]({to_root}{self.targets[key]})"


class _Numbers:
    """The numbers of the passages that a page cites, in the order in which it does."""

    def __init__(self, wiki: _Wiki, page: Key) -> None:
        self._wiki = wiki
        self._page = page
        self._numbers: dict[str, int] = {}

    def of(self, sources: Iterable[str]) -> str:
        """Links with the numbers of some passages."""
        links = []
        for source in sources:
            number = self._numbers.setdefault(source, len(self._numbers) + 1)
            place = self._wiki.places[source]
            links.append(f"[\\[{number}\\]]({place.link})")
            self._wiki.citing[place.document].add(self._page)
        return " ".join(links)

    def listed(self) -> list[str]:
        """The list of sources at the end of a page."""
        lines = []
        for source, number in self._numbers.items():
            place = self._wiki.places[source]
            title = self._wiki.shown["document", place.document]
            lines.append(f"{number}. [{title}, {place.heading}]({place.link})\n")
        return _under("Sources", lines)


def _named(method: str, identity: str, node: MethodNode) -> str:
    """The title of a node: its own, or the beginning of its text."""
    title = node.metadata.get("title") or node.metadata.get("name")
    return _short(str(title or node.text or f"{method} {identity}"))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1].rstrip()}…"


def _escaped(text: str) -> str:
    """A text as Markdown that shows it as it is: no link, tag, heading, list or table of its own."""
    plain = _INDENTED.sub("   ", _TURNING.sub("", text.strip()))
    return _LIST.sub(lambda each: f"{each[1]}\\{each[2]}", _MARKS.sub(r"\\\1", plain))


def _item(text: str) -> str:
    return f"- {' '.join(text.split())}\n"


def _under(heading: str, items: Sequence[str]) -> list[str]:
    return [f"## {heading}", *items] if items else []


def _page(parts: Iterable[str]) -> str:
    """Parts with an empty line between two; items of a list end with a line break and follow one another."""
    lines: list[str] = []
    for part in filter(str.strip, parts):
        if not part.endswith("\n"):
            part = f"{part}\n\n"
            if lines and not lines[-1].endswith("\n\n"):
                part = f"\n{part}"
        lines.append(part)
    return "".join(lines).rstrip("\n") + "\n"


def _paths(folder: str, titles: Mapping[Key, str]) -> dict[Key, str]:
    """The page of each key: its title as a name that every file system takes.

    Names that a file system might take for one, such as those that differ in capitals alone, get the
    beginning of the key's checksum.
    """
    names = {key: _file_name(title) for key, title in titles.items()}
    same = Counter(normalize("NFKC", name).casefold() for name in names.values())
    paths = {}
    for key, name in names.items():
        if same[normalize("NFKC", name).casefold()] > 1:  # no other name has an underscore
            name = f"{name}_{sha256(chr(0).join(key).encode()).hexdigest()[:16]}"
        paths[key] = f"{folder}/{name}.md"
    return paths


def _file_name(title: str) -> str:
    words = re.findall(r"[^\W_]+", normalize("NFC", title))
    name = "-".join(words).encode()[:_LONGEST_NAME].decode(errors="ignore").strip("-") or "page"
    return f"{name}-page" if _RESERVED.match(name) else name

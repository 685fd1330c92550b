"""DOCX, PPTX, ODT and EPUB: headings, slides and chapters, by the one way of `flow`."""

from __future__ import annotations

import posixpath
import re
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from stratagraph.ingest.files.flow import BREAK, Equation, Flow
from stratagraph.ingest.files.html import Page
from stratagraph.ingest.files.reading import TAGS, FileText, Unreadable, Writer
from stratagraph.ingest.files.xml import Package

_LEFT_OUT = {
    "Fallback", "alt", "annotation", "binData", "binary-data", "del", "delText", "deletion", "fldData",
    "forms", "hidden-paragraph", "hidden-text", "instrText", "moveFrom", "note-citation", "numPr",
    "pPrChange", "rPrChange", "script", "scripts", "sdtEndPr", "sdtPr", "sectPr", "tabLst", "tabs", "tblGrid",
    "tblPr", "tcPrChange", "tracked-changes", "trPr",
}  # fmt: skip
_KINDS = {
    "p": "block", "h": "block", "tbl": "table", "table": "table", "tr": "row", "table-row": "row",
    "tc": "cell", "table-cell": "cell", "covered-table-cell": "cell", "txbxContent": "beside",
    "frame": "beside", "custom-shape": "beside", "ellipse": "beside", "rect": "beside", "note": "note",
    "footnote": "note", "endnote": "note",
}  # fmt: skip
_SIGNS = {
    "tab": "\t", "ptab": "\t", "s": " ", "br": BREAK, "cr": BREAK, "line-break": BREAK, "noBreakHyphen": "-",
}  # fmt: skip
_ON, _OFF = ("1", "true", "on"), ("0", "false", "off")
Styles = dict[str, tuple[int, bool]]
"""The level of headings in a style, or 0, and whether it hides text."""


def _styles(elements: Iterable[tuple[str, dict[str, str], str]]) -> Styles:
    """The styles of a DOCX, which are based on each other."""
    levels, hidden, based = dict[str, int](), dict[str, bool](), dict[str, str]()
    style = ""
    for name, attributes, _ in elements:
        stated = attributes.get("val", "")
        if name == "style":
            style = attributes.get("styleId", "")
            based[style] = ""
        elif name == "basedOn":
            based[style] = stated
        elif name == "vanish":
            hidden[style] = stated not in _OFF
        elif name == "name" and (heading := re.fullmatch(r"heading (\d)", stated, re.IGNORECASE)):
            levels[style] = int(heading[1])
        elif name == "outlineLvl":
            levels.setdefault(style, _level(stated))
    styles: Styles = {}
    for style in based:
        line = [style]
        while len(line) < 20 and based.get(line[-1]):
            line.append(based[line[-1]])
        level = next((levels[each] for each in line if each in levels), 0)
        styles[style] = level, next((hidden[each] for each in line if each in hidden), False)
    return styles


def _level(outline: str) -> int:
    """The level of a heading, or 0, by its outline, which counts from 0 and has 9 for text."""
    return (int(outline) + 1) % 10 if re.fullmatch("[0-9]", outline) else 0


class _OfficePart:
    """Writes the text of a part of a document. `notes` stand where the text refers to them."""

    def __init__(self, package: Package, name: str, flow: Flow, styles: Styles | None = None) -> None:
        self.notes: dict[str, str] = {}
        self.is_hidden = False
        self._package = package
        self._name = name
        self._flow = flow
        self._is_open = styles is None  # OpenDocument, in which all that paragraphs hold is text
        self._styles = {} if styles is None else styles
        self._style = ""  # whose properties are read
        self.links = package.links(name)
        self._paragraphs = 0
        self._path: list[str] = []
        self._hides_block = self._hides_run = False

    def read(self) -> None:
        """Read the part from end to end."""
        skipped = 0  # depth of the element that is left out
        depth = 0
        equation: Equation | None = None
        for event, name, attributes in self._package.events(self._name):
            if event == "text":
                if not skipped:
                    (equation.add if equation else self._text)(name)
                continue
            depth += 1 if event == "start" else -1
            if skipped:
                if depth < skipped:
                    skipped = 0
                    del self._path[depth:]
            elif event == "start":
                if (above := self._levels_out(name, attributes)) is not None:
                    skipped = max(depth - above, 1)
                    continue
                self._path.append(name)
                if equation or name in ("oMath", "math"):
                    equation = equation or Equation()
                    equation.begin(name, attributes.get("val", "") if name == "chr" else "")
                else:
                    self._start(name, attributes)
            else:
                self._path.pop()
                if equation is None:
                    self._end(name)
                elif equation.end(name):
                    self._add(equation.text)
                    equation = None
        self._flow.block()

    def _levels_out(self, name: str, attributes: dict[str, str]) -> int | None:
        """How many levels above an element something hidden begins that holds it, if it is hidden."""
        if name == "sld":
            self.is_hidden = attributes.get("show") in _OFF
        if name == "cNvPr" and attributes.get("hidden") in _ON:
            return 2
        if name == "ph":
            kind = attributes.get("type")
            return 3 if kind == "sldNum" or (kind != "body" and "notesSlides/" in self._name) else None
        is_left_out = (
            name in _LEFT_OUT
            or (name == "sld" and self.is_hidden)
            or (name in ("footnote", "endnote") and attributes.get("type", "normal") != "normal")
            or (name != "text-properties" and attributes.get("display") == "none")
            or (self._is_open and self._styles.get(attributes.get("style-name", ""), (0, False))[1])
        )
        return 0 if is_left_out else None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        flow, stated = self._flow, attributes.get("val", "")
        if name in _KINDS:
            flow.begin(_KINDS[name])
        if name in _SIGNS:
            self._add(_SIGNS[name])
        match name:
            case "p" | "h":
                self._paragraphs += 1
                self._hides_block = False
                outline = attributes.get("outline-level", "1")
                flow.heading(0 if name == "p" else int(outline) if outline.isdigit() else 1)
            case "r":
                self._hides_run = self._hides_block
            case "pStyle":
                level, self._hides_block = self._styles.get(stated, (0, False))
                flow.heading(level)
            case "rStyle":
                self._hides_run |= self._styles.get(stated, (0, False))[1]
            case "outlineLvl":
                flow.heading(_level(stated))
            case "vanish" if self._path[-3:-1] == ["r", "rPr"]:
                self._hides_run = stated not in _OFF
            case "footnoteReference" | "endnoteReference":
                self._add(self.notes.pop(name.removesuffix("Reference") + attributes.get("id", ""), ""))
            case "footnote" | "endnote":
                self.notes[name + attributes.get("id", "")] = ""
            case "gridSpan" if re.fullmatch("[0-9]{1,2}", stated):
                flow.span(int(stated))
            case "style":
                self._style = attributes.get("name", "")
            case "text-properties" if attributes.get("display") == "none":
                self._styles[self._style] = 0, True
            case "chart" | "relIds" | "object":
                self._inner(name, attributes)

    def _inner(self, name: str, attributes: dict[str, str]) -> None:
        """Write a chart, diagram or formula that is a file of its own beside the paragraph."""
        target = self.links.get(attributes.get("dm") or attributes.get("id", ""), ("", ""))[1]
        self._flow.begin("beside")
        if name == "chart":
            _write_chart(self._package, target, self._flow)
        elif name == "relIds":
            _OfficePart(self._package, target, self._flow, self._styles).read()
        else:
            target = posixpath.normpath(f"{attributes.get('href', '')}/content.xml")
            _OfficePart(self._package, target, self._flow).read()
        self._flow.end("beside")

    def _text(self, text: str) -> None:
        if self._path[-1:] == ["t"] or (self._is_open and self._paragraphs):
            self._add(text)

    def _add(self, text: str) -> None:
        if not self._hides_run:
            self._flow.text(text)

    def _end(self, name: str) -> None:
        if name not in _KINDS:
            return
        note = self._flow.end(_KINDS[name])
        if name == "note":
            self._flow.text(f" [{note}]" if note else "")
        elif _KINDS[name] == "note":
            self.notes[next(reversed(self.notes))] = f" [{note}]" if note else ""
        elif _KINDS[name] == "block":
            self._flow.heading(0)
            self._paragraphs -= 1
            self._hides_run = False


def _write_chart(package: Package, name: str, flow: Flow) -> None:
    """Write the titles of a chart, and a line for each category."""
    parts = {"tx": "tx", "cat": "cat", "xVal": "cat", "val": "val", "yVal": "val"}
    series: list[dict[str, dict[str, str]]] = []
    part = place = ""
    for element, attributes, text in package.elements(name, "p", "t", "ser", *parts, "pt", "v"):
        if element == "p":
            flow.block()
        elif element == "t":
            flow.text(text)
        elif element == "ser":
            series.append(defaultdict(dict))
        elif element in parts:
            part, place = parts[element], ""
        elif element == "pt":
            place = attributes.get("idx", "")
        elif series and part:
            own = series[-1][part]
            own[place] = f"{own.get(place, '')} {text}".strip()
    lines: dict[str, list[str]] = {}
    for each in series:
        label = " ".join(each["tx"].values())
        for place, value in each["val"].items():
            line = lines.setdefault(place, [each["cat"].get(place, "")])
            line.append(f"{label}: {value}" if label else value)
    flow.block()
    flow.text(BREAK.join("; ".join(filter(None, line)) for line in lines.values()))


def _write_furniture(package: Package, names: Iterable[str], styles: Styles | None, writer: Writer) -> None:
    """Write the blocks of headers or footers, each once."""
    own = Writer()
    for name in names:
        _OfficePart(package, name, Flow(own), styles).read()
    for block in dict.fromkeys(own.file_text({}).text.split("\n\n")):
        writer.add(block)


def _main(package: Package, usual: str) -> str:
    """The name of the main part of an Office document."""
    links = package.links("").values()
    return next((name for kind, name in links if kind == "officeDocument" and name in package), usual)


def from_docx(path: Path) -> FileText:
    """Paragraphs and tables in order; a heading begins a section with `headings`.

    Headers stand before and footers behind the text, once; notes stand at their place in brackets.
    """
    with zipfile.ZipFile(path) as archive:
        package, writer, styles = Package(archive), Writer(), Styles()
        body = _OfficePart(package, _main(package, "word/document.xml"), Flow(writer), styles)
        links = sorted(body.links.values(), key=lambda link: (link[0] != "styles", link))
        for kind, name in links:
            if kind == "styles":
                styles |= _styles(package.elements(name, "style", "name", "basedOn", "outlineLvl", "vanish"))
            elif kind in ("footnotes", "endnotes"):
                part = _OfficePart(package, name, Flow(Writer()), styles)
                part.read()
                body.notes |= part.notes
            elif kind == "aFChunk":
                writer.note(f"a document inside is not read: {posixpath.basename(name)}")
        _write_furniture(package, (name for kind, name in links if kind == "header"), styles, writer)
        body.read()
        _write_furniture(package, (name for kind, name in links if kind == "footer"), styles, writer)
        return writer.file_text(package.properties("docProps/core.xml"))


def from_pptx(path: Path) -> FileText:
    """Slides in order, each a section with its number as `slide`; notes follow their slide."""
    with zipfile.ZipFile(path) as archive:
        package, writer, count = Package(archive), Writer(), 0
        main = _main(package, "ppt/presentation.xml")
        links = package.links(main)
        for count, (_, attributes, _) in enumerate(package.elements(main, "sldId"), 1):
            name = links.get(attributes.get("id", ""), ("", ""))[1]
            slide = _OfficePart(package, name, Flow(writer), {})
            writer.section({"slide": count})
            slide.read()
            if slide.is_hidden or name not in package:
                writer.note(f"slide {count} is {'hidden' if slide.is_hidden else 'missing'}, and is left out")
                continue
            for kind, target in slide.links.values():
                if kind == "notesSlide":
                    _OfficePart(package, target, Flow(writer), {}).read()
        return writer.file_text({**package.properties("docProps/core.xml"), "slides": count})


def from_odt(path: Path) -> FileText:
    """Paragraphs and tables in order; a heading begins a section with `headings`.

    Headers and footers stand before the text, once; notes stand at their place in brackets.
    """
    with zipfile.ZipFile(path) as archive:
        package, writer = Package(archive), Writer()
        if b"encryption-data" in package.take("META-INF/manifest.xml"):
            raise Unreadable("ODT, encrypted; save it without a password")
        _write_furniture(package, ["styles.xml"], None, writer)
        _OfficePart(package, "content.xml", Flow(writer)).read()
        return writer.file_text(package.properties("meta.xml"))


def from_epub(path: Path) -> FileText:
    """The chapters of a book in reading order; a heading begins a section with `headings`."""
    writer, tags = Writer(), TAGS
    with zipfile.ZipFile(path) as archive:
        package = Package(archive)
        contents = package.elements("META-INF/container.xml", "rootfile")[0][1]["full-path"]
        elements = package.elements(contents, "item", "itemref")
        items = {each.get("id", ""): each for name, each, _ in elements if name == "item"}
        encrypted = package.elements("META-INF/encryption.xml", "CipherReference")
        locked = {unquote(each.get("URI", "")) for _, each, _ in encrypted}
        for item in (items.get(each.get("idref", ""), {}) for name, each, _ in elements if name == "itemref"):
            href = unquote(item.get("href", "").partition("#")[0])
            name = posixpath.normpath(posixpath.join(posixpath.dirname(contents), href))
            if "nav" in item.get("properties", "").split() or item.get("media-type", "").startswith("image/"):
                continue
            if name in locked:
                raise Unreadable("EPUB, encrypted (DRM)")
            if name not in package:
                writer.note(f"chapter {href} is missing")
                continue
            content = package.take(name)
            is_utf16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
            writer.section({})
            text = content.decode("utf-16" if is_utf16 else "utf-8-sig", "replace")
            tags = Page(text, writer, is_xml=True, tags=tags).tags
        return writer.file_text(Package(archive).properties(contents))

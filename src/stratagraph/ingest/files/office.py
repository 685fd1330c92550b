"""DOCX, PPTX, ODT and EPUB: headings, slides and chapters, by the one way of `flow`."""

from __future__ import annotations

import posixpath
import re
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from stratagraph.ingest.files.flow import BREAK, Flow, Term
from stratagraph.ingest.files.html import Page
from stratagraph.ingest.files.reading import TAGS, FileText, Unreadable, Writer, reading
from stratagraph.ingest.files.xml import Package

_LEFT_OUT = {
    "alt", "annotation", "binData", "binary-data", "del", "delText", "deletion", "fldData", "forms",
    "hidden-paragraph", "hidden-text", "instrText", "moveFrom", "note-citation", "numPr", "pPrChange",
    "rPrChange", "script", "scripts", "sdtEndPr", "sdtPr", "sectPr", "tabLst", "tabs", "tblGrid",
    "tblPr", "tcPrChange", "tracked-changes", "trPr",
}  # fmt: skip
_KINDS = {
    "p": "block", "h": "block", "tbl": "table", "table": "table", "tr": "row", "table-row": "row",
    "tc": "cell", "table-cell": "cell", "covered-table-cell": "cell", "txbxContent": "beside",
    "shape": "beside", "note": "note", "footnote": "note", "endnote": "note",
}  # fmt: skip
_SIGNS = {
    "tab": "\t", "ptab": "\t", "s": " ", "br": BREAK, "cr": BREAK, "line-break": BREAK, "noBreakHyphen": "-",
    "rt": "(", "ruby-text": "(",
}  # fmt: skip
_ON, _OFF = ("1", "true", "on"), ("0", "false", "off")
_SYMBOL = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz\xa3\xb0\xb1\xb3\xb4\xb5\xb7\xb9\xbb\xae",
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ≤°±≥×∝•≠≈→",
        strict=True,
    )
)
"""Letters of the font Symbol, which Office writes as their codes."""


class _Styles:
    """The heading levels of styles, and which of them hide text."""

    def __init__(self) -> None:
        self.hidden: dict[str, bool] = {}
        self.levels: dict[str, int] = {}
        self._based: dict[str, str] = {}

    def read(self, elements: Iterable[tuple[str, dict[str, str], str]]) -> None:
        """Take in the styles of a DOCX."""
        style = ""
        for name, attributes, _ in elements:
            stated = attributes.get("val", "")
            if name == "style":
                style = attributes.get("styleId", "")
            elif name == "basedOn":
                self._based[style] = stated
            elif name == "vanish":
                self.hidden[style] = stated not in _OFF
            elif name == "name" and (heading := re.fullmatch(r"heading (\d)", stated, re.IGNORECASE)):
                self.levels[style] = int(heading[1])
            elif name == "outlineLvl":
                self.levels.setdefault(style, _level(stated))

    def of(self, style: str) -> tuple[int, bool]:
        """The level of a style, or 0, and whether it hides text; styles are based on each other."""
        styles = [style]
        while len(styles) < 20 and (style := self._based.get(style, "")):
            styles.append(style)
        level = next((self.levels[each] for each in styles if each in self.levels), 0)
        return level, next((self.hidden[each] for each in styles if each in self.hidden), False)


def _level(outline: str) -> int:
    """The level of a heading, or 0, by its outline, which counts from 0 and has 9 for text."""
    return (int(outline) + 1) % 10 if re.fullmatch("[0-9]", outline) else 0


class _Part:
    """Writes the text of a part of a document. `notes` stand where the text refers to them."""

    def __init__(
        self,
        package: Package,
        name: str,
        flow: Flow,
        writer: Writer,
        styles: _Styles,
        *,
        is_open: bool = False,
    ) -> None:
        self.notes: dict[str, str] = {}
        self.is_hidden = self.has_equation = False
        self._package = package
        self._name = name
        self._flow = flow
        self._writer = writer
        self._styles = styles
        self._style = ""  # whose properties are read
        self._is_open = is_open  # OpenDocument, in which all that paragraphs hold is text
        self._paragraphs = 0
        self._path: list[str] = []
        self._fields: list[bool] = []  # of each open field, whether its code is over
        self._taken: list[bool] = []  # of each open choice, whether one alternative was read
        self._covered = [0]  # columns right of the last cell that it covers, in each open table
        self._hides_block = self._hides_run = self._is_raised = self._is_inline = False

    def read(self) -> None:
        """Read the part from end to end."""
        depth = skipped = 0
        equation: list[Term] = []
        for event, name, attributes in self._package.events(self._name):
            if event == "text":
                if equation and not skipped and name.strip():
                    equation[-1].parts.append(name)
                elif not skipped:
                    self._text(name)
                continue
            depth += 1 if event == "start" else -1
            if skipped:
                if depth < skipped:
                    skipped = 0
                    del self._path[depth:]
            elif event == "start":
                if equation or name in ("oMath", "math"):
                    equation.append(Term(name, attributes))
                    if len(equation) > 1:
                        equation[-2].parts.append(equation[-1])
                elif (above := self._start(name, attributes)) is not None:
                    skipped = max(depth - above, 1)
                    continue
                self._path.append(name)
            else:
                self._path.pop()
                if not equation:
                    self._end(name)
                elif len(equation) == 1:
                    self._flow.text(str(equation[0]))
                    self.has_equation = True
                if equation:
                    equation.pop()
        self._flow.block()

    def _start(self, name: str, attributes: dict[str, str]) -> int | None:
        """Begin an element. A number says to skip the rest of the element so many levels above it."""
        flow, stated, path = self._flow, attributes.get("val", ""), self._path
        if name in _LEFT_OUT or attributes.get("hMerge") in _ON or self._is_left_out(name, attributes):
            return 0
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
                self._hides_run, self._is_raised = self._hides_block, False
            case "pStyle":
                level, self._hides_block = self._styles.of(stated)
                flow.heading(level)
            case "rStyle":
                self._hides_run |= self._styles.of(stated)[1]
            case "outlineLvl":
                flow.heading(_level(stated))
            case "vanish" if path[-2:] == ["r", "rPr"]:
                self._hides_run = stated not in _OFF
            case "vertAlign" if path[-2:] == ["r", "rPr"]:
                self._is_raised = stated == "superscript"
            case "sym":
                self._add(_symbol(attributes.get("char", ""), attributes.get("font", "")))
            case "fldChar" if attributes.get("fldCharType") == "begin":
                self._fields.append(False)
            case "fldChar" if self._fields and attributes.get("fldCharType") == "separate":
                self._fields[-1] = True
            case "fldChar" if self._fields:
                self._fields.pop()
            case "footnoteReference" | "endnoteReference":
                self._add(self.notes.pop(name.removesuffix("Reference") + attributes.get("id", ""), ""))
            case "footnote" | "endnote":
                self.notes[name + attributes.get("id", "")] = ""
            case "tc" | "table-cell":
                columns = attributes.get("gridSpan") or attributes.get("number-columns-spanned") or "1"
                flow.cell(int(columns), is_merged=attributes.get("vMerge") in _ON)
                self._covered[-1] = int(columns)
            case "gridSpan" if stated.isdigit():
                flow.cell(int(stated))
            case "covered-table-cell" | "vMerge":
                flow.cell(is_merged=stated != "restart")
            case "table" | "tbl":
                self._covered.append(0)
            case "AlternateContent":
                self._taken.append(False)
            case "style":
                self._style = attributes.get("name", "")
            case "text-properties" if attributes.get("display") == "none":
                self._styles.hidden[self._style] = True
            case "cNvPr" if attributes.get("hidden") in _ON:
                return 2
            case "ph":
                kind = attributes.get("type")
                return 3 if kind == "sldNum" or (kind != "body" and "notesSlides/" in self._name) else None
            case "chart" | "relIds" | "object" | "altChunk":
                self._inner(name, attributes)
        return None

    def _is_left_out(self, name: str, attributes: dict[str, str]) -> bool:
        """Whether an element is hidden, covered, or another form of what was read."""
        if name in ("Choice", "Fallback") and self._taken:
            taken, self._taken[-1] = self._taken[-1], True
            return taken
        if name == "sld":
            self.is_hidden = attributes.get("show") in _OFF
            return self.is_hidden
        if name == "covered-table-cell" and self._covered[-1] > 0:
            self._covered[-1] -= 1
            return True
        if name in ("footnote", "endnote") and attributes.get("type", "normal") != "normal":
            return True
        is_hidden = attributes.get("display") == "none" and name != "text-properties"
        return is_hidden or (self._is_open and self._styles.of(attributes.get("style-name", ""))[1])

    def _inner(self, name: str, attributes: dict[str, str]) -> None:
        """Write a chart, diagram or formula that is a file of its own."""
        links = self._package.links(self._name)
        target = links.get(attributes.get("dm" if name == "relIds" else "id", ""), ("", ""))[1]
        if name == "altChunk":
            self._writer.note(f"a document inside is not read: {posixpath.basename(target)}")
        elif name == "object":
            target = posixpath.normpath(f"{attributes.get('href', '')}/content.xml")
            part = _Part(self._package, target, self._flow, self._writer, _Styles(), is_open=True)
            part.read()
            self._is_inline = part.has_equation
        else:
            self._flow.begin("beside")
            if name == "chart":
                _write_chart(self._package, target, self._flow)
            else:
                _Part(self._package, target, self._flow, self._writer, self._styles).read()
            self._flow.end("beside")

    def _text(self, text: str) -> None:
        if self._path[-1:] == ["t"] or (self._is_open and self._paragraphs):
            if self._is_raised:
                self._flow.raise_digits()
                self._is_raised = False
            self._add(text)

    def _add(self, text: str) -> None:
        if not self._hides_run and all(
            self._fields[:-1]
        ):  # a field in the code of another is part of the code
            self._flow.text(text)

    def _end(self, name: str) -> None:
        if name in ("rt", "ruby-text"):
            self._add(")")
        if name not in _KINDS:
            if name == "AlternateContent":
                self._taken.pop()
            return
        kind = _KINDS[name]
        if name == "shape" and self._is_inline:
            self._flow.text(self._flow.end(kind, inline=True))
            self._is_inline = False
            return
        note = self._flow.end(kind, inline=kind == "note")
        if name == "note":
            self._flow.text(f" [{note}]" if note else "")
        elif kind == "note":
            self.notes[next(reversed(self.notes))] = f" [{note}]" if note else ""
        elif kind == "block":
            self._flow.heading(0)
            self._paragraphs -= 1
            self._hides_run = False
            self._fields = [True] * len(self._fields)  # a code that does not end would hide the rest
        elif kind == "table":
            self._covered.pop()
        else:
            self._covered[-1] = self._covered[-1] - 1 if kind == "cell" else 0


def _symbol(code: str, font: str) -> str:
    """A sign that is given as its code in a font; fonts of symbols have theirs from U+F000 on."""
    sign = chr(int(code, 16) & 0xFFFF) if re.fullmatch("[0-9A-Fa-f]{1,6}", code) else ""
    if "\uf000" <= sign <= "\uf0ff" and font == "Symbol":
        sign = _SYMBOL.get(chr(ord(sign) - 0xF000), chr(ord(sign) - 0xF000))
    return "" if "\ud800" <= sign <= "\uf8ff" else sign


def _write_chart(package: Package, name: str, flow: Flow) -> None:
    """Write the titles of a chart, and a line for each category."""
    titles: list[str] = []
    series: list[dict[str, dict[str, str]]] = []
    part = place = ""
    for element, attributes, text in package.elements(
        name, "p", "t", "ser", "tx", "cat", "val", "xVal", "yVal", "pt", "v"
    ):
        match element:
            case "p":
                titles.append("")
            case "t" if titles:
                titles[-1] += text
            case "ser":
                series.append({"tx": {}, "cat": {}, "val": {}})
            case "tx" | "cat" | "val" | "xVal" | "yVal":
                part, place = {"xVal": "cat", "yVal": "val"}.get(element, element), ""
            case "pt":
                place = attributes.get("idx", "")
            case "v" if series and text:
                series[-1][part][place] = f"{series[-1][part].get(place, '')} {text}".strip()
    lines: dict[str, list[str]] = {}
    for each in series:
        label = " ".join(each["tx"].values())
        for place, value in each["val"].items():
            line = lines.setdefault(_plain(each["cat"].get(place, "")), [])
            line.append(f"{label}: {_plain(value)}" if label else _plain(value))
    table = BREAK.join("; ".join(filter(None, [name, *values])) for name, values in lines.items())
    for block in (*titles, table):
        flow.text(block)
        flow.block()


def _plain(number: str) -> str:
    """A number without what binary fractions add to it; other text as it is."""
    try:
        return f"{float(number):.15g}"
    except ValueError:
        return number


def _furniture(
    package: Package, names: Iterable[str], styles: _Styles, *, is_open: bool = False
) -> dict[str, None]:
    """The blocks of headers or footers, each once."""
    writer = Writer()
    for name in names:
        _Part(package, name, Flow(writer), writer, styles, is_open=is_open).read()
    return dict.fromkeys(writer.file_text({}).text.split("\n\n"))


def _main(package: Package, usual: str) -> str:
    """The name of the main part of an Office document."""
    links = package.links("").values()
    return next((name for kind, name in links if kind == "officeDocument" and name in package), usual)


@reading("DOCX")
def from_docx(path: Path) -> FileText:
    """Paragraphs and tables in order; a heading begins a section with `headings`.

    Headers stand before and footers behind the text, once; notes stand at their place in brackets.
    """
    with zipfile.ZipFile(path) as archive:
        package, writer, styles, notes = Package(archive), Writer(), _Styles(), dict[str, str]()
        main = _main(package, "word/document.xml")
        links = sorted(package.links(main).values())
        for kind, name in sorted(links, key=lambda link: link[0] != "styles"):
            if kind == "styles":
                styles.read(package.elements(name, "style", "name", "basedOn", "outlineLvl", "vanish"))
            elif kind in ("footnotes", "endnotes"):
                part = _Part(package, name, Flow(Writer()), writer, styles)
                part.read()
                notes |= part.notes
        for block in _furniture(package, (name for kind, name in links if kind == "header"), styles):
            writer.add(block)
        body = _Part(package, main, Flow(writer), writer, styles)
        body.notes = notes
        body.read()
        for block in _furniture(package, (name for kind, name in links if kind == "footer"), styles):
            writer.add(block)
        return writer.file_text(package.properties("docProps/core.xml"))


@reading("PPTX")
def from_pptx(path: Path) -> FileText:
    """Slides in order, each a section with its number as `slide`; notes follow their slide."""
    with zipfile.ZipFile(path) as archive:
        package, writer, count = Package(archive), Writer(), 0
        main = _main(package, "ppt/presentation.xml")
        links = package.links(main)
        for count, (_, attributes, _) in enumerate(package.elements(main, "sldId"), 1):
            name = links.get(attributes.get("id", ""), ("", ""))[1]
            slide = _Part(package, name, Flow(writer), writer, _Styles())
            writer.section({"slide": count})
            slide.read()
            if slide.is_hidden or name not in package:
                writer.note(f"slide {count} is {'hidden' if slide.is_hidden else 'missing'}, and is left out")
                continue
            for kind, target in package.links(name).values():
                if kind == "notesSlide":
                    _Part(package, target, Flow(writer), writer, _Styles()).read()
        return writer.file_text({**package.properties("docProps/core.xml"), "slides": count})


@reading("ODT")
def from_odt(path: Path) -> FileText:
    """Paragraphs and tables in order; a heading begins a section with `headings`.

    Headers and footers stand before the text, once; notes stand at their place in brackets.
    """
    with zipfile.ZipFile(path) as archive:
        package, writer, styles = Package(archive), Writer(), _Styles()
        if b"encryption-data" in package.take("META-INF/manifest.xml"):
            raise Unreadable("ODT, encrypted; save it without a password")
        for block in _furniture(package, ["styles.xml"], styles, is_open=True):
            writer.add(block)
        _Part(package, "content.xml", Flow(writer), writer, styles, is_open=True).read()
        return writer.file_text(package.properties("meta.xml"))


@reading("EPUB")
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
        for _, reference, _ in (each for each in elements if each[0] == "itemref"):
            item = items.get(reference.get("idref", ""), {})
            href = unquote(item.get("href", "").partition("#")[0])
            name = posixpath.normpath(posixpath.join(posixpath.dirname(contents), href))
            if "nav" in item.get("properties", "").split() or item.get("media-type", "").startswith("image/"):
                continue
            if name in locked:
                raise Unreadable("EPUB, encrypted (DRM)")
            if name not in package:
                writer.note(f"chapter {href or reference.get('idref')} is missing")
                continue
            own = Writer()
            tags = Page(_decoded(package.take(name)), own, is_xml=True, tags=tags).tags
            chapter = own.file_text({})
            borders = [0, *(section.start for section in chapter.sections), len(chapter.text)]
            stated = [{}, *(section.metadata for section in chapter.sections)]
            for (start, end), metadata in zip(pairwise(borders), stated, strict=True):
                if chapter.text[start:end].strip():
                    writer.section(metadata)
                    writer.add(chapter.text[start:end])
        return writer.file_text(Package(archive).properties(contents))


def _decoded(content: bytes) -> str:
    """A chapter as text, by its byte order mark or its declaration."""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    declared = re.match(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding=[\"']([\w.-]+)", content)
    try:
        return content.decode(declared[1].decode() if declared else "utf-8", "replace")
    except LookupError:
        return content.decode("utf-8", "replace")

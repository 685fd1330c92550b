"""HTML: every visible word once, in order, from pages however broken.

The page is read from tag to tag, without a tree, in time and memory proportional to its size. The parser of
the standard library takes time with the square of unfinished tags and comments, and reads them in other ways
from one release of Python to the next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from html import unescape

from stratagraph.ingest.files.flow import BREAK, Flow, Term
from stratagraph.ingest.files.reading import TAGS, FileText, Unreadable, Writer

_OTHER = r"!--|!\[CDATA\[|[!?/][^>]*+>"
_TOKEN = re.compile(
    r"<(?:(/?)([a-zA-Z][^\s/>]*)"
    r"(?:((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+){0,600}+)>|([^>]*+)>)"
    rf"|{_OTHER})"
)
_UNQUOTED = re.compile(rf"<(?:(/?)([a-zA-Z][^\s/>]*)()([^>]*+)>|{_OTHER})")
_MOST_CUT = 1000  # tags with a quote that never ends, from which on no quote is believed
_ATTRIBUTE = re.compile(r"([^\s=\"'/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'][^\s]*)))?")
_MAY_HIDE = re.compile(r"hidden|display|visibility", re.IGNORECASE)
_HIDES = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_REPLACED = re.compile(r"[^<]{0,2000}+</del\s*>\s*<ins\b", re.IGNORECASE)
_RAW = {"iframe", "noembed", "script", "style", "textarea", "title"}
_CELLS = {"td", "th"}
_BLOCKS = (
    "address", "article", "aside", "blockquote", "body", "caption", "center", "colgroup", "dd",
    "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
    "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "html", "legend", "li",
    "main", "menu", "nav", "noframes", "noscript", "ol", "optgroup", "option", "p", "search", "section",
    "summary", "tbody", "text", "tfoot", "thead", "ul",
)  # fmt: skip
_KINDS = {
    **dict.fromkeys(_BLOCKS, "block"),
    **dict.fromkeys(("listing", "pre", "xmp"), "pre"),
    **dict.fromkeys(_CELLS, "cell"),
    "table": "table",
    "tr": "row",
}
_INLINE = {
    "a", "abbr", "acronym", "b", "basefont", "bdi", "bdo", "big", "blink", "cite", "code", "data",
    "del", "dfn", "em", "font", "i", "ins", "kbd", "label", "link", "mark", "meta", "nobr", "output",
    "q", "rb", "rp", "rt", "ruby", "s", "samp", "slot", "small", "source", "span", "strike", "strong",
    "sub", "sup", "textpath", "time", "track", "tspan", "tt", "u", "var", "wbr",
}  # fmt: skip
_VOID = {
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input",
    "keygen", "link", "meta", "param", "source", "track", "wbr",
}  # fmt: skip
_SILENT = {
    "applet", "audio", "canvas", "datalist", "nav", "noscript", "object", "option", "rp", "select",
    "template", "video",
}  # fmt: skip
_SILENT_IN_PICTURES = {"defs", "desc", "metadata", "symbol", "title"}
_KNOWN = {*_KINDS, *_INLINE, *_SILENT, *_RAW, "math"}
_WITH_FOOTERS = (
    "article", "aside", "blockquote", "details", "dialog", "fieldset", "figure", "main", "section", "td",
)  # fmt: skip
_BORDERS = {"table", "caption", *_CELLS}
_TABLE = {"table", "tbody", "tfoot", "thead", "tr", *_CELLS}
_ENDED: dict[str, tuple[Container[str], Container[str]]] = {
    "li": ({"li"}, {"ul", "ol", "menu", "dir"}),
    "p": ({"p"}, _BORDERS),
    "option": ({"option"}, {"select", "datalist"}),
    "tr": ({"tr", "caption", "colgroup"}, {"table"}),
    **dict.fromkeys(_CELLS, ({*_CELLS, "caption"}, {"table", "tr"})),
    **dict.fromkeys(("dt", "dd"), ({"dt", "dd"}, {"dl"})),
    **dict.fromkeys(("tbody", "tfoot", "thead"), ({"tbody", "tfoot", "thead", "caption"}, {"table"})),
}
"""What a start tag ends, since end tags may be missing, and the elements inside which it does so."""
_REACH = 100  # open elements among which the one that a tag ends is looked for
_MOST_COVERED = 1000  # columns or rows of a cell


def from_html(text: str) -> FileText:
    """The visible text; a heading begins a section with `headings`."""
    writer = Writer()
    page = Page(text, writer, is_xml=text.lstrip("\ufeff \t\r\n").startswith("<?xml"))
    document = writer.file_text({"title": page.title})
    if not document.text:
        raise Unreadable("HTML without any text")
    return document


class Page:
    """Writes the visible text of a page. In XML, `<a/>` is an element without content.

    Raises `Unreadable` if there are more than `tags` tags. Attributes are then the page's `title`, or "", and
    the `tags` that may still come.
    """

    def __init__(self, markup: str, writer: Writer, *, is_xml: bool = False, tags: int = TAGS) -> None:
        self.title = ""
        self.tags = tags
        self._markup = markup
        self._is_xml = is_xml
        self._flow = Flow(writer)
        self._open: list[str] = []  # blocks, and hidden elements
        self._counts: Counter[str] = Counter()
        self._hidden: int | None = None  # place of the outermost hidden element among the open ones
        self._equation: list[Term] = []
        self._in_reading = False  # of a ruby
        self._last: dict[str, int] = {}
        self._read(markup.rfind(">") + 1)

    def _read(self, end: int) -> None:
        markup, place, token, cuts = self._markup, 0, _TOKEN, 0
        while found := token.search(markup, place, end):
            if found.start() > place:
                self._data(markup[place : found.start()])
            place = found.end()
            slash, name, attributes, cut = found.groups()
            if name is None:
                place = self._beside(found[0], place)
                continue
            cuts += cut is not None
            token = _TOKEN if cuts <= _MOST_CUT else _UNQUOTED
            self.tags -= 1
            if self.tags < 0:
                raise Unreadable(f"HTML of more than {TAGS:,} tags")
            name, attributes = name.lower(), attributes or cut or ""
            is_empty = attributes.endswith("/") and (self._is_xml or self._counts["svg"] or self._equation)
            if slash:
                self._end(name)
            elif name in _RAW and not is_empty and not (name == "title" and self._counts["svg"]):
                place = self._raw(name, attributes, place)
            else:
                self._start(name, attributes, place)
                if is_empty and name not in _VOID:
                    self._end(name)
        self._data(markup[place:])  # what stands behind the last tag
        self._end("math")
        self._close(0)
        self._flow.block()

    def _beside(self, found: str, place: int) -> int:
        """Where a comment ends, or a part of XML that is text as it stands."""
        mark = {"<!--": "-->", "<![CDATA[": "]]>"}.get(found)
        if mark is None:
            return place
        start = place - 2 if mark == "-->" else place  # `<!-->` is a whole comment
        if mark not in self._last:
            self._last[mark] = self._markup.rfind(mark)
        if self._last[mark] < start:  # a comment that is never ended does not hide the rest of the page
            self._data(" ")
            return self._markup.find(">", place) + 1 or place
        end = self._markup.find(mark, start)
        if mark == "]]>" and self._hidden is None:
            self._text(self._markup[place:end])
        return end + len(mark)

    def _is_ended(self, name: str, place: int) -> bool:
        """Whether an end tag of a name comes later. Names that HTML does not have are not looked for."""
        if name not in _KNOWN or name in _ENDED:  # of these, the next one is an end
            return True
        if name not in self._last:
            ends = [each.start() for each in _end_tag(name).finditer(self._markup, place)]
            self._last[name] = ends[-1] if ends else -1
        return self._last[name] >= place

    def _raw(self, name: str, attributes: str, place: int) -> int:
        """Where an element ends in which tags are text."""
        found = _end_tag(name).search(self._markup, place) if self._is_ended(name, place) else None
        if found is None:
            return place if name in ("textarea", "title") else len(self._markup)
        text = self._markup[place : found.start()]
        if name == "title":
            self.title = self.title or " ".join(unescape(text).split())
        elif name == "textarea" and self._hidden is None and not _is_hidden(attributes):
            self._flow.begin("pre")
            self._data(text)
            self._flow.end("pre")
        return self._markup.find(">", found.start()) + 1 or len(self._markup)

    def _data(self, data: str) -> None:
        if self._hidden is None and data and data != "¶":  # the link of a heading to itself
            self._text(unescape(data) if "&" in data else data)

    def _text(self, text: str) -> None:
        if self._equation:
            self._equation[-1].parts.append(text.strip())
        else:
            self._flow.text(text)

    def _start(self, name: str, attributes: str, place: int) -> None:
        kind = _KINDS.get(name)
        if self._hidden is None and (self._equation or (name == "math" and self._is_ended(name, place))):
            self._equation.append(Term(name, _values(attributes)))
            if len(self._equation) > _REACH:
                raise Unreadable(f"HTML, an equation nested more than {_REACH} deep")
            if len(self._equation) > 1:
                self._equation[-2].parts.append(self._equation[-1])
            return
        if kind and self._counts["p"] and name not in ("option", "optgroup"):
            self._close_nearest(*_ENDED["p"])
        if name in _ENDED:
            self._close_nearest(*_ENDED[name])
        if self._hidden is not None:
            if name not in _VOID:
                self._push(name)
        elif self._is_left_out(name, attributes, place) and self._is_ended(name, place):
            if kind:
                self._flow.block()
            elif name not in _INLINE:
                self._flow.text(" ")
            self._hidden = len(self._open)
            self._push(name)
        elif kind:
            self._flow.begin(kind)
            self._push(name)
            if name[0] == "h" and name[1:].isdigit():
                self._flow.heading(int(name[1:]))
            elif name in _CELLS and "span" in attributes.lower():
                values = _values(attributes)
                self._flow.cell(*(_count(values.get(each, "")) for each in ("colspan", "rowspan")))
        elif name == "br":
            self._flow.text(BREAK)
        elif name in ("hr", "frame"):
            self._flow.block()
        elif name == "sup":
            self._flow.raise_digits()
        elif name in ("q", "rb", "rt"):
            self._mark(name, begins=True)
        elif name not in _INLINE and ":" not in name:
            self._flow.text(" ")
            if name == "svg":
                self._push(name)

    def _is_left_out(self, name: str, attributes: str, place: int) -> bool:
        if name in _SILENT or (name in _SILENT_IN_PICTURES and self._counts["svg"]):
            return True
        if name == "footer" and not any(self._counts[each] for each in _WITH_FOOTERS):
            return True
        if name == "del" and _REPLACED.match(self._markup, place):
            return True
        if name == "dialog" and "open" not in _values(attributes):
            return True
        return name not in ("html", "body") and _is_hidden(attributes)

    def _mark(self, name: str, *, begins: bool) -> None:
        """The quotes of a quotation, and the brackets of a reading, whose end tag may be missing."""
        if name == "q" or self._in_reading:
            self._flow.text('"' if name == "q" else ")")
        if name != "q":
            self._in_reading = begins and name == "rt"
            self._flow.text("(" if self._in_reading else "")

    def _end(self, name: str) -> None:
        if self._equation:
            if name == "math":
                self._flow.text(str(self._equation[0]))
                self._equation.clear()
            elif any(each.name == name for each in self._equation[1:]):
                while self._equation.pop().name != name:
                    pass
        elif not (self._counts[name] and self._close_nearest({name}, () if name in _TABLE else _BORDERS)):
            if self._hidden is not None:
                return
            if name in _KINDS:
                self._flow.block()
            elif name == "br":
                self._flow.text(BREAK)
            elif name in ("q", "rt", "ruby"):
                self._mark(name, begins=False)
            elif name not in _INLINE and ":" not in name:
                self._flow.text(" ")

    def _push(self, name: str) -> None:
        self._open.append(name)
        self._counts[name] += 1

    def _close_nearest(self, names: Container[str], borders: Container[str]) -> bool:
        """End the innermost open element of these names, if no border is inside it."""
        for place in range(len(self._open) - 1, max(len(self._open) - _REACH, 0) - 1, -1):
            if self._open[place] in names:
                self._close(place)
                return True
            if self._open[place] in borders:
                break
        return False

    def _close(self, place: int) -> None:
        """End the open elements from a place on, innermost first."""
        while len(self._open) > place:
            name = self._open.pop()
            self._counts[name] -= 1
            if self._hidden is None and name in _KINDS:
                self._flow.end(_KINDS[name])
                if name[0] == "h":
                    self._flow.heading(0)
            elif self._hidden == len(self._open):
                self._hidden = None


def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)


def _values(attributes: str) -> dict[str, str]:
    """Attributes by name; the first of a name counts."""
    return {name.lower(): "".join(own) for name, *own in reversed(_ATTRIBUTE.findall(attributes))}


def _is_hidden(attributes: str) -> bool:
    values = _values(attributes) if _MAY_HIDE.search(attributes) else {}
    return "hidden" in values or bool(_HIDES.search(values.get("style", "")))


def _count(value: str) -> int:
    return min(max(int(value), 1), _MOST_COVERED) if re.fullmatch("[0-9]{1,9}", value) else 1

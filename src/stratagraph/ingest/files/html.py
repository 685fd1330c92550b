"""HTML: every visible word once, in order, from pages however broken.

The page is read from tag to tag, without a tree, in time and memory proportional to its size. The parser of
the standard library takes time with the square of unfinished tags and comments, and reads them in other ways
from one release of Python to the next.
"""

from __future__ import annotations

import re
from html import unescape

from stratagraph.ingest.files.flow import BREAK, Equation, Flow
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
_MOST_NAMES = 200  # elements for whose ends a page is searched
_MOST_COVERED = 1000  # columns or rows of a cell
_RAW = {"iframe", "noembed", "script", "style", "title"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog",
    "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset",
    "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "main",
    "menu", "nav", "noframes", "ol", "p", "search", "section", "summary", "tbody", "text", "tfoot", "thead",
    "ul",
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(_BLOCKS, "block"),
    **dict.fromkeys(("listing", "pre", "textarea", "xmp"), "pre"),
    **dict.fromkeys(("td", "th"), "cell"),
    "table": "table",
    "tr": "row",
}
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "label", "link", "mark", "meta", "nobr", "output", "q", "rb", "rp", "rt", "ruby", "s",
    "samp", "slot", "small", "span", "strike", "strong", "sub", "sup", "time", "tspan", "tt", "u", "var",
    "wbr",
}  # fmt: skip
_SILENT = {
    "annotation", "annotation-xml", "applet", "audio", "canvas", "datalist", "defs", "desc", "metadata",
    "nav", "noscript", "object", "option", "select", "symbol", "template", "video",
}  # fmt: skip
_WITH_FOOTERS = {"article", "aside", "blockquote", "details", "dialog", "main", "section"}
_ROWS = {"tbody", "tfoot", "thead", "tr"}
_ENDED_BY = {
    "p": set(_KINDS),
    "li": {"li"},
    "option": {"datalist", "optgroup", "option", "select"},
    "tr": _ROWS,
    "td": {"td", "th", *_ROWS},
    "th": {"td", "th", *_ROWS},
    "dd": {"dd", "dt"},
    "dt": {"dd", "dt"},
}
"""What ends an element whose end tag may be missing, beside the end of the element around it."""
_CONTAINERS = set(_KINDS) - set(_ENDED_BY) - _ROWS - {"frame", "hr"}


def from_html(text: str) -> FileText:
    """The visible text; a heading begins a section with `headings`."""
    writer = Writer()
    page = Page(text, writer, is_xml=text.lstrip("\ufeff \t\r\n").startswith("<?xml"))
    return writer.file_text({"title": page.title})


class Page:
    """Writes the visible text of a page. In XML, `<script/>` is an element without content.

    Raises `Unreadable` if there are more than `tags` tags. Attributes are then the page's `title`, or "", and
    the `tags` that may still come.
    """

    def __init__(self, markup: str, writer: Writer, *, is_xml: bool = False, tags: int = TAGS) -> None:
        self.title = ""
        self.tags = tags
        self._markup = markup
        self._is_xml = is_xml
        self._flow = Flow(writer)
        self._equation: Equation | None = None
        self._hidden = ""  # the element that hides what is in it
        self._depth = 0  # elements that count until it is over
        self._with_footers = 0  # open elements that may have footers of their own
        self._last: dict[str, int] = {}  # places of marks and end tags
        self._read(markup.rfind(">") + 1)

    def _read(self, end: int) -> None:
        markup, place, token, cuts = self._markup, 0, _TOKEN, 0
        while found := token.search(markup, place, end):
            if found.start() > place:
                self._text(markup[place : found.start()])
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
            if slash:
                self._end(name)
            elif name in _RAW and not (self._is_xml and attributes.endswith("/")):
                place = self._raw(name, place)
            else:
                self._start(name, attributes, place)
        self._text(markup[place:])  # what stands behind the last tag
        self._end("math")
        self._flow.finish()

    def _beside(self, found: str, place: int) -> int:
        """Where a comment ends, or a part of XML that is text as it stands."""
        mark = {"<!--": "-->", "<![CDATA[": "]]>"}.get(found)
        if mark is None:
            return place
        start = place - 2 if mark == "-->" else place  # `<!-->` is a whole comment
        if not self._comes(mark, start):  # a comment that is never ended does not hide the rest of the page
            self._text(" ")
            return self._markup.find(">", place) + 1 or place
        end = self._markup.find(mark, start)
        if mark == "]]>":
            self._text(self._markup[place:end].replace("&", "&amp;"))
        return end + len(mark)

    def _comes(self, mark: str, place: int) -> bool:
        """Whether a mark, in small or large letters, stands at a place or behind it."""
        if mark not in self._last and len(self._last) < _MOST_NAMES:
            self._last[mark] = max(self._markup.rfind(mark), self._markup.rfind(mark.upper()))
        return self._last.get(mark, -1) >= place

    def _raw(self, name: str, place: int) -> int:
        """Where an element ends in which tags are text."""
        is_ended = self._comes(f"</{name}", place)
        found = re.compile(f"</{name}", re.IGNORECASE).search(self._markup, place) if is_ended else None
        if found is None:
            return place if name == "title" else len(self._markup)
        if name == "title":
            self.title = self.title or " ".join(unescape(self._markup[place : found.start()]).split())
        return self._markup.find(">", found.start()) + 1 or len(self._markup)

    def _text(self, text: str) -> None:
        if self._hidden or text == "¶":  # the link of a heading to itself
            return
        add = self._equation.add if self._equation else self._flow.text
        add(unescape(text) if "&" in text else text)

    def _start(self, name: str, attributes: str, place: int) -> None:
        kind = _KINDS.get(name)
        if self._hidden:
            if (self._is_xml and attributes.endswith("/")) or not self._is_over(name, 1):
                return
            self._hidden = ""
        if self._is_left_out(name, attributes, place):
            self._divide(name)
            self._hidden, self._depth = name, 0
        elif self._equation or (name == "math" and self._comes("</math", place)):
            self._equation = self._equation or Equation()
            if not attributes.endswith("/"):
                self._equation.begin(name)
        elif kind:
            self._flow.begin(kind)
            self._with_footers += name in _WITH_FOOTERS
            if name[0] == "h" and name[1:].isdigit():
                self._flow.heading(int(name[1:]))
            elif kind == "cell" and "span" in attributes.lower():
                values = _values(attributes)
                self._flow.span(*(_count(values.get(each, "")) for each in ("colspan", "rowspan")))
        else:
            self._divide(name)

    def _divide(self, name: str) -> None:
        """Part what stands before a tag from what follows, unless it is inline."""
        if name in _KINDS:
            self._flow.block()
        elif name not in _INLINE and ":" not in name:
            self._flow.text(BREAK if name == "br" else " ")

    def _is_left_out(self, name: str, attributes: str, place: int) -> bool:
        return (
            name in _SILENT
            or (name == "footer" and not self._with_footers)
            or (name == "del" and _REPLACED.match(self._markup, place) is not None)
            or (name == "dialog" and "open" not in _values(attributes))
            or (name not in ("html", "body") and _is_hidden(attributes))
        ) and (name in _ENDED_BY or (not attributes.endswith("/") and self._comes(f"</{name}", place)))

    def _is_over(self, name: str, step: int) -> bool:
        """Whether a start tag (1) or an end tag (-1) ends the element that hides what is in it."""
        hidden = self._hidden
        if hidden not in _ENDED_BY:
            self._depth += step * (name == hidden)
        elif not self._depth and (name in _ENDED_BY[hidden] or (name == hidden and step < 0)):
            return True
        elif name in _CONTAINERS:
            self._depth += step
        return self._depth < 0

    def _end(self, name: str) -> None:
        if self._hidden:
            if not self._is_over(name, -1):
                return
            self._hidden = ""
        if self._equation:
            if self._equation.end(name):
                self._flow.text(self._equation.text)
                self._equation = None
        elif name in _KINDS:
            self._flow.end(_KINDS[name])
            self._flow.heading(0)
            self._with_footers -= name in _WITH_FOOTERS and self._with_footers > 0
        else:
            self._divide(name)


def _values(attributes: str) -> dict[str, str]:
    """Attributes by name; the first of a name counts."""
    return {name.lower(): "".join(own) for name, *own in reversed(_ATTRIBUTE.findall(attributes))}


def _is_hidden(attributes: str) -> bool:
    values = _values(attributes) if _MAY_HIDE.search(attributes) else {}
    return "hidden" in values or bool(_HIDES.search(values.get("style", "")))


def _count(value: str) -> int:
    return min(max(int(value), 1), _MOST_COVERED) if re.fullmatch("[0-9]{1,9}", value) else 1

"""What readers keep and leave out, kind by kind, as the table in `docs/how-to/files.md` says."""

from __future__ import annotations

import io
import json
import re
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from tests.test_files import pdf

ROOT = Path(__file__).resolve().parents[1]
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:wps="wps" '
    f'xmlns:m="{OFFICE}/math" xmlns:r="{OFFICE}/relationships" xmlns:mc="mc" xmlns:v="v" xmlns:c="c"'
)
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
OPEN_SPACES = (
    " ".join(f'xmlns:{each}="{OPEN}:{each}:1.0"' for each in ("office", "text", "table", "style", "meta"))
    + f' xmlns:draw="{OPEN}:drawing:1.0" xmlns:svg="{OPEN}:svg-compatible:1.0" xmlns:xlink="xlink"'
)


def zipped(**parts: str | bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def read(folder: Path, name: str, content: str | bytes) -> sg.Document:
    """The one document in a file; `notes` in its metadata is what was said when it was read."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    notes: list[str] = []
    (document,) = sg.read_documents(folder / name, on_warning=lambda _, why: notes.append(why))
    return sg.Document(document.id, document.text, {**document.metadata, "notes": notes}, document.sections)


def docx(body: str, links: str = "", **parts: str) -> bytes:
    """A Word document of a body, and of parts to which it has links `id:kind:name`."""
    each = (link.split(":") for link in links.split())
    stated = "".join(f'<Relationship Id="{i}" Type="x/{kind}" Target="{name}"/>' for i, kind, name in each)
    files = {f"word/{name}": f"<x {SPACES}>{content}</x>" for name, content in parts.items()}
    return zipped(
        **{
            "word/document.xml": f"<w:document {SPACES}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": f"<Relationships>{stated}</Relationships>",
            **files,
        }
    )


def par(*runs: str, style: str = "") -> str:
    stated = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{stated}{''.join(runs)}</w:p>"


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def row(*cells: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"


FRACTION = (
    "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    "<m:sSup><m:e><m:r><m:t>10</m:t></m:r></m:e><m:sup><m:r><m:t>-6</m:t></m:r></m:sup></m:sSup></m:oMath>"
)
CHART = (
    "<c:chart><c:title><c:p><c:t>Fares by season</c:t></c:p></c:title><c:ser><c:tx><c:pt "
    "idx='0'><c:v>Winter</c:v>"
    "</c:pt></c:tx><c:cat><c:pt idx='0'><c:v>Ostra</c:v></c:pt></c:cat><c:val><c:pt idx='0'>"
    "<c:v>7</c:v></c:pt>"
    "</c:val></c:ser></c:chart>"
)
BOX = f"<w:txbxContent>{par(run('a box'))}</w:txbxContent>"
WORD = docx(
    par(run("Routes"), style="One")
    + par(
        run("The fee is "),
        f"<w:ins>{run('forty')}</w:ins><w:del><w:r><w:delText>ten</w:delText></w:r></w:del>",
    )
    + f"<w:moveFrom>{par(run('moved away'))}</w:moveFrom><w:moveTo>{par(run('moved here'))}</w:moveTo>"
    + f"<w:sdt><w:sdtPr/><w:sdtContent>{par(run('Runa Vik'))}</w:sdtContent></w:sdt>"
    + par(
        f'<w:fldSimple w:instr="X">{run("simple field")}</w:fldSimple>',
        f"<w:hyperlink>{run(' a link')}</w:hyperlink>",
    )
    + par(
        field("begin"),
        "<w:r><w:instrText>CODE</w:instrText></w:r>",
        field("separate"),
        run("whole field"),
        field("end"),
    )
    + par(
        run("before "),
        f"<w:r><mc:AlternateContent><mc:Choice><wps:txbx>{BOX}</wps:txbx></mc:Choice>"
        f"<mc:Fallback><v:textbox>{BOX}</v:textbox></mc:Fallback></mc:AlternateContent></w:r>",
        run("after"),
        '<w:r><w:footnoteReference w:id="1"/></w:r>',
        run(" the note."),
    )
    + par(run("Let "), FRACTION)
    + par(
        run("hidden", "<w:vanish/>"),
        run("secret", '<w:rStyle w:val="Hidden"/>'),
        run("seen", '<w:vanish w:val="0"/>'),
    )
    + par(
        "<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t>"
        "<w:softHyphen/></w:r>"
    )
    + "<w:tbl>"
    + row(par(run("Region")), par(run("Port")), par(run("Fare")))
    + row(
        f'<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{par(run("North"))}', par(run("Ostra")), par(run("7"))
    )
    + row(f"<w:tcPr><w:vMerge/></w:tcPr>{par()}", par(run("Soll")), par(run("a")) + par(run("b")))
    + row(
        f'<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{par(run("wide"))}',
        f"<w:tbl>{row(par(run('nested cell')))}</w:tbl>",
    )
    + "</w:tbl>"
    + par('<w:r><c:chart r:id="chart"/></w:r>')
    + '<w:altChunk r:id="inner"/>',
    "1:header:header1.xml 2:header:header2.xml 3:footer:footer1.xml 4:footnotes:footnotes.xml "
    "5:styles:styles.xml chart:chart:chart.xml inner:aFChunk:inner.rtf",
    **{
        "header1.xml": par(run("Harbour Board, file 77-B")),
        "header2.xml": par(run("Harbour Board, file 77-B")),
        "footer1.xml": par(run("Page one")),
        "footnotes.xml": f'<w:footnote w:type="separator" w:id="0">{par(run("no note"))}</w:footnote>'
        f'<w:footnote w:id="1">{par(run("a footnote"))}</w:footnote>',
        "styles.xml": '<w:style w:styleId="Base"><w:name w:val="Heading 1"/></w:style>'
        '<w:style w:styleId="One"><w:basedOn w:val="Base"/></w:style>'
        '<w:style w:styleId="Hidden"><w:rPr><w:vanish/></w:rPr></w:style>',
        "chart.xml": CHART,
        "comments.xml": par(run("a comment")),
    },
)


def slides() -> bytes:
    pptx = pytest.importorskip("pptx")
    charts, kinds = pytest.importorskip("pptx.chart.data"), pytest.importorskip("pptx.enum.chart")
    deck = pptx.Presentation()
    second, first, third = (deck.slides.add_slide(deck.slide_layouts[5]) for _ in range(3))
    first.shapes.title.text, second.shapes.title.text, third.shapes.title.text = (
        "Opening",
        "Closing",
        "Unshown",
    )
    third._element.set("show", "0")
    table = first.shapes.add_table(2, 2, 0, 0, 9, 9).table
    for place, text in enumerate(("Port", "Fare", "Ostra", "12")):
        table.cell(place // 2, place % 2).text = text
    data = charts.CategoryChartData()
    data.categories = ["Bremen", "Soll"]
    data.add_series("Winter fare", (7, 17.5))
    first.shapes.add_chart(kinds.XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, data)
    group = first.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "in a group"
    covert = group.shapes.add_textbox(0, 0, 9, 9)
    covert.text_frame.text = "covert shape"
    covert._element.nvSpPr.cNvPr.set("hidden", "1")
    first.notes_slide.notes_text_frame.text = "Speak up."
    order = deck.slides._sldIdLst
    order.insert(0, order[1])
    made = io.BytesIO()
    deck.save(made)
    return made.getvalue()


def odt() -> bytes:
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
    two = ' table:number-rows-spanned="2"'
    rows = [
        cell.format("", "Region") + cell.format("", "Port"),
        cell.format(two, "North") + cell.format("", "Ostra"),
        "<table:covered-table-cell/>" + cell.format("", "Soll"),
    ]
    body = (
        '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Routes</text:h>'
        "<text:p>To<text:s/>Ostra<text:note><text:note-citation>1</text:note-citation><text:p>a "
        "note</text:p></text:note>"
        " un<text:span>believ</text:span>able<text:change-start/> inserted <text:span "
        'text:style-name="H">hidden</text:span>'
        "<office:annotation><text:p>a comment</text:p></office:annotation><draw:frame>"
        "<svg:title>a picture</svg:title>"
        "<draw:text-box><text:p>a box</text:p></draw:text-box></draw:frame>end.</text:p>"
        f"<table:table>{''.join(f'<table:table-row>{each}</table:table-row>' for each in rows)}</table:table>"
        '<text:p>Let <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></text:p>'
    )
    head = f"<x {OPEN_SPACES}><style:header><text:p>Harbour Board</text:p></style:header></x>"
    return zipped(
        **{
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<x {OPEN_SPACES}>{body}</x>",
            "styles.xml": head.replace(
                "</x>", "<style:header-left><text:p>Harbour Board</text:p></style:header-left></x>"
            ),
            "Object 1/content.xml": "<math><mfrac><mi>a</mi><mn>2</mn></mfrac></math>",
            "meta.xml": f"<x {OPEN_SPACES}><meta:creation-date>2020-02-03T10:00:00</meta:creation-date></x>",
        }
    )


def epub() -> bytes:
    package = (
        "<package><dc:date xmlns:dc='dc'>1911</dc:date><item id='nav' href='nav.xhtml' properties='nav'/>"
        "<item id='a' href='text/one%20.xhtml'/><item id='b' href='text/two.xhtml'/><item id='c' "
        "href='gone.xhtml'/>"
        "<itemref idref='nav'/><itemref idref='b'/><itemref idref='a'/><itemref idref='c'/></package>"
    )
    return zipped(
        **{
            "META-INF/container.xml": "<x><rootfile full-path='OPS/book.opf'/></x>",
            "OPS/book.opf": package,
            "OPS/nav.xhtml": "<h1>Contents page</h1>",
            "OPS/text/two.xhtml": (
                "<html><head><title/><script src='x'/></head><h1>First</h1><p/>Mara <i>steer</i>ed."
            ),
            "OPS/text/one .xhtml": (
                "<table><tr><td>Ostra</td><td><p>12</p></td></tr></table><img alt='a picture'/>"
            ),
        }
    )


def mail() -> bytes:
    message, inner = EmailMessage(), EmailMessage()
    message["Subject"], message["From"], message["To"] = "Fähre", "Ída Fenn <ida@x.org>", "olaf@x.org"
    message["Date"] = "Mon, 01 Jan 2024 23:00:00 +0100"
    message.set_content("The letter itself.")
    message.add_alternative("<p>The letter <b>itself</b>.</p>", subtype="html")
    message.add_attachment("port,fare\nOstra,12\n", subtype="csv", filename="fares.csv")
    message.add_attachment(b"%PDF-1.7 binary", maintype="application", subtype="pdf", filename="plän.pdf")
    inner["Subject"] = "Inner"
    inner.set_content("<p>Forw<b>ard</b>ed.</p>", subtype="html")
    message.add_attachment(inner)
    return bytes(message)


PAGE = (
    "<title>Ferry &amp; Co</title><script>evil()</script><nav>menu</nav><!-- a comment --><H1>Routes</H1>"
    "<div>The ferry leaves at seven.</div>un<b>believ</b>able<p>Mara steered.<p>The ship sank."
    "<ul><li>Ostra line<ul><li>winter 7</ul><li>last</ul><my-card>custom card</my-card>"
    "<table><tr><th>Region<th>Port<tr><td rowspan=2>North<td><p>Ostra</p><tr><td>Soll</table>"
    "<form>Name <textarea>typed in</textarea><button>Send</button><select><option>a choice</select></form>"
    "<details><summary>More</summary>folded away</details><img alt='a picture'>"
    "<p hidden>hidden one<p style='color: red; DISPLAY : none'>hidden two</p><p "
    "id=cookie-recipes>Bake cookies.</p>"
    "<p>E = <math><mfrac><mi>a</mi><mn>2</mn></mfrac></math>, <del>ten</del> "
    "<ins>forty</ins> crowns</p>"
    "<svg><title>a picture</title><text>drawn text</text></svg><pre>one\n  two</pre>"
    "<article>Told.<footer>By Mara.</footer></article><footer>imprint</footer>"
)
MADE: dict[str, tuple[str, Any]] = {
    "PDF": ("a.pdf", lambda: pdf(["Page one of the maintenance log."])),
    "DOCX": ("a.docx", WORD),
    "PPTX": ("a.pptx", slides),
    "ODT": ("a.odt", odt),
    "EPUB": ("a.epub", epub),
    "HTML": ("a.html", PAGE),
    "Markdown": (
        "a.md",
        "---\ndate: 2021-02-03\n---\n# Routes\n\nTo *Ostra*.\n\nWinter\n------\n\n- ```\n  # code\n  ```\n\n"
        f"![](data:image/png;base64,{'iVBO' * 50})\n",
    ),
    "reStructuredText": (
        "a.rst",
        "Routes\n======\n\n:Author: Ida\n\n.. toctree::\n\n   contents-page\n\n.. versionadded:: "
        "5.3\n\n.. note:: Mind it.\n\n"
        ".. py:function:: sail(port)\n\n   Sails.\n\n.. a comment\n\nTo :ref:`Ostra <o>`.\n",
    ),
    "mail": ("a.eml", mail),
    "notebook": (
        "a.ipynb",
        json.dumps(
            {
                "cells": [
                    {"cell_type": "markdown", "source": ["# Routes\n", "To Ostra."]},
                    {
                        "cell_type": "code",
                        "source": "print(12)",
                        "outputs": [
                            {"output_type": "stream", "text": ["\x1b[31mtwelve\x1b[0m\n"]},
                            {"output_type": "error", "ename": "ValueError", "evalue": "no port"},
                            {"data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
                        ],
                    },
                ]
            }
        ),
    ),
}
CLAIMS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "PDF": ({"pages": "maintenance log"}, {}),
    "DOCX": (
        {
            "headings": "Routes\n\n",
            "tracked insertions": "The fee is forty\n\nmoved here",
            "content controls": "Runa Vik",
            "fields": "simple field a link\n\nwhole field",
            "links": " a link",
            "text boxes": "before after [a footnote] the note.\n\na box\n\nLet",
            "equations": "Let (a+b)/210^-6",
            "tables": "Region | Port | Fare\nNorth | Ostra | 7\n| Soll | a b\nwide |  | nested cell",
            "charts": "Fares by season\n\nOstra; Winter: 7",
            "headers and footers, once": "Harbour Board, file 77-B\n\nRoutes",
            "footnotes and endnotes, at their place": "after [a footnote]",
        },
        {
            "tracked deletions": "ten|moved away",
            "hidden text": "hidden|secret",
            "comments": "a comment",
            "codes of fields": "CODE",
            "documents inside": "inner.rtf",
        },
    ),
    "PPTX": (
        {
            "slides in their order": "Opening",
            "tables": "Port | Fare\nOstra | 12",
            "charts": "Bremen; Winter fare: 7\nSoll; Winter fare: 17.5",
            "groups": "in a group",
            "speaker notes": "Speak up.\n\nClosing",
        },
        {"hidden slides": "Unshown", "hidden shapes": "covert shape"},
    ),
    "ODT": (
        {
            "headings": "Routes\n\n",
            "tracked insertions": " inserted ",
            "text boxes": "end.\n\na box",
            "formulas": "Let\n\na/2",
            "tables": "Region | Port\nNorth | Ostra\n| Soll",
            "headers and footers, once": "Harbour Board\n\nRoutes",
            "notes, at their place": "To Ostra [a note] unbelievable",
        },
        {
            "tracked deletions": "deleted",
            "hidden text": "hidden",
            "comments": "a comment",
            "descriptions of pictures": "a picture",
        },
    ),
    "EPUB": (
        {"chapters in reading order": "First\n\nMara steered.\n\nOstra", "tables": "Ostra | 12"},
        {"the page of contents": "Contents page", "pictures": "a picture"},
    ),
    "HTML": (
        {
            "text in any element": (
                "The ferry leaves at seven.\n\nunbelievable\n\nMara steered.\n\nThe ship sank."
            ),
            "lists": "Ostra line\n\nwinter 7\n\nlast\n\ncustom card",
            "tables": "Region | Port\nNorth | Ostra\n| Soll",
            "forms and buttons": "Name\n\ntyped in\n\nSend",
            "closed details": "More\n\nfolded away",
            "equations": "E = a/2, forty crowns",
            "text of drawings": "drawn text\n\none\n  two",
        },
        {
            "scripts and styles": "evil",
            "navigation": "menu",
            "the footer of the page": "imprint",
            "choices of a list": "a choice",
            "descriptions of pictures": "a picture",
            "hidden text": "hidden",
            "replaced text": "ten",
            "comments": "a comment",
        },
    ),
    "Markdown": (
        {"text as it stands": "To *Ostra*.", "both forms of headings": "Winter\n------\n\n- ```\n  # code"},
        {"pictures in base64": "iVBO"},
    ),
    "reStructuredText": (
        {
            "text": "To Ostra.",
            "text of directives": "versionadded 5.3\n\nMind it.\n\nsail(port)\n\n   Sails.",
        },
        {"comments": "a comment", "roles and other marks": ":ref:", "tables of contents": "contents-page"},
    ),
    "mail": (
        {
            "headers": "Subject: Fähre\nFrom: Ída Fenn <ida@x.org>\nTo: olaf@x.org\nDate: Mon, 01 Jan 2024",
            "plain text or HTML": "The letter itself.",
            "text attachments": "fares.csv\n\nport,fare\nOstra,12",
            "forwarded messages": "Subject: Inner\n\nForwarded.",
        },
        {"other attachments": "PDF-1.7|plän.pdf"},
    ),
    "notebook": (
        {
            "Markdown and code": "To Ostra.\n\n```\nprint(12)",
            "outputs that are text": "```\ntwelve\n```\n\n```\nValueError: no port",
        },
        {"pictures": "Figure|iVBO"},
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_kind_is_read_as_the_guide_says(kind: str, tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/files.md").read_text("utf-8")
    line = re.search(rf"^\| {kind} \| ([^|]*) \| ([^|]*) \|", guide, re.MULTILINE)
    assert line, f"the guide has no line for {kind}"
    name, content = MADE[kind]
    if kind == "PDF":
        pytest.importorskip("pypdfium2")
    document = read(tmp_path, name, content() if callable(content) else content)
    kept, left_out = CLAIMS[kind]
    for claims, column in ((kept, line[1]), (left_out, line[2])):
        assert set(claims) <= set(column.split("; ")), column
    for claim, words in kept.items():
        assert document.text.count(words) == 1, (claim, document.text)
    for claim, words in left_out.items():
        assert not re.search(rf"\b(?:{words})\b", document.text), (claim, document.text)


def test_what_is_left_out_of_a_document_is_said(tmp_path: Path) -> None:
    said = {
        kind: read(tmp_path, MADE[kind][0], made() if callable(made := MADE[kind][1]) else made)
        for kind in MADE
    }
    notes = {kind: document.metadata["notes"] for kind, document in said.items()}
    assert {kind: " ".join(each) for kind, each in notes.items() if each} == {
        "DOCX": "a document inside is not read: inner.rtf",
        "PPTX": "slide 3 is hidden, and is left out",
        "EPUB": "chapter gone.xhtml is missing",
        "mail": "attachment plän.pdf is not read",
    }


def test_sections_and_dates_are_those_of_the_document(tmp_path: Path) -> None:
    documents = {
        kind: read(tmp_path, MADE[kind][0], made() if callable(made := MADE[kind][1]) else made)
        for kind in MADE
    }
    sections = {kind: [dict(each.metadata) for each in own.sections] for kind, own in documents.items()}
    for kind in ("DOCX", "ODT", "HTML", "notebook"):
        assert sections[kind][0] == {"headings": ["Routes"]}
    assert sections["Markdown"] == [{"headings": ["Routes"]}, {"headings": ["Routes", "Winter"]}]
    assert sections["PPTX"] == [{"slide": 1}, {"slide": 2}, {"slide": 3}][: len(sections["PPTX"])]
    assert [each.get("attachment") for each in sections["mail"]][-2:] == ["fares.csv", "Inner"]
    dates = {kind: own.metadata.get("date") for kind, own in documents.items()}
    assert dates["mail"], dates["Markdown"] == ("2024-01-01", "2021-02-03")
    assert (dates["ODT"], dates["EPUB"]) == ("2020-02-03", "1911")
    assert documents["HTML"].metadata["title"] == "Ferry & Co"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "<nav><a>menu</a><main>Text <p>more</main>",
            "menu\n\nText\n\nmore",
        ),  # no end tag: all would be lost
        ("<p class=it's>Text</p> don't", "Text\n\ndon't"),
        ("a < b and c > d <3 x", "a < b and c > d <3 x"),
        ("yes <a href=x", "yes <a href=x"),
        ("<p>Seen.<!-- no end <p>after", "Seen. after"),
        ("<p>Caf&eacute; 5&nbsp;6 Do&shy;nau a<wbr>b", "Café 5 6 Donau ab"),
        (
            "<p hidden>a<p>b<ul><li hidden>c<ul><li>d</ul><li>e</ul><table><tr><td hidden>f<td>g</table>",
            "b\n\ne\n\ng",
        ),
        ("<ul><li hidden>c</ul>d<nav>m<div>n</nav>o<math><mi>x</b><msup><mi>y<mn>2</math> p", "d\n\noxy2 p"),
        ("<table><tr><td>a</div></td><td>b</p></td></tr></table></b>c", "a | b\n\nc"),
        ("<table><tr><td><h1>Menu</h1><p>a<td><h2>Fares</h2><p>b</table>", "Menu\n\na\n\nFares\n\nb"),
        ("<table><tr><td>L<td><table><tr><td>n<td>1<tr><td>m<td>2</table></table>", "L\n\nn | 1\nm | 2"),
        (
            "<table><tr><th colspan=2>Fares<th>Port<tr><td>1<td><td>O<tr><td>2</table>",
            "Fares |  | Port\n1 |  | O\n2",
        ),
        ("<frameset><frame src=a><noframes>No frames.</noframes></frameset>", "No frames."),
        ("<?xml version='1.0'?><head><script src='a'/></head><p/>Text<br/>end", "Text\nend"),
        ("<body style='display:none'><p>Shown by a script.", "Shown by a script."),
    ],
)
def test_html_as_it_is_found(markup: str, text: str, tmp_path: Path) -> None:
    assert read(tmp_path, "a.html", markup).text == text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cdata.html", "<html>text" + "<![CDATA[" * 200_000),
        ("tags.html", "<html>text" + "<a " * 500_000 + 'x=">"'),
        ("quotes.html", "<html>text" + '<a =">"' * 300_000),
        ("divs.html", "<html>" + "<div>" * 200_000 + "text"),
        ("tables.html", "<html>text" + "<table><td>" * 400_000 + "<div>" * 700_000),
        ("to.eml", "Subject: text\nTo: " + "a@b.c, " * 80_000 + "\n\nbody"),
        ("type.eml", "Subject: text\nContent-Type: text/plain" + "; a=b" * 100_000 + "\n\nbody"),
        ("paragraphs.docx", docx(par(run("text")) * 50_000)),
        ("list.md", "text\n\n" + "- " * 500_000 + "\n"),
    ],
)
def test_hostile_files_are_read_in_time_that_grows_with_their_size(
    name: str, content: str | bytes, tmp_path: Path
) -> None:
    assert "text" in read(tmp_path, name, content).text


def test_of_alternatives_the_one_that_says_something_is_read(tmp_path: Path) -> None:
    plain = "--b\nContent-Type: text/plain\n\nSee HTML.\n"
    page = "--b\nContent-Type: text/html; charset=x-odd\n\n<p>The whole letter is café here.\n--b--"
    mail = f"Content-Type: multipart/alternative; boundary=b\n\n{plain}{page}"
    assert read(tmp_path, "a.eml", mail.encode("latin-1")).text == "The whole letter is café here."


@pytest.mark.parametrize(
    "front", ["\nThe grant was renewed in 1911.\n", "Only prose.\nMore of it.", "- a\n- b"]
)
def test_text_between_two_rules_is_no_front_matter(front: str, tmp_path: Path) -> None:
    document = read(tmp_path, "a.md", f"---\n{front}\n---\n\nThe rest.\n")
    assert document.text == f"---\n{front}\n---\n\nThe rest."

"""What readers keep and leave out, kind by kind, as the table in `docs/how-to/files.md` says.

`golden/` has files of each kind, archives as folders of their parts. `expected.json` says how they are read,
and `claims.json` what of them must be in the text and what must not, under the words of the table.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cases import cases
from tests.test_files import pdf, zipped

import stratagraph as sg

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).with_name("golden")
CLAIMS = json.loads((GOLDEN / "claims.json").read_text("utf-8"))
EXPECTED = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
KINDS = {
    "PDF": "a.pdf",
    "DOCX": "a.docx",
    "PPTX": "a.pptx",
    "ODT": "a.odt",
    "EPUB": "a.epub",
    "HTML": "a.html",
    "Markdown": "a.md",
    "reStructuredText": "a.rst",
    "mail": "a.eml",
    "notebook": "a.ipynb",
}


def read(folder: Path, name: str, content: str | bytes) -> sg.Document:
    """The one document in a file; `notes` in its metadata is what was said when it was read."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    notes: list[str] = []
    (document,) = sg.read_documents(folder / name, on_warning=lambda _, why: notes.append(why))
    return sg.Document(document.id, document.text, {**document.metadata, "notes": notes}, document.sections)


def golden(name: str, folder: Path) -> sg.Document:
    """The document in a golden file, or in a PDF that is made here."""
    if name == "a.pdf":
        pytest.importorskip("pypdfium2")
        return read(folder, name, pdf(["Page one of the maintenance log."]))
    path = GOLDEN / (f"{name}.json" if name.endswith("ipynb") else name)  # else linters would read it
    if path.is_file():
        return read(folder, name, path.read_bytes())
    parts = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    first = dict(sorted(parts.items(), key=lambda part: part[0] != "mimetype"))
    return read(folder, name, zipped(**first))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_as_the_golden_one_says(name: str, tmp_path: Path) -> None:
    found = golden(name, tmp_path)
    metadata = {key: value for key, value in found.metadata.items() if key not in ("source", "modified")}
    sections = [[found.text[each.start :].split("\n")[0], each.metadata] for each in found.sections]
    assert {"text": found.text, "metadata": metadata, "sections": sections} == EXPECTED[name]


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_kind_is_read_as_the_guide_says(kind: str, tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/files.md").read_text("utf-8")
    line = re.search(rf"^\| {kind} \| ([^|]*) \| ([^|]*) \|", guide, re.MULTILINE)
    assert line, f"the guide has no line for {kind}"
    document = golden(KINDS[kind], tmp_path)
    kept, left_out = CLAIMS[kind]["kept"], CLAIMS[kind]["left out"]
    for claims, column in ((kept, line[1]), (left_out, line[2])):
        assert set(claims) <= set(column.split("; ")), column
    for claim, words in kept.items():
        assert document.text.count(words) == 1, (claim, document.text)
    for claim, words in left_out.items():
        assert not re.search(rf"\b(?:{words})\b", document.text), (claim, document.text)


@pytest.mark.parametrize(("markup", "text"), cases(__file__, "html as it is found"))
def test_html_as_it_is_found(markup: str, text: str, tmp_path: Path) -> None:
    assert read(tmp_path, "a.html", markup).text == text


WORDS = (
    b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body>'
    b"</w:document>"
)
PARAGRAPH = b"<w:p><w:r><w:t>text</w:t></w:r></w:p>"


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
        ("paragraphs.docx", zipped(**{"word/document.xml": WORDS % (PARAGRAPH * 50_000)})),
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

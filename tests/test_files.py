"""Files of other kinds than plain text: what becomes of them, and of those that are not what they seem."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.ingest.loaders import read_documents


class Read:
    """The documents of a folder, and what was said about its files."""

    def __init__(self, folder: Path) -> None:
        self.skipped: dict[str, str] = {}
        self.warned: dict[str, str] = {}
        listeners = {"on_skip": self.skipped.__setitem__, "on_warning": self.warned.__setitem__}
        try:
            found = list(read_documents(folder, **listeners))
        except ValueError:
            found = []
        self.documents = {Path(document.id).name: document for document in found}

    def __getitem__(self, name: str) -> Any:
        return self.documents[name]

    def why(self, name: str) -> str:
        return next(reason for path, reason in self.skipped.items() if Path(path).name == name)


def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read all files in this process, whose bounds and modules a test can replace."""
    monkeypatch.setattr("stratagraph.ingest.loaders.is_apart", lambda file: False)


def pdf(pages: Iterable[str], *, title: str = "", encrypted: bool = False) -> bytes:
    """A small PDF; where it is encrypted, by a password that nobody knows."""
    texts = list(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(texts)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * n} 0 R >>"
        )
        stream = f"BT /F1 12 Tf 40 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    trailer = f"/Root 1 0 R /Info {len(objects)} 0 R"
    if encrypted:
        key = "<" + "ab" * 32 + ">"
        objects.append(f"<< /Filter /Standard /V 1 /R 2 /O {key} /U {key} /P -4 >>")
        trailer += f" /Encrypt {len(objects)} 0 R /ID [<{'01' * 16}> <{'01' * 16}>]"
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    start = len(out)
    out += f"xref\n0 {size}\n0000000000 65535 f \n{rows}trailer << /Size {size} {trailer} >>\n".encode()
    return out + f"startxref\n{start}\n%%EOF\n".encode()


def test_pages_of_a_pdf_reach_the_citations(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pages = [f"Page {n} tells that ferry {n} sails to Ostra at {n} o'clock sharp." for n in range(1, 8)]
    (tmp_path / "ferries.pdf").write_bytes(pdf(pages, title="Ferries"))
    read = Read(tmp_path)
    document = read["ferries.pdf"]
    assert (document.metadata["title"], document.metadata["pages"]) == ("Ferries", 7)
    assert "Page 3 tells" in document.text
    config = sg.Config(chunking=sg.ChunkConfig(size=20, overlap=0))
    embedder = sg.HashingEmbedder()
    with sg.build_index([document], embedder=embedder, config=config, progress=False) as index:
        chunks = index.chunks()[document.id]
        assert [chunk.metadata["page"] for chunk in chunks] == list(range(1, 8))
        answer = index.answer("When does ferry 5 sail to Ostra?")
        cited = answer.citations[0]
        assert f"Page {cited.metadata['page']} tells" in cited.text
        found = index.retrieve("ferry", where={"page": {"$gte": 6}}, view="chunks")
        assert {hit.metadata["page"] for hit in found} == {6, 7}
        assert index.insert([document]).unchanged == (document.id,)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", "Die Fähre fährt über den Fluß. " * 5),
        ("cp1251", "Паром опоздал на два часа, потому что шторм не утихал всю ночь. " * 5),
        ("shift_jis", "渡船は毎朝七時に港を出て、島々を回ってから夕方に戻ります。" * 5),
        ("gb18030", "渡船每天早上七点离开港口，绕过群岛，傍晚返回。" * 5),
    ],
)
def test_other_encodings_are_read_and_named(tmp_path: Path, encoding: str, text: str) -> None:
    pytest.importorskip("charset_normalizer")
    (tmp_path / "old.txt").write_bytes(text.encode(encoding))
    read = Read(tmp_path)
    assert read["old.txt"].text == text
    assert "not valid UTF-8: read as" in next(iter(read.warned.values()))


def zipped(**entries: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def test_files_that_are_not_what_they_seem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)
    monkeypatch.setattr("stratagraph.ingest.files.kinds.LARGEST", 2**20)
    pytest.importorskip("pypdfium2")
    pytest.importorskip("docx")
    files = {  # what is in them, and why they are skipped; those with no reason are read
        "locked.pdf": (pdf(["secret"], encrypted=True), "encrypted"),
        "broken.pdf": (b"%PDF-1.7\nnothing of the kind", "damaged"),
        "scan.pdf": (pdf([""]), "OCR"),
        "really.txt": (pdf(["A PDF under another name."]), ""),
        "plain.pdf": (b"Only text, whatever its name says.", ""),
        "broken.docx": (zipped(**{"word/document.xml": b"<w:document"}), "damaged"),
        "archive.docx": (zipped(**{"readme.txt": b"hello"}), "an archive"),
        "cut.docx": (b"PK\x03\x04 cut off", "damaged archive"),
        "bomb.docx": (zipped(**{"word/document.xml": b"\0" * (2**20 + 1)}), "unpacks to more than"),
        "old.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "before 2007"),
        "letter.rtf": (b"{\\rtf1 hello}", "RTF"),
        "wrong.json": (b'{"a": ', "not JSON"),
        "deep.json": (b"[" * 100_000, "JSON"),
        "picture.html": (b"\x89PNG\r\n\0\0", "binary"),
        "drawn.svg": (
            b'<?xml version="1.0"?>\n<!-- > --><!DOCTYPE svg PUBLIC "x">\n<svg>',
            "a picture (SVG)",
        ),
        "feed.xml": (b'<?xml version="1.0"?><feed><title>On <svg> and others</title></feed>', ""),
        "comments.txt": (b"<!-- -->" * 1000 + b"Text.", ""),
    }
    for name, (content, _) in files.items():
        (tmp_path / name).write_bytes(content)
    read = Read(tmp_path)
    assert set(read.documents) == {name for name, (_, reason) in files.items() if not reason}
    assert read["really.txt"].sections[0].metadata == {"page": 1}
    for name, (_, reason) in files.items():
        assert not reason or reason in read.why(name), name


OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns"


def odt(body: str, kind: str = "text", **parts: bytes) -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="{OPEN_DOCUMENT}:{name}:1.0"' for name in ("office", "text", "table", "meta")
    )
    meta = f'<m {spaces} xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Log</dc:title></m>'
    return zipped(
        **{
            "mimetype": f"application/vnd.oasis.opendocument.{kind}".encode(),
            "content.xml": f"<office:document-content {spaces}>{body}</office:document-content>".encode(),
            "meta.xml": meta.encode(),
            **parts,
        }
    )


def epub(**chapters: str) -> bytes:
    """A book of these chapters, in this order; the list of its files is in another."""
    items = "".join(f'<item id="{name}" href="text/{name}%20.xhtml"/>' for name in sorted(chapters))
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    creator = '<dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/">Ida Fenn</dc:creator>'
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf">{creator}{items}<spine>{spine}</spine></package>'
    )
    container = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    files = {f"OPS/text/{name} .xhtml": text.encode() for name, text in chapters.items()}
    return zipped(**{"META-INF/container.xml": container.encode(), "OPS/book.opf": package.encode(), **files})


def test_what_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_here(monkeypatch)
    for module in ("pypdfium2", "openpyxl"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a.pdf").write_bytes(pdf(["text"]))
    (tmp_path / "a.xlsx").write_bytes(zipped(**{"xl/workbook.xml": b"<x/>"}))
    read = Read(tmp_path)
    assert len(read.skipped) == 2
    assert all("pip install 'stratagraph[files]'" in reason for reason in read.skipped.values())


def test_a_file_beyond_a_bound_is_skipped_with_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_here(monkeypatch)
    monkeypatch.setattr("stratagraph.ingest.files.kinds.MARKUP", 2**22)
    monkeypatch.setattr("stratagraph.ingest.files.xml.ENTRY", 2**21)
    monkeypatch.setattr("stratagraph.ingest.files.xml.TAGS", 10_000)
    monkeypatch.setattr("stratagraph.ingest.files.office.TAGS", 10_000)
    bounds = {
        "wide.csv": (b"," * 30_000 + b"\na,b\n", "20,000 columns"),
        "long.csv": (b"a,b\n" + b"x" * (8 * 2**20 + 2), "a line of more than 8,388,608"),
        "long.jsonl": (b"[" * (8 * 2**20 + 2), "a line of more than 8,388,608"),
        "large.html": (b"<p>" + b" " * 2**24 + b"text", "16,777,216 bytes"),
        "headers.eml": (b"a: b\n" * 1_000_000, "100,000 headers"),
        "files.zip": (zipped(**{f"word/{number}": b"" for number in range(10_001)}), "10,000 files"),
        "deep.odt": (odt("<text:p>" * 501 + "</text:p>" * 501), "nested more than 500 deep"),
        "grows.odt": (odt("", **{"content.xml": b'<!DOCTYPE x [<!ENTITY a "aa">]><x>&a;</x>'}), "entities"),
        "tags.odt": (odt("<a/>" * 10_000), "10,000 elements"),
        "sums.ods": (odt("", "spreadsheet"), "OpenDocument that is no text"),
        "wide.odt": (odt("", **{"content.xml": b" " * (2**21 + 1)}), "2,097,152 bytes"),
        "locked.odt": (odt("", **{"META-INF/manifest.xml": b"<encryption-data/>"}), "encrypted"),
        "tags.epub": (epub(a="a<i>" * 6_000, b="a<i>" * 6_000), "tags"),
        "empty.epub": (epub(a="<img>"), "without any text"),
        "xml.docx": (zipped(**{"word/document.xml": b" " * (2**22 + 1)}), "4,194,304 bytes"),
    }
    for name, (content, _) in bounds.items():
        (tmp_path / name).write_bytes(content)
    read = Read(tmp_path)
    assert not read.documents
    for name, (_, bound) in bounds.items():
        assert bound in read.why(name), name


def _manual(folder: Path) -> sg.Index:
    text = (
        "# Pydantic\n\nPydantic checks the types of data.\n\n"
        "# Click\n\nClick makes commands of functions. To install it, run:\n\n"
        "```bash\npip install click\n```\n\nAn option is added by `@click.option`.\n"
    )
    (folder / "manual.md").write_text(text)
    (document,) = sg.read_documents(folder / "manual.md")
    return sg.build_index([document], embedder=sg.HashingEmbedder(), progress=False)


def test_a_passage_of_two_sections_has_the_heading_of_what_is_asked(tmp_path: Path) -> None:
    with _manual(tmp_path) as index:
        (chunk,) = index.chunks()[next(iter(index.documents()))]
        assert [own["headings"] for _, own in chunk.metadata["sections"]] == [["Pydantic"], ["Click"]]
        for question, heading in (("What checks types?", "Pydantic"), ("What makes commands?", "Click")):
            (hit,) = index.retrieve(question, 1)
            assert hit.metadata["headings"] == [heading]
            (citation,) = index.answer(question).citations
            assert citation.metadata["headings"] == [heading]


def test_metadata_of_the_caller_s_own_called_sections_is_left_alone() -> None:
    given: dict[str, Any] = {"Ada": [1, 2], "Bo": "three", "Cy": [["a", "b"]], "Di": {"x": 1}}
    documents = [
        sg.Document(name, f"{name} sails to Ostra.", {"sections": own}) for name, own in given.items()
    ]
    with sg.build_index(documents, embedder=sg.HashingEmbedder(), progress=False) as index:
        hits = index.retrieve("Who sails?", 4)
        assert {hit.documents[0]: hit.metadata["sections"] for hit in hits} == given


def test_code_is_quoted_as_code_where_a_question_asks_for_it(tmp_path: Path) -> None:
    with _manual(tmp_path) as index:
        told = str(index.answer("Which command installs Click?"))
        assert "To install it, run:\n\n```bash\npip install click\n```" in told
        assert "`@click.option`" in str(index.answer("Which decorator adds an option?"))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_failing_reader_ends_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdfium2")
    pages = b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[9 0 R]/Count 1>>endobj "
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\n" + pages + b"trailer<</Root 1 0 R>>")
    (tmp_path / "b.json").write_text("[" + "[],[[]]," * 6_000_000 + "[]]")
    (tmp_path / "c.json").write_text('{"ferry": "dies"}')
    (tmp_path / "d.json").write_text('{"ferry": "seven"}')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os, sys\nif 'bounded_reading' in ' '.join(sys.orig_argv):\n    loads = json.loads\n"
        "    json.loads = lambda text, **_: os.abort() if 'dies' in str(text) else loads(text)\n"
    )
    read = Read(tmp_path)
    assert read["d.json"].text == "ferry: seven."
    assert "damaged" in read.why("a.pdf")
    assert "more than 500 MB of memory" in read.why("b.json")
    assert "was ended by SIGABRT" in read.why("c.json")


def test_words_that_ends_of_lines_cut_are_joined(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    lines = ["The Author-", "ity does the mainte-", "nance of a well-", "known pump."]
    shown = ") Tj 0 -14 Td (".join(lines)
    (tmp_path / "a.pdf").write_bytes(pdf([shown]))
    text = " ".join(Read(tmp_path)["a.pdf"].text.split())
    assert text == "The Authority does the maintenance of a well-known pump."

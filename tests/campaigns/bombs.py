"""Uploads made to take all time or memory: what reads them ends, and says why."""

from __future__ import annotations

import io
import random
import resource
import zipfile
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path

from stratagraph.ingest import bounded_reading
from stratagraph.server import changing
from stratagraph.server.state import Job
from tests.campaigns.trials import turns
from tests.test_files import epub, zipped

MEMORY = bounded_reading.MEMORY + 200 * 2**20  # with what the process starts with


def _package(empty: bytes, part: str, content: Iterable[bytes]) -> bytes:
    """An Office file in which one part has other content, written block by block."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(empty)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
        with new.open(part, "w", force_zip64=True) as file:
            for block in content:
                file.write(block)
    return made.getvalue()


def _docx(chance: random.Random) -> bytes:
    import docx

    made = io.BytesIO()
    docx.Document().save(made)
    unit, end, count = chance.choice(
        (
            (b"<w:p>", b"</w:p>", 10**6),
            (b"<w:p/>", b"", 4 * 10**6),
            (b"<w:p><w:r><w:t>a</w:t></w:r></w:p>", b"", 10**6),
        )
    )
    start = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    blocks = chain([start], repeat(unit * 1000, count // 1000), repeat(end * 1000, count // 1000))
    return _package(made.getvalue(), "word/document.xml", chain(blocks, [b"</w:body></w:document>"]))


def _pptx(chance: random.Random) -> bytes:
    import pptx

    deck, made = pptx.Presentation(), io.BytesIO()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "title"
    deck.save(made)
    with zipfile.ZipFile(made) as package:
        slide = package.read("ppt/slides/slide1.xml").decode()
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    doctype = f'<!DOCTYPE x [<!ENTITY e0 "{"x" * chance.choice((10, 1000))}">{entities}]>'
    head, _, rest = slide.partition("?>")
    content = f"{head}?>{doctype}{rest}".replace(">title<", ">&e11;<")
    return _package(made.getvalue(), "ppt/slides/slide1.xml", [content.encode()])


def _xlsx(chance: random.Random) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active["A1"] = "first"
    for _ in range(chance.choice((1, 1000, 3000))):
        book.active.cell(chance.randrange(1, 2**20), 2**14, "last")
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def _pdf(chance: random.Random) -> bytes:
    count = chance.choice((10_000, 100_000))
    kids = b"3 0 R " * count
    return (
        b"%%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Count %d/Kids[%s]>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%%%EOF\n"
    ) % (count, kids)


def _html(chance: random.Random) -> bytes:
    return chance.choice((b"<p>", b"<div>text", b"<i>b</i>", b"<!--", b"<a b=")) * chance.choice(
        (10**5, 10**6)
    )


def _markdown(chance: random.Random) -> bytes:
    return chance.choice((b"# a\n", b"#", b"---\n", b"```\n", b"- a: [b,\n")) * 10**6


def _csv(chance: random.Random) -> bytes:
    return chance.choice(
        (b"," * 10**7, b'"a' * 10**6, b"x" * 10**5 + b"\n" + b"a\n" * 10**5, b"a,b\n" * 10**6)
    )


def _json(chance: random.Random) -> bytes:
    size = chance.choice((10**6, 3 * 10**6))
    return chance.choice((b"[" * size, b"[" + b"[]," * size + b"[]]", b'[{"a":' * size, b"9" * size))


def _odt(chance: random.Random) -> bytes:
    unit, count = chance.choice(
        ((b"<text:p>a</text:p>", 3 * 10**6), (b'<text:s text:c="9999"/>', 2 * 10**6), (b"<text:p>", 10**6))
    )
    body = b'<x xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><text:p>%s</text:p></x>'
    return zipped(
        **{"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": body % (unit * count)}
    )


def _epub(chance: random.Random) -> bytes:
    chapter = chance.choice(("<p>a", "<i>b</i>", "<!--", "a", "<div>" * 400 + "</div>" * 400))
    many = chance.choice((1, 100))
    return epub(**{f"c{number}": chapter * (10**6 // many) for number in range(many)})


def _rst(chance: random.Random) -> bytes:
    return chance.choice((b"a\n=\n", b":r:`a", b"``", b"*a ", b".. note::\n", b":a: b\n")) * 10**6


def _mail(chance: random.Random) -> bytes:
    part = b"Content-Type: multipart/mixed; boundary=a\n\n--a\n"
    return chance.choice(
        (part * 10**4, b"a: b\n" * 10**6, b"Subject: =?utf-8?q?a?=\n" + b" =?utf-8?q?a?=\n" * 10**5)
    )


def _notebook(chance: random.Random) -> bytes:
    cell = b'{"cell_type": "markdown", "source": "%s"},' % chance.choice((b"a", b"# a", b"```"))
    return b'{"cells": [' + cell * 10**6 + b'{"cell_type": "raw", "source": ""}]}'


KINDS = {
    "docx": _docx, "pptx": _pptx, "xlsx": _xlsx, "pdf": _pdf, "html": _html, "md": _markdown, "csv": _csv,
    "json": _json, "jsonl": _json, "txt": _csv,
    "odt": _odt, "epub": _epub, "rst": _rst, "eml": _mail, "mbox": _mail, "ipynb": _notebook,
}  # fmt: skip


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    chance = random.Random(seed)
    for number, kind, row in turns("bombs", list(KINDS), trials):
        path = work / f"upload.{kind}"
        path.write_bytes(KINDS[kind](chance))
        row.trials += 1
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = Job(number, "add", path.name)
        try:
            changing.read_upload(path, path.name, job)
            outcome = "skipped in part" if job.skipped else "read"
        except ValueError as error:
            outcome = "refused"
            if "code" in str(error) and "memory" not in str(error):
                row.note("unnamed", f"trial {number}: {error}")
        row.outcomes[outcome] += 1
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        allowed = 12 + path.stat().st_size // 10**6  # with the start of the process
        if seconds > allowed:
            row.note("hangs", f"trial {number}: {seconds:.1f} s")
        if after.ru_maxrss * 1024 > MEMORY:
            row.note("crashes", f"trial {number}: {after.ru_maxrss // 1024} MB")

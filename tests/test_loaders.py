from __future__ import annotations

import json
import os
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.ingest.loaders import read_documents
from stratagraph.store.layout import made_layout
from stratagraph.types.records import Document, StreamedDocument


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "notes"
    path.mkdir()
    monkeypatch.chdir(path)
    return Path()


class Reader:
    """Reads paths and keeps what was skipped and warned of."""

    def __init__(self):
        self.skipped = {}
        self.warned = {}

    def __call__(self, *paths, **options):
        listeners = {"on_skip": self.skipped.__setitem__, "on_warning": self.warned.__setitem__}
        documents = list(read_documents(paths, **listeners, **options))
        assert all(document.metadata["modified"][:2] == "20" for document in documents)
        return [
            replace(each, metadata={key: own for key, own in each.metadata.items() if key != "modified"})
            for each in documents
        ]


@pytest.fixture
def read():
    return Reader()


def write_lines(path, *records):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records), "utf-8")


def test_a_folder_is_read_in_order_with_paths_as_ids(folder, read):
    (folder / "b").mkdir()
    for name in ("z.txt", "b/deep note.md", "a.rst", "b/ملاحظة 🙂.txt", "Makefile"):
        (folder / name).write_text(f"text of {name}", "utf-8")
    documents = read(folder)
    assert [d.id for d in documents] == ["Makefile", "a.rst", "z.txt", "b/deep note.md", "b/ملاحظة 🙂.txt"]
    assert documents[3] == Document("b/deep note.md", "text of b/deep note.md", {"source": "b/deep note.md"})
    assert read.skipped == read.warned == {}
    assert [d.id for d in read(folder)] == [d.id for d in documents]


@pytest.mark.parametrize("given", ["notes", "./notes/", "notes/../notes", ".//notes"])
def test_an_id_is_the_path_in_the_given_folder_however_that_is_spelt(folder, read, given, monkeypatch):
    (folder / "notes" / "sub").mkdir(parents=True)
    (folder / "notes" / "sub" / "b.txt").write_text("yes")
    expected = [Document("sub/b.txt", "yes", {"source": "sub/b.txt"})]
    assert read(given) == expected
    assert read(folder.resolve() / given) == expected
    assert read(f"{given}/sub/b.txt") == [Document("b.txt", "yes", {"source": "b.txt"})]
    monkeypatch.chdir(folder / "notes" / "sub")
    assert read("..") == expected


def test_ids_of_several_folders_begin_with_their_names(folder, read):
    for name in ("notes/a.txt", "letters/a.txt", "old/notes/a.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    assert [d.id for d in read("notes", "letters")] == ["notes/a.txt", "letters/a.txt"]
    with pytest.raises(ValueError, match=r"notes/a\.txt' and '.*old/notes/a\.txt' would both have the id"):
        read("notes", "old/notes")
    with pytest.raises(ValueError, match="would both have the id 'a"):
        read("notes/a.txt", "letters/a.txt")
    assert [d.id for d in read("notes", name="diary")] == ["diary/a.txt"]
    with pytest.raises(ValueError, match="one folder that is new"):
        read("notes", "letters", name="diary")
    with pytest.raises(ValueError, match="a relative path"):
        read("notes", name="../x")


def test_invalid_utf8_is_replaced_and_named(folder, read):
    (folder / "a.txt").write_bytes("Die Fähre fährt, das Café öffnet. ".encode() * 10 + b"caf\xe9 closed")
    (document,) = read(folder)
    assert "caf\ufffd closed" in document.text
    assert "UTF-8" in read.warned["a.txt"]
    assert read.skipped == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_are_honoured(folder, read, encoding):
    text = "渡船 ferry 🙂\r\nsecond line\n\x01"
    (folder / "a.txt").write_bytes(text.encode(encoding))
    assert read(folder)[0].text == text
    assert read.skipped == {}


def test_a_large_file_is_streamed(folder, read, monkeypatch):
    monkeypatch.setattr("stratagraph.ingest.files.contents.STREAMED_ABOVE", 1000)
    monkeypatch.setattr("stratagraph.ingest.files.kinds._BLOCK", 7)
    text = "渡船 ferry 🙂 " * 200
    (folder / "big.txt").write_text(text, "utf-8")
    (document,) = read(folder)
    assert isinstance(document, StreamedDocument)
    assert (document.id, document.metadata) == ("big.txt", {"source": "big.txt"})
    assert len(list(document.blocks())) > 100
    assert "".join(document.blocks()) == "".join(document.blocks()) == text
    assert document.digest == Document("x", text).digest


def test_lines_of_a_jsonl_file_are_documents(folder, read):
    write_lines(
        folder / "corpus.jsonl",
        {"id": "one", "title": "A Bridge", "text": "It fell.", "year": 1871, "metadata": {"kind": "news"}},
        {"contents": "Second.", "id": 7},
        "",
        {"text": "Third 🙂"},
        {"id": "one", "text": "Again."},
    )
    one, two, three, four = read(folder)
    assert {each.file for each in (one, two, three, four)} == {"corpus.jsonl"}
    assert (one.id, one.text) == ("one", "A Bridge\nIt fell.")
    assert one.metadata == {"source": "corpus.jsonl", "title": "A Bridge", "year": 1871, "kind": "news"}
    assert (two.id, two.text) == ("7", "Second.")
    assert (three.id.partition(":")[0], three.text) == ("corpus.jsonl", "Third 🙂")
    assert (four.id, four.text) == ("one", "Again.")


def test_bad_lines_are_skipped_and_named(folder, read):
    bad = [
        '{"id": 1',
        "[1]",
        '{"id": "x"}',
        '{"text": 5}',
        '{"text": "a", "id": []}',
        '{"text": "a", "n": NaN}',
    ]
    bad += ['{"text": "a", "metadata": "m"}', "[" * 100_000]
    write_lines(folder / "c.jsonl", *bad, {"id": "good", "text": "fine"})
    assert [d.id for d in read(folder)] == ["good"]
    assert list(read.skipped) == [f"c.jsonl:{n}" for n in range(1, len(bad) + 1)]
    assert "character 10" in read.skipped["c.jsonl:1"]
    assert '"text"' in read.skipped["c.jsonl:3"]


def test_a_lone_surrogate_in_a_line_can_be_stored(folder, read):
    write_lines(folder / "c.jsonl", '{"id": "a\\ud83d", "text": "cut \\ud83d", "tag": "\\ude00"}')
    (document,) = read(folder)
    assert json.dumps([document.id, document.text, document.metadata], ensure_ascii=False).encode()


def test_a_file_given_twice_is_read_once(folder, read):
    (folder / "x.txt").write_text("yes")
    assert [d.id for d in read(folder, folder / "x.txt")] == ["x.txt"]
    assert "same file" in read.skipped["x.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_and_pipes_do_not_hang(folder, read):
    (folder / "a.txt").write_text("yes")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "gone.txt").symlink_to(folder / "nothing")
    (folder / "self").symlink_to(folder / "self")
    os.mkfifo(folder / "pipe")
    assert [d.id for d in read(folder)] == ["a.txt"]
    assert set(read.skipped) == {"loop", "gone.txt", "self", "pipe"}
    assert read.skipped["gone.txt"] == "broken link"
    assert read.skipped["pipe"] == "not a regular file"


def test_an_index_and_what_is_hidden_are_not_read(folder, read):
    made_layout(folder / "begun")
    (folder / "copied" / "generations" / "1").mkdir(parents=True)
    (folder / "copied" / "CURRENT").write_text("1")
    (folder / ".git").mkdir()
    for name in (".git/config", ".secret.txt", "a.txt"):
        (folder / name).write_text("yes")
    assert [d.id for d in read(folder)] == ["a.txt"]
    assert read.skipped == {name: "a stratagraph index" for name in ("begun", "copied")}


def test_what_is_excluded_is_passed_over_unless_given_by_itself(folder, read):
    (folder / "out").mkdir()
    for name in ("a.txt", "calls.txt", "out/x.txt"):
        (folder / name).write_text(name)
    excluded = ["./calls.txt", folder.resolve() / "out", "not there"]
    assert [d.id for d in read(folder, exclude=excluded)] == ["a.txt"]
    assert [d.id for d in read("calls.txt", "out", exclude=excluded)] == ["calls.txt", "x.txt"]
    assert read.skipped == {}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_utf8_gives_an_id_that_is(folder, read):
    with open(os.path.join(os.fsencode(folder), b"caf\xe9.txt"), "w") as file:
        file.write("yes")
    with open(os.path.join(os.fsencode(folder), b"caf\xe8.txt"), "w") as file:
        file.write("no")
    assert {d.id: d.text for d in read(folder)} == {r"caf\xe9.txt": "yes", r"caf\xe8.txt": "no"}


def test_a_missing_path_is_named_at_once(folder, read):
    (folder / "a.txt").write_text("yes")
    with pytest.raises(FileNotFoundError, match="not there"):
        read_documents([folder, folder / "not there"], on_skip=lambda name, reason: None)


def test_nothing_readable_says_what_was_found(folder, read):
    with pytest.raises(ValueError, match="found no files"):
        read(folder)
    for n in range(7):
        (folder / f"{n}.bin").write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match=r"0\.bin \(binary.*and 2 more"):
        read(folder)
    with pytest.raises(ValueError, match="empty list"):
        read()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_linked_file_is_read_only_inside_the_folder(folder, read):
    (folder / "notes").mkdir()
    (folder / "secret.txt").write_text("secret")
    (folder / "notes" / "a.txt").write_text("yes")
    (folder / "notes" / "out.txt").symlink_to(folder.resolve() / "secret.txt")
    assert [d.text for d in read("notes")] == ["yes"]
    assert "outside the folder" in read.skipped["out.txt"]
    assert [d.id for d in read("notes/out.txt")] == ["out.txt"]


NAMES = {
    "no": "Øystein Ødegård;Tromsø\nÅse Bjørnstad;Ålesund\nJørgen Sørensen;Bodø\nKåre Næss;Ås\nGro Lie;Oslo",
    "sv": "Åsa Lindström;Göteborg\nPär Sjöberg;Malmö\nBjörn Åkerlund;Växjö\nEva Ek;Lund",
    "fr": "Éloïse Lefèvre;Besançon\nFrançois Bélanger;Orléans\nZoë Gérard;Nîmes\nAnne Durand;Paris",
    "es": "Íñigo Núñez;Cádiz\nJosé Ibáñez;Málaga\nMaría Peña;León\nAna Ruiz;Sevilla",
    "pt": "João Simões;São Paulo\nInês Conceição;Évora\nLuís Magalhães;Guimarães\nAna Pinto;Braga",
    "de": "Jürgen Müller;Köln\nKäthe Groß;Lübeck\nBjörn Schäfer;Würzburg\nUwe Voß;Düsseldorf",
    "mixed": "José Ibáñez;Málaga\nJürgen Müller;Köln\nMaría Peña;Lübeck",
}


@pytest.mark.parametrize("rows", [20, 500])
@pytest.mark.parametrize("language", NAMES)
def test_tables_of_western_names_are_windows_1252(folder, read, language, rows):
    lines = (NAMES[language].split("\n") * rows)[:rows]
    (folder / "k.csv").write_bytes(("navn;by\n" + "\n".join(lines)).encode("cp1252"))
    expected = ["navn: {}; by: {}.".format(*line.split(";")) for line in lines]
    assert [d.text for d in read("k.csv")] == expected
    assert "cp1252" in read.warned["k.csv"]


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("cp1250", "Łódź;Gdańsk\nKraków;Wałęsa\nŻółć;Poznań"),
        ("cp1250", "Győr;Pécs\nSzőke;Kőszeg\nErdős;Nyíregyháza\nFűzfő;Buda"),
        ("cp1254", "Şişli;Çağlayan\nÜsküdar;Işık\nBeyoğlu;Kadıköy"),
    ],
)
def test_letters_may_speak_for_another_encoding(folder, read, encoding, names):
    (folder / "k.csv").write_bytes(f"name;place\n{names}\n".encode(encoding))
    assert [d.text for d in read("k.csv")] == [
        "name: {}; place: {}.".format(*line.split(";")) for line in names.split("\n")
    ]
    assert encoding in read.warned["k.csv"]


def test_an_encoding_is_declared_or_given(folder, read):
    text = "# coding: koi8-r\nname = 'Волна'\n"
    (folder / "a.py").write_bytes(text.encode("koi8-r"))
    assert read("a.py")[0].text == text
    page = '<html><meta charset="windows-1251"><p>Волна'
    (folder / "p.html").write_bytes(page.encode("cp1251"))
    assert read("p.html")[0].text == "Волна"
    assert read.warned == {}
    (folder / "t.txt").write_bytes("Łódź".encode("cp1250"))
    (folder / "u.txt").write_text("Łódź is UTF-8", "utf-8")
    assert [d.text for d in read("t.txt", "u.txt", encoding="cp1250")] == ["Łódź", "Łódź is UTF-8"]
    with pytest.raises(ValueError, match="'cp9999' is no encoding"):
        read("t.txt", encoding="cp9999")


def test_without_a_listener_what_is_skipped_or_has_faults_is_a_warning(folder):
    (folder / "a.txt").write_bytes(b"The ferry left at seven, caf\xe9 closed. " * 10)
    (folder / "b.bin").write_bytes(b"\0" * 100)
    with (
        pytest.warns(UserWarning, match=r"skipped b\.bin: binary"),
        pytest.warns(UserWarning, match=r"^a\.txt: not valid UTF-8"),
    ):
        assert len(list(read_documents([folder]))) == 1


CONTROLS = "".join(chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc")


@pytest.mark.parametrize("kind", ["string", "document", "streamed", "chunk"])
def test_each_becomes_one_space_but_tab_and_line_break(kind: str) -> None:
    text = "a" + "".join(f"{control}b" for control in CONTROLS) + "\u200d\r\nc"
    kept = {*text} - {*CONTROLS} | {*"\t\n"}
    given: dict[str, sg.Document | sg.StreamedDocument | sg.Chunk | str] = {
        "string": text,
        "document": sg.Document("d", text),
        "streamed": sg.StreamedDocument("d", lambda: iter(text)),
        "chunk": sg.Chunk(text, "d"),
    }
    with sg.build_index([given[kind]], embedder="hashing", progress=False) as index:
        ((chunk,),) = index.chunks().values()
    assert chunk.text == "".join(each if each in kept else " " for each in text.replace("\r\n", "\n"))


def test_sections_begin_where_they_began() -> None:
    text = "One\r\nferry.\r\n\r\nTwo\r\nboats."
    sections = [sg.Section(0, {"page": 1}), sg.Section(text.index("Two"), {"page": 2})]
    config = {"chunking": {"size": 4, "overlap": 0}}
    document = sg.Document("d", text, {}, sections)
    with sg.build_index([document], embedder="hashing", config=config, progress=False) as index:
        pages = {chunk.text.split()[-1]: chunk.metadata["page"] for chunk in index.chunks()["d"]}
    assert (pages["ferry."], pages["boats."]) == (1, 2)

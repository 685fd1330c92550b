"""Control characters: none reaches an index, whatever the way in."""

from __future__ import annotations

import unicodedata

import pytest

import stratagraph as sg

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

"""Which words of files the readers keep, against independent readers, and what reading costs.

usage: python cookbook/benchmarks/words_kept.py FOLDER [--most 300]

The references are `w3m -dump` (HTML, chapters of EPUB), `pdftotext` (PDF), and the text elements of the XML
(DOCX, PPTX, ODT); w3m and pdftotext must be installed. A word is two letters or more, without digits, since
w3m numbers lists. Navigation, a page's footer, choices, pictures and `noscript` are cut from HTML before w3m
reads it. Files above 2 MB are left out; of a kind with more files than `--most`, an even sample is read.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time
import warnings
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import stratagraph as sg

LARGEST = 2 * 2**20
KINDS = (".html", ".htm", ".xhtml", ".docx", ".pptx", ".odt", ".epub", ".pdf")
WORD = re.compile(r"[^\W\d_]{2,}")
CUT = re.compile(
    r"<!--.*?-->|<(nav|footer|select|noscript|svg|script|style|template|textarea)\b.*?</\1\s*>|<(?:img|area|input)\b[^>]*>",
    re.DOTALL | re.IGNORECASE,
)
DELETED = re.compile(
    r"<(w:del|w:moveFrom|mc:Fallback|text:tracked-changes|office:annotation)\b[^>/]*>.*?</\1>", re.DOTALL
)
TEXTS = re.compile(r"<(?:w|a|m):t(?: [^>]*)?>([^<]*)<")
PARTS = re.compile(
    r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml|ppt/(?:slides|notesSlides)/[^/]*\.xml|content\.xml"
)


def dumped(page: bytes) -> str:
    """What w3m shows of a page."""
    try:
        text = page.decode("utf-8")
    except UnicodeDecodeError:
        text = page.decode("cp1252", "replace")
    command = ["w3m", "-dump", "-T", "text/html", "-I", "utf-8", "-O", "utf-8", "-cols", "9999"]
    shown = subprocess.run(command, input=CUT.sub(" ", text).encode(), capture_output=True, timeout=60)
    return shown.stdout.decode("utf-8", "replace")


def reference(path: Path) -> str:
    """The text of a file by an independent reader."""
    if path.suffix.lower() == ".pdf":
        shown = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, timeout=60)
        return shown.stdout.decode("utf-8", "replace")
    if path.suffix.lower() in (".html", ".htm", ".xhtml"):
        return dumped(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        if path.suffix.lower() == ".epub":
            pages = [
                each for each in archive.namelist() if re.search(r"\.x?html?$", each) and "nav" not in each
            ]
            return "\n".join(dumped(archive.read(each)) for each in pages)
        markup = [
            DELETED.sub("", archive.read(each).decode())
            for each in archive.namelist()
            if PARTS.fullmatch(each)
        ]
    if path.suffix.lower() == ".odt":
        return "\n".join(re.sub(r"</?text:(?:p|h|tab|s|line-break)\b[^>]*>", " ", each) for each in markup)
    return "\n".join("".join(TEXTS.findall(re.sub(r"</[wa]:p>", "<w:t>\n<", each))) for each in markup)


def words(text: str) -> Counter[str]:
    plain = re.sub(r"<[^>]*>", "", text) if "<office:" in text else text
    return Counter(WORD.findall(plain.replace("\xad", "").casefold()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=300, metavar="N")
    chosen = parser.parse_args()
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(chosen.folder.rglob("*")):
        kind = path.suffix.lower()
        if kind in KINDS and path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
            found[kind].append(path)
    warnings.simplefilter("ignore")
    print("kind     files    MB    words   kept %  lose >5 %  >30 %  not in reference %  refused  CPU s/MB")
    for kind, paths in sorted(found.items()):
        paths = paths[:: -(-len(paths) // chosen.most)]
        total = kept = added = some = many = refused = 0
        seconds, worst = 0.0, []
        for path in paths:
            expected = words(reference(path))
            began = time.process_time()
            try:
                texts = [each.text for each in sg.read_documents(path)]
            except ValueError:
                texts, refused = [], refused + bool(expected)
            seconds += time.process_time() - began
            own = words("\n".join(texts))
            count, common = expected.total(), (expected & own).total()
            total, kept, added = total + count, kept + common, added + (own - expected).total()
            lost = 1 - common / count if count else 0
            some, many = some + (lost > 0.05), many + (lost > 0.3)
            worst.append((lost, path))
        size = sum(path.stat().st_size for path in paths) / 1e6
        share = 100 * kept / max(total, 1)
        print(f"{kind:7} {len(paths):6} {size:5.1f} {total:8} {share:8.2f} {some:10} {many:6}", end=" ")
        print(f"{100 * added / max(total, 1):19.2f} {refused:8} {seconds / max(size, 1e-9):9.3f}")
        for lost, path in sorted(worst, reverse=True)[:5]:
            if lost > 0:
                print(f"    loses {lost:.2%}: {path}")


if __name__ == "__main__":
    main()

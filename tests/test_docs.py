"""What the guides for contributors name exists, and the blocks of the guides run."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "stratagraph": ROOT / "src/stratagraph",
    "langchain_stratagraph": ROOT / "integrations/langchain/langchain_stratagraph",
    "llama_index_stratagraph": ROOT / "integrations/llama-index/llama_index_stratagraph",
}
HOW_TO = sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/integrations").glob("*.md")])
GUIDES = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")),
]
INDEX_FOLDER = {
    "manifest.json",
    "calls.sqlite",
    "shards.json",
}  # files that an index has, and the project has not
# What names stand for in examples.
VARIABLES = {
    "Index": ["stratagraph.Index"],
    "PPRRetriever": ["langchain_stratagraph.PPRRetriever"],
    "answer": ["stratagraph.Answer"],
    "index": ["stratagraph.Index", "llama_index_stratagraph.ArchRAGIndex"],
    "retriever": ["langchain_stratagraph.PPRRetriever"],
    "sg": ["stratagraph"],
}
IN_TOOLS = re.compile(r"^(?:pip|python|git|stratagraph|mkdocs|ruff|mypy|pytest|kill)\b|^\W|[=({\[\"']")


def spans(text: str) -> Iterator[str]:
    """The pieces of inline code, in order; fenced blocks are left out."""
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


@cache
def sources() -> str:
    """All code of the project as one text."""
    return "\n".join(p.read_text("utf-8") for folder in PACKAGES.values() for p in folder.rglob("*.py"))


def path_exists(span: str) -> bool:
    """Whether it is a path of the project, from its root or inside a package; `<...>` stands for anything."""
    pattern = re.sub(r"<\w+>", "*", span).rstrip("/")
    nearby = [] if "/" in pattern else [folder.glob(f"**/{pattern}") for folder in PACKAGES.values()]
    direct = [folder.glob(pattern) for folder in (ROOT, ROOT / "integrations", *PACKAGES.values())]
    return any(next(found, None) is not None for found in [*direct, *nearby])


def resolved(span: str) -> Any:
    """What a dotted name means: from a package, from `stratagraph`, or from its public classes.

    Raises
    ------
    LookupError
        If there is no such thing.
    """
    names = span.split(".")
    homes = [names] if names[0] in PACKAGES else [["stratagraph", *names]]
    homes += [[*kind.split("."), *names[1:]] for kind in VARIABLES.get(names[0], ())]
    for parts in homes:
        if (found := _followed(parts)) is not None:
            return found
    raise LookupError(span)


def _followed(parts: list[str]) -> Any:
    """The longest prefix that is a module, and then attributes, those that only annotations declare."""
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            declared = getattr(found, "__annotations__", {})
            found = declared[name] if name in declared else getattr(found, name, None)
            if found is None:
                return None
        return found
    return None


def problem(span: str) -> str | None:
    """What is wrong with a piece of code in a guide; None if it names something that is there."""
    if span in INDEX_FOLDER or IN_TOOLS.search(span) or " " in span:
        return None
    if "/" in span or re.search(r"\.(?:py|md|toml|yml|yaml|ipynb|cpp|arrays)$", span):
        return None if path_exists(span) else f"there is no path {span}"
    if re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", span):
        try:
            resolved(span)
        except LookupError:
            return f"there is no {span}"
        return None
    if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", span):
        return None if re.search(rf"\b{span}\b", sources()) else f"no code speaks of {span}"
    return None


@pytest.mark.parametrize("guide", GUIDES)
def test_what_a_guide_names_exists(guide: str) -> None:
    for extra in ("langchain_core", "llama_index.core"):
        pytest.importorskip(extra)
    found = [wrong for span in spans((ROOT / guide).read_text("utf-8")) if (wrong := problem(span))]
    assert not found


@pytest.mark.parametrize(
    "span",
    ["search.filters.nothing", "search/nowhere.py", "methods/<method>/no.py", "sg.Nothing", "NoSuchClass"],
)
def test_what_does_not_exist_is_noticed(span: str) -> None:
    assert problem(span)


def run_python(guide: Path) -> None:
    """Run the blocks of `python`, in order; those of `py` need a key and are shown, `text` is not Python."""
    names: dict[str, Any] = {}
    for content in re.findall(r"^```python\n(.*?)^```$", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(content, guide.name, "exec"), names)


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize("guide", HOW_TO, ids=lambda guide: f"{guide.parent.name}/{guide.stem}")
def test_guides_run_one_after_the_other_in_one_folder(
    guide: Path, one_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ("langchain_core", "llama_index.core"):
        pytest.importorskip(extra)
    monkeypatch.chdir(one_folder)
    run_python(guide)


def test_the_picture_of_the_layers_is_the_contract() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    (picture,) = re.findall(r"<!-- layers -->\n```text\n.*?^-+$\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    drawn = [set(re.split(r",\s*", re.split(r"\s{2,}", line)[0])) for line in picture.splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        each for each in settings["tool"]["importlinter"]["contracts"] if each["name"] == "Layers of the core"
    )
    assert drawn == [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]


@pytest.mark.parametrize("folder", ["models", "ingest", "search"])
def test_the_modules_that_a_package_lists_are_there(folder: str) -> None:
    package = importlib.import_module(f"stratagraph.{folder}")
    listed = re.findall(r"^    ([a-z_]+(?:, [a-z_]+)*)  +\S", package.__doc__ or "", re.MULTILINE)
    names = [name for line in listed for name in line.split(", ")]
    assert len(names) > 6
    here = {path.stem for path in (PACKAGES["stratagraph"] / folder).iterdir()}
    assert set(names) <= here


def test_every_paper_map_names_its_code() -> None:
    """Each row of a map has a paper's place, and a name or path that the other test has checked."""
    text = (ROOT / "docs/reference/papers.md").read_text("utf-8")
    tables = re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, re.DOTALL | re.MULTILINE)
    assert [title for title, _ in tables] == ["ArchRAG", "NodeRAG", "HiRAG", "LSH tree"]
    for _, table in tables:
        rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
        assert len(rows) >= 6
        assert all("`" in row.split("|")[2] for row in rows)

"""The notebooks run as they stand, offline and in a folder of their own, and keep the cookbook's rules."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
for framework in ("langchain_core", "langgraph", "llama_index.core"):
    pytest.importorskip(framework)

from nbclient.exceptions import CellExecutionError  # noqa: E402

from langchain_stratagraph import TreeRetriever  # noqa: E402
from llama_index_stratagraph import LSHTreeIndex  # noqa: E402

COOKBOOK = Path(__file__).resolve().parents[1] / "cookbook"
NOTEBOOKS = sorted(COOKBOOK.glob("*.ipynb"))
REFRESH = runpy.run_path(str(COOKBOOK / "refresh.py"))
CPU_SECONDS = 60  # of the kernel: what else the machine does must not fail a test
OUTPUT_BYTES, FILE_BYTES = 3_000, 30_000
OFFLINE = """
import socket


def _refused(*args, **kwargs):
    raise AssertionError(f"a notebook reached for the network: {args[-1]!r}")


socket.getaddrinfo = socket.socket.connect = socket.socket.connect_ex = _refused
"""
SPENT = "import time\nprint(time.process_time())"
# LlamaIndex's own engines stand beside what the package offers under its own names.
ENGINES = {"query", "aquery", "chat", "achat"}
PUBLIC = {*sg.__all__, *ENGINES} | {
    name for kind in (sg.Index, TreeRetriever, LSHTreeIndex) for name, _ in inspect.getmembers(kind)
}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def offline(notebook: Any, folder: Path) -> float:
    """Run a notebook that may not reach beyond the machine; returns the seconds of CPU it took."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(OFFLINE))
    notebook.cells.append(nbformat.v4.new_code_cell(SPENT))
    REFRESH["run"](notebook, folder)
    return float(notebook.cells[-1].outputs[0].text)


def code(notebook: Any) -> Iterator[Any]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def prose(notebook: Any) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def calls(notebook: Any) -> tuple[set[str], set[str]]:
    """Names called, and those of them that are awaited or iterated over asynchronously."""
    source = "\n\n".join(cell.source for cell in code(notebook))
    tree = compile(
        source, "notebook", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    waited = [node.value for node in ast.walk(tree) if isinstance(node, ast.Await)]
    waited += [
        node.iter
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async)
    ]
    called = {_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return called, {_name(node.func) for node in waited if isinstance(node, ast.Call)}


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


@each_notebook
def test_runs_offline_without_a_key(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    assert offline(read(path), tmp_path) < CPU_SECONDS


def test_reaching_for_the_network_is_noticed(tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell("import urllib.request\nurllib.request.urlopen('http://example.org')")
    with pytest.raises(CellExecutionError, match="reached for the network"):
        offline(nbformat.v4.new_notebook(cells=[cell]), tmp_path)


@each_notebook
def test_calls_both_halves_of_the_api(path: Path) -> None:
    called, awaited = calls(read(path))
    twins = {name for name in PUBLIC if f"a{name}" in PUBLIC}
    assert {name.removeprefix("a") for name in awaited} & twins, "nothing asynchronous is called"
    assert (called - awaited) & (twins | {"evaluate"}), "nothing synchronous is called"


@each_notebook
def test_outputs_are_there_and_small(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1)), (
        "run cookbook/refresh.py: not executed from top to bottom"
    )
    assert path.stat().st_size < FILE_BYTES
    for output in (output for cell in code(notebook) for output in cell.outputs):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
        assert len(str(output)) < OUTPUT_BYTES
        assert "text/html" not in output.get("data", {}), "run cookbook/refresh.py: it leaves pages out"


@each_notebook
def test_nothing_of_a_machine_is_in_it(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"/(?:tmp|home|root|Users|work|var|opt|private)/|[A-Z]:\\\\|site-packages", text)
    assert not re.search(r"\b(?:sk-|hf_)\w{8,}|_API_KEY", text)


@each_notebook
def test_a_model_that_stands_in_is_named_as_such(path: Path) -> None:
    notebook = read(path)
    called, _ = calls(notebook)
    if called & {"ScriptedChatModel", "FakeListChatModel"}:
        text = " ".join(prose(notebook).split())
        assert re.search(r"stands? for your", text), "say that the model is a stand-in"
        assert "gpt-" in text or "`01_quickstart`" in text, "show the line of a real model, or where it is"


def test_the_list_of_notebooks_is_whole() -> None:
    listed = re.findall(r"\]\((\w+\.ipynb)\)", (COOKBOOK / "README.md").read_text("utf-8"))
    assert listed == [path.name for path in NOTEBOOKS]
    assert len(NOTEBOOKS) == 13

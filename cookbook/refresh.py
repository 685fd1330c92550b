"""Runs the notebooks and writes what they print back into them: `python cookbook/refresh.py [NOTEBOOK ...]`.

Of a picture its one line of text is kept, not the page.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

COOKBOOK = Path(__file__).parent
SECONDS = 300  # for one cell; a hang, not slowness


def run(notebook: nbformat.NotebookNode, folder: Path) -> float:
    """Execute a notebook in a folder, filling in its outputs; returns the seconds it took."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    began = time.perf_counter()
    client.execute()
    return time.perf_counter() - began


def slim(notebook: nbformat.NotebookNode) -> None:
    """Leave out pages, warnings, and what depends on the machine."""
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            output.get("data", {}).pop("text/html", None)


def main(names: list[str]) -> None:
    """Refresh the notebooks named, or all."""
    for path in [Path(name) for name in names] or sorted(COOKBOOK.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with TemporaryDirectory() as folder:
            seconds = run(notebook, Path(folder))
        slim(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {seconds:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

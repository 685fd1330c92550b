"""What the distributions bring that catalogues of LangChain and LlamaIndex look for, and what not."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg

ROOT = Path(__file__).resolve().parents[1]
OWN = {
    "langchain-stratagraph": set(),
    "llama-index-indices-stratagraph": {"llama_index/indices/stratagraph/__init__.py"},
}
EXTRAS = {"langchain-stratagraph": "langchain", "llama-index-indices-stratagraph": "llama-index"}


@pytest.fixture(params=sorted(OWN))
def folder(request: pytest.FixtureRequest) -> Path:
    return ROOT / "integrations" / request.param


def test_they_follow_the_version(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == folder.name
    assert project["version"] == sg.__version__
    assert project["dependencies"] == [f"stratagraph[{EXTRAS[folder.name]}]=={sg.__version__}"]


def test_no_file_is_in_two_of_them(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = pytest.importorskip("hatchling.build")
    monkeypatch.chdir(folder)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    assert files == OWN[folder.name]
    assert len(licences) == 1
    main = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["scikit-build"]
    assert not {path.partition("/")[0] for path in files} & {
        Path(path).name for path in main["wheel"]["packages"]
    }


def test_the_name_in_the_framework_leads_to_the_same_things() -> None:
    ours = pytest.importorskip("llama_index_stratagraph")
    names: dict[str, Any] = {}
    folder = ROOT / "integrations/llama-index-indices-stratagraph"
    exec((folder / "llama_index/indices/stratagraph/__init__.py").read_text("utf-8"), names)
    assert names["__all__"] == ours.__all__
    assert all(names[name] is getattr(ours, name) for name in ours.__all__)
    hub = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["tool"]["llamahub"]
    assert hub["import_path"] == "llama_index.indices.stratagraph"
    assert set(hub["class_authors"]) <= set(ours.__all__)


def test_their_examples_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        {"langchain": "langchain_core", "llama-index": "llama_index.core"}[EXTRAS[folder.name]]
    )
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", (folder / "README.md").read_text("utf-8"), re.DOTALL | re.M
    )
    block = block.replace(
        "from llama_index.indices.stratagraph import", "from llama_index_stratagraph import"
    )
    exec(compile(block, "README.md", "exec"), {})

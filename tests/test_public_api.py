from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stratagraph as sg


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_all_is_sorted_and_complete() -> None:
    assert sg.__all__ == sorted(sg.__all__)
    for name in sg.__all__:
        assert getattr(sg, name) is not None
    assert set(sg.__all__) <= set(dir(sg))


def test_no_two_classes_share_a_name() -> None:
    where: dict[str, list[str]] = {}
    for path in Path(sg.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(path.name)
    assert not {name: files for name, files in where.items() if len(files) > 1}


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bild_index'"):
        sg.bild_index  # noqa: B018


@pytest.mark.parametrize("name", ["build_index", "estimate", "open_index"])
def test_twins_have_the_same_parameters(name: str) -> None:
    assert (
        inspect.signature(getattr(sg, name)).parameters
        == inspect.signature(getattr(sg, f"a{name}")).parameters
    )


def test_every_method_of_index_that_may_wait_has_its_twin() -> None:
    public = {name for name, _ in inspect.getmembers(sg.Index, inspect.isfunction) if name[0] != "_"}
    twins = {name for name in public if f"a{name}" in public}
    for name in twins:
        own, other = (inspect.signature(getattr(sg.Index, each)) for each in (name, f"a{name}"))
        assert own.parameters == other.parameters
    local = (
        "about answer_k browse calls chunks close copy_to documents embeddings entities export extractions"
    )
    local += " files find_chunks levels nearest neighbours nodes relations reload show show_report"
    local += " to_networkx units until warm"
    assert public - twins - {f"a{name}" for name in twins} == {*local.split()}


def test_the_core_knows_no_framework() -> None:
    result = run(
        """
        import sys
        sys.modules["llama_index"] = sys.modules["langchain_core"] = sys.modules["langchain"] = None
        import stratagraph as sg
        for name in sg.__all__:
            getattr(sg, name)
        import stratagraph.cli.building, stratagraph.cli.reading, stratagraph.cli.serving, stratagraph.testing
        """
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("package", ["stratagraph", "langchain_stratagraph", "llama_index_stratagraph"])
def test_nothing_heavy_is_imported(package: str) -> None:
    result = run(
        f"""
        import sys
        import {package}
        heavy = {{"langchain_core", "scipy", "sklearn", "igraph", "onnxruntime", "stratagraph.types"}}
        print(sorted(heavy & set(sys.modules)), len({package}.__all__) > 7)
        """
    )
    assert result.stdout.strip() == "[] True"


def test_a_command_is_imported_when_it_is_used() -> None:
    result = run(
        """
        import sys
        sys.argv = ["stratagraph", "--version"]
        from stratagraph.__main__ import main
        try:
            main()
        except SystemExit:
            print(sorted({"numpy", "pydantic", "stratagraph.cli.reading"} & set(sys.modules)))
        """
    )
    assert result.stdout.split() == ["stratagraph,", "version", sg.__version__, "[]"]


def test_errors_have_one_root() -> None:
    kinds = [kind for _, kind in inspect.getmembers(sg.errors, inspect.isclass)]
    assert len(kinds) > 10
    assert all(issubclass(kind, sg.errors.StratagraphError) for kind in kinds)
    drawn = sg.errors.__doc__ or ""
    assert all(kind.__name__ in drawn for kind in kinds)

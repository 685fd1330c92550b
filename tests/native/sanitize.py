"""Build the native kernels with a sanitizer and run their tests under it.

    python tests/native/sanitize.py address     # AddressSanitizer and UndefinedBehaviorSanitizer
    python tests/native/sanitize.py thread      # ThreadSanitizer

Files named after that are the only ones run (`thread test_ppr.py`).

Needs cmake, ninja, nanobind and gcc or clang. The installed package is not touched: the sources are copied
to a folder of their own, and the tests run on the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "thread": "-fsanitize=thread",
}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
TESTS = [
    "test_alignment.py",
    "test_bm25.py",
    "test_chnsw.py",
    "test_chnsw_input.py",
    "test_chnsw_recalibrated.py",
    "test_float16.py",
    "test_native.py",
    "test_paths.py",
    "test_ppr.py",
    "test_topk.py",
]
# What needs many examples says nothing here.
LEFT_OUT = "not step_by_step"


def main(which: str, names: Sequence[str]) -> int:
    """Build, run, and return the exit code of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        shutil.copytree(ROOT / "tests" / "kernels", copy / "tests" / "kernels")
        shutil.copy(ROOT / "CMakeLists.txt", copy)
        for package in ("tests", "tests/kernels"):
            (copy / package / "__init__.py").touch()
        build(copy, FLAGS[which])
        return run(copy, LIBRARIES[which], names)


def build(copy: Path, flags: str) -> None:
    """Compile the module into the copy's package."""
    flags += " -g -fno-omit-frame-pointer"
    configure = ["cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "."]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_FLAGS={flags}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in (configure, ["cmake", "--build", "build"]):
        subprocess.run(
            command, cwd=copy, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path}
        )
    for module in (copy / "build").glob("_native*"):
        shutil.copy(module, copy / "src/stratagraph/kernels")


def run(copy: Path, library: str, names: Sequence[str]) -> int:
    """Run the kernels' tests with the sanitizer's library loaded before Python."""
    # The C++ library comes along, or AddressSanitizer would not find the exceptions it has to watch.
    preload = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
        for name in (library, "libstdc++.so.6")
    ]
    # The search path goes before what an editable installation redirects.
    start = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'Editable' not in type(f).__name__ "
        "and 'Redirect' not in type(f).__name__]; sys.path[:0] = ['src', '.']; import pytest; "
        "from stratagraph.kernels import _native; assert 'copy' in _native.__file__, _native.__file__; "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(path.strip() for path in preload),
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=66",
        "OPENBLAS_NUM_THREADS": "1",
    }
    tests = [f"tests/kernels/{name}" for name in names]
    # Captured output would take a sanitizer's report with it.
    options = ["-q", "--capture=sys", "-p", "no:cacheprovider", "-o", "addopts=", "-k", LEFT_OUT]
    command = [sys.executable, "-c", start, *options]
    return subprocess.run([*command, *tests], cwd=copy, env=environment, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in FLAGS or not set(sys.argv[2:]) <= set(TESTS):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:] or TESTS))

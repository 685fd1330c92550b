"""Results that outlast a run: each is stored when it ends, under a digest of all it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import stratagraph
from stratagraph.eval.answering import AnswerConfig
from stratagraph.eval.metrics import has_wordnet
from stratagraph.eval.rankers import Workbench
from stratagraph.eval.results import Row
from stratagraph.eval.scoring import Cutoffs
from stratagraph.models.identity import identity_of_model
from stratagraph.models.task import models_by_stage
from stratagraph.store.files import Directory

NATIVE = "stratagraph.kernels._native"
_ROW = TypeAdapter(Row)


class Kept:
    """A folder of results, each a JSON file named by the digest of its identity."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, identity: Mapping[str, Any]) -> Any:
        """The result of an identity, None if there is none; `ValueError` if the file is damaged."""
        path = self._folder / _name(identity)
        try:
            found = json.loads(path.read_text("utf-8"))
            if found["identity"] == json.loads(_written(identity)):
                return found["result"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it, and its result is made anew") from None
        return None

    def put(self, identity: Mapping[str, Any], result: Any) -> None:
        """Keep a JSON-native result."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"identity": identity, "result": result}, ensure_ascii=False, default=asdict)
        Directory.open(self._folder).write(_name(identity), content.encode("utf-8"))


def digest(value: Any) -> str:
    """Digest of JSON-native values, dataclasses, or tuples of them."""
    return hashlib.blake2b(_written(value).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """Digest of the names and contents of files and folders; a missing path counts as nothing."""
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
                with file.open("rb") as content:
                    found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


@cache
def code() -> Mapping[str, Any]:
    """A digest of the package and its compiled kernels, and versions of its requirements."""
    compiled = find_spec(NATIVE)
    files = [Path(stratagraph.__file__).parent]
    files += [Path(compiled.origin)] if compiled is not None and compiled.origin else []
    versions = {}
    for each in requires("stratagraph") or ():
        name = re.match(r"[\w.-]+", each)[0]  # type: ignore[index]
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {"stratagraph": digest_of_files(files), "versions": versions}


def _name(identity: Mapping[str, Any]) -> str:
    return f"{digest(identity)}.json"


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=asdict)


@dataclass(frozen=True)
class KeptRows:
    """Kept rows, each identified by the run, its name, and the rows before it.

    Those before matter because what rows share is made by the first and counts there. Rows with failures are
    not kept, so that the same command tries again. Without `kept` nothing is kept; with `again` all rows are
    measured.
    """

    kept: Kept | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False

    def find(self, name: str, before: Sequence[str]) -> tuple[Row, bool] | None:
        """A kept row, and whether the baselines' graph existed when it ended; None if there is none."""
        if self.kept is None or self.again:
            return None
        found = self.kept.get(self._of(name, before))
        return None if found is None else (_ROW.validate_python(found["row"]), bool(found["has_graph"]))

    def keep(self, row: Row, before: Sequence[str], has_graph: bool) -> None:
        """Keep a row without failures."""
        if self.kept is not None and not row.error and not row.failures:
            found = {"row": asdict(row), "has_graph": has_graph}
            self.kept.put(self._of(row.name, before), found)

    def _of(self, name: str, before: Sequence[str]) -> dict[str, Any]:
        return {**self.identity, "row": name, "before": list(before)}


def identity_of_run(
    bench: Workbench, cutoffs: Cutoffs, answers: AnswerConfig | None, llm: Any, judges: Sequence[Any]
) -> dict[str, Any]:
    """All that figures depend on: data, settings, embedder, models, code, and the machine.

    Without the reference and the settings of intervals, which only compare rows, and without comparisons of
    answers, which are made after all rows and have a cache of calls.
    """
    return {
        "data": digest(replace(bench.dataset, name="", notes={})),
        "passages": digest([chunk.text for chunk in bench.chunks]),
        "config": {**bench.config.to_dict(), "max_failures": bench.config.max_failures},
        "view": bench.view,
        "cutoffs": asdict(cutoffs),
        "embedder": bench.embedder.name,
        "models": {stage: identity_of_model(model) for stage, model in models_by_stage(llm).items()},
        "judges": [identity_of_model(judge) for judge in judges],
        "answers": answers
        and {
            "max_tokens": answers.max_tokens,
            "style": answers.style,
            "judge": answers.judge,
            "synonyms": has_wordnet(),
        },
        "code": dict(code()),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }

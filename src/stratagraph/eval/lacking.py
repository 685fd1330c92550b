"""Packages that rows and reports need, and the base does not bring: looked for before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple, get_args

from stratagraph.config import Config
from stratagraph.errors import MissingExtra
from stratagraph.eval.methods import settings_of
from stratagraph.eval.names import RowName
from stratagraph.kernels.leiden_quality import Quality
from stratagraph.methods import NAMES


class Package(NamedTuple):
    """A module, the package that has it, and the extra of this package that brings it."""

    module: str
    name: str
    extra: str


_KEYWORDS = (Package("bm25s", "bm25s", "eval"), Package("nltk", "nltk", "eval"))
_MIXTURES = (Package("sklearn", "scikit-learn", "eval"),)
ANSWERS = (Package("nltk", "nltk", "eval"), Package("rouge_score", "rouge-score", "eval"))
"""What answers are scored with."""
PLOTS = (Package("matplotlib", "matplotlib", "viz"),)


def lacking_rows(names: Sequence[str], view: str, config: Config) -> Mapping[str, MissingExtra]:
    """The rows that cannot be measured for want of a package, with the first that each lacks.

    Parameters
    ----------
    names, view, config
        As `checking.check_rows` takes them, which has checked them.
    """
    found = {name: lacking(_needed(RowName.of(name, view), config)) for name in names}
    return {name: missing for name, missing in found.items() if missing is not None}


def lacking(packages: Iterable[Package]) -> MissingExtra | None:
    """What to say of the first of some packages that is not here; None if all are."""
    for package in packages:
        if find_spec(package.module) is None:
            return MissingExtra(package.name, package.extra)
    return None


def _needed(wanted: RowName, config: Config) -> Iterator[Package]:
    if wanted.ranker in NAMES:
        own = settings_of(wanted, config).method(wanted.ranker)
        if getattr(own, "clustering", None) in get_args(Quality):
            yield Package("leidenalg", "leidenalg", "leidenalg")
    elif wanted.ranker in ("bm25", "hybrid"):
        yield from _KEYWORDS
    elif wanted.ranker == "raptor" and wanted.options.get("clusters", "mixture") == "mixture":
        yield from _MIXTURES

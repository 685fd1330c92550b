"""Rows that cannot be measured, found before anything runs: unknown names or options, missing packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple, get_args

from stratagraph.config import Config
from stratagraph.errors import MissingExtra
from stratagraph.eval.baselines import BASELINES, checked
from stratagraph.eval.methods import settings_of
from stratagraph.eval.names import BUILD, RowName
from stratagraph.kernels.leiden_quality import Quality
from stratagraph.methods import NAMES, WAYS
from stratagraph.operations.asking import SearchArguments, check_used
from stratagraph.operations.search_options import check_search_options
from stratagraph.search.filters import compile_where
from stratagraph.types.question import SHARED_OPTIONS, WALK

KNOWN = (*WAYS, *BASELINES)
_SAID_ELSEWHERE = {
    "k": "cutoffs are those of the run (--k)",
    "method": "the name begins with it",
    "view": "it stands behind the name, as in lshtree/nodes",
}


def check_rows(rows: Sequence[str], view: str, config: Config) -> None:
    """Refuse names of rows, options and values that cannot be measured.

    `view` is for names without one, and a row adds settings of its build to `config`. Raises `ValueError` for
    the first wrong row, with its name and what is allowed.
    """
    for name in rows:
        wanted = RowName.of(name, view)
        if wanted.ranker not in KNOWN:
            raise ValueError(f"there is no method or baseline {name!r}; choose from {', '.join(KNOWN)}")
        try:
            if wanted.ranker in WAYS:
                _check_method(wanted, config)
            else:
                _check_baseline(wanted)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r}: {error}") from error


def _check_method(wanted: RowName, config: Config) -> None:
    for key, instead in _SAID_ELSEWHERE.items():
        if key in wanted.options:
            raise ValueError(f"{key!r} is no option of a row: {instead}")
    search = dict(wanted.search)
    method, where = search.pop("method"), search.pop("where", None)
    shared = {key: search.pop(key) for key in SHARED_OPTIONS if key in search}
    check_used(method, SearchArguments(**shared))
    check_search_options(method, search)
    if where is not None:
        compile_where(where)
    if wanted.ranker == WALK and wanted.build:
        raise ValueError(f"nothing is built for the walk, so that it has no settings {BUILD}...")
    settings_of(wanted, config)


def _check_baseline(wanted: RowName) -> None:
    if wanted.build:
        raise ValueError(f"{wanted.ranker} is no method of an index, and has no settings {BUILD}...")
    checked(wanted.ranker, wanted.options, own_prompt=wanted.own_prompt)


class Package(NamedTuple):
    """A module, the package that has it, and the extra that installs it."""

    module: str
    name: str
    extra: str


_KEYWORDS = (Package("bm25s", "bm25s", "eval"), Package("nltk", "nltk", "eval"))
ANSWERS = (Package("nltk", "nltk", "eval"), Package("rouge_score", "rouge-score", "eval"))
"""Packages that score answers."""


def lacking_rows(names: Sequence[str], view: str, config: Config) -> Mapping[str, MissingExtra]:
    """Rows that lack a package, with the first that each lacks; arguments as for `check_rows`."""
    found = {name: lacking(_needed(RowName.of(name, view), config)) for name in names}
    return {name: missing for name, missing in found.items() if missing is not None}


def lacking(packages: Iterable[Package]) -> MissingExtra | None:
    """The error for the first package that is not installed; None if all are."""
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

"""Rows that cannot be measured as they are named, found before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from stratagraph._asking import SearchArguments
from stratagraph._search_options import check_search_options
from stratagraph.config import Config
from stratagraph.eval.baselines import BASELINES, checked
from stratagraph.eval.methods import settings_of
from stratagraph.eval.names import BUILD, RowName
from stratagraph.methods import NAMES
from stratagraph.pipeline.filters import compile_where
from stratagraph.question import SHARED_OPTIONS

KNOWN = (*NAMES, *BASELINES)
_SAID_ELSEWHERE = {
    "k": "cutoffs are those of the run (--k)",
    "method": "the name begins with it",
    "view": "it stands behind the name, as in lshtree/nodes",
}


def check_rows(rows: Sequence[str], view: str, config: Config) -> None:
    """Refuse names of rows, options and values that no row could be measured by.

    Parameters
    ----------
    rows
        Names, as `evaluate` takes them.
    view
        The run's, for those that say none.
    config
        The run's, on which settings of a build are laid.

    Raises
    ------
    ValueError
        For the first that is wrong; the message names the row and what is allowed.
    """
    for name in rows:
        wanted = RowName.of(name, view)
        if wanted.ranker not in KNOWN:
            raise ValueError(f"there is no method or baseline {name!r}; choose from {', '.join(KNOWN)}")
        try:
            if wanted.ranker in NAMES:
                _check_method(wanted, config)
            else:
                _check_baseline(wanted)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r}: {error}") from error


def _check_method(wanted: RowName, config: Config) -> None:
    """Its search options, those that all methods share, and the settings of its build."""
    for key, instead in _SAID_ELSEWHERE.items():
        if key in wanted.options:
            raise ValueError(f"{key!r} is no option of a row: {instead}")
    shared = {key: wanted.options[key] for key in SHARED_OPTIONS if key in wanted.options}
    SearchArguments(view=wanted.asked_view, **shared)
    own = {key: value for key, value in wanted.options.items() if key not in (*SHARED_OPTIONS, "where")}
    check_search_options(wanted.ranker, own)
    if "where" in wanted.options:
        compile_where(wanted.options["where"])
    settings_of(wanted, config)


def _check_baseline(wanted: RowName) -> None:
    if wanted.build:
        raise ValueError(f"{wanted.ranker} is no method of an index, and has no settings {BUILD}...")
    checked(wanted.ranker, wanted.options, own_prompt=wanted.own_prompt)

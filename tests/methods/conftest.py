"""The methods and ways of calling that the contract is shown for."""

from __future__ import annotations

from itertools import cycle

import pytest

from stratagraph.methods import NAMES
from stratagraph.testing.contract import Caller


@pytest.fixture(params=[f"{name}-{how}" for name, how in zip(NAMES, cycle(("sync", "async")), strict=False)])
def case(request: pytest.FixtureRequest) -> list[str]:
    """A method, and how it is called: two methods by the sync API, two by the async one."""
    return str(request.param).split("-")


@pytest.fixture
def method(case: list[str]) -> str:
    return case[0]


@pytest.fixture
def call(case: list[str]) -> Caller:
    return Caller(case[1])

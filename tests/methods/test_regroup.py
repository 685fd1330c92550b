"""A group that a method knows by its mark is the group it would make anew, whatever changed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import stratagraph as sg
from stratagraph.methods import NAMES
from stratagraph.methods.groups import GroupBuilder
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, assert_equal_states, assert_sound, documents, state
from tests.methods.test_updates import meetings

COUNT = 16
UPDATES = 6
SMALL = {"archrag": {"max_community": 6}, "hirag": {"cluster_size": 5, "max_community": 12}}
CORPUS = [each for pair in zip(meetings(120), documents(120), strict=True) for each in pair]
"""What is inserted, in this order; the names of every second document come again in others."""


class Twins:
    """Two indexes with all methods and the same changes. The second takes no group for known."""

    def __init__(self, *, with_model: bool) -> None:
        self.next = COUNT
        self.present = [each.id for each in CORPUS[:COUNT]]
        self.models = [CountingModel() if with_model else None for _ in range(2)]
        self.known, self.anew = (
            sg.build_index(
                CORPUS[:COUNT],
                list(NAMES),
                llm=model,
                embedder=FakeEmbedder(),
                config=sg.Config(methods=SMALL),
                progress=False,
            )
            for model in self.models
        )

    def change(self, kind: str, count: int, chance: random.Random) -> None:
        """Insert, replace or delete so many documents in both."""
        documents, gone = [], list[str]()
        if kind == "insert":
            documents = CORPUS[self.next : self.next + count]
            self.next += len(documents)
            self.present += [each.id for each in documents]
        elif kind == "replace":
            documents = [
                sg.Document(identity, chance.choice(CORPUS).text + f" Revised {chance.randrange(99)}.")
                for identity in chance.sample(self.present, count)
            ]
        else:
            gone = chance.sample(self.present, count)
            self.present = [each for each in self.present if each not in gone]
        real = GroupBuilder.regroup

        def unknown(builder: Any, *of: Any) -> Any:
            marks, rows = real(builder, *of)
            return marks, np.full(len(rows), -1, np.int64)

        for index in (self.known, self.anew):
            with pytest.MonkeyPatch.context() as patch:
                if index is self.anew:
                    patch.setattr(GroupBuilder, "regroup", unknown)
                if documents:
                    index.insert(documents)
                if gone:
                    index.delete(gone)

    def compare(self) -> None:
        """Nodes and arrays must be the same, and sound."""
        for method in NAMES:
            assert_equal_states(state(self.known, method), state(self.anew, method))
            assert_sound(self.known, method)

    def close(self) -> None:
        """Close both."""
        self.known.close()
        self.anew.close()


@pytest.mark.parametrize("with_model", [False, True])
def test_known_groups_are_those_that_would_be_made_anew(with_model: bool) -> None:
    twins, chance = Twins(with_model=with_model), random.Random(5)
    for number in range(UPDATES):
        twins.change(chance.choice(["insert", "replace", "delete"]), chance.choice([1, 1, 1, 4]), chance)
        if number % 3 == 2:
            twins.compare()
    twins.close()


class Updates(RuleBasedStateMachine):
    """Mixed updates without a model."""

    twins: Twins

    @initialize()
    def build(self) -> None:
        self.twins = Twins(with_model=False)

    @rule(
        kind=st.sampled_from(["insert", "replace", "delete"]),
        count=st.integers(1, 5),
        seed=st.integers(0, 999),
    )
    def change(self, kind: str, count: int, seed: int) -> None:
        self.twins.change(kind, count, random.Random(seed))

    def teardown(self) -> None:
        if hasattr(self, "twins"):
            self.twins.compare()
            self.twins.close()


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(max_examples=1, stateful_step_count=3, deadline=None, derandomize=True)

"""Mixed updates of an index by all methods, drawn by Hypothesis. After each of them

- corpus and graph are those of a new build, and every method is sound; after `regroup` without a model its
  groups are those of a new build too;
- every method is byte for byte that of a twin without patches that takes no group for known;
- once a document was deleted or replaced, nothing of what is gone is in any byte of the folder: no text, no
  id, and no key, hash or mark that an array held, at any offset and in either order of bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

import stratagraph as sg
from stratagraph.methods import NAMES
from stratagraph.methods.groups import GroupBuilder
from stratagraph.store.pool import PooledVectors
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import (
    Caller,
    CountingModel,
    assert_equal_states,
    assert_sound,
    documents,
    state,
    state_after_update,
)
from stratagraph.testing.opened import snapshot_of
from stratagraph.types.records import content_key
from tests.campaigns.trials import Tally
from tests.store.support import everything_in, keys_in, patching

STEPS = 8
CONFIG = sg.Config(
    methods={
        "archrag": {"max_community": 6},
        "hirag": {"cluster_size": 5, "max_community": 12},
        "noderag": {"sources": 10_000},
    }
)
PEOPLE = [
    f"{first} {last}" for first in ("Ada", "Otto", "Vera") for last in ("Marsh", "Lind", "Falk", "Reed")
]
LEAST = 1 << 32
"""Smaller numbers are in many arrays that say nothing of texts."""


def document(number: int, version: int) -> sg.Document:
    """A note with names of others and a word of its own; half of them say more."""
    one, other, place = (
        PEOPLE[number * 7 % 12],
        PEOPLE[(number * 5 + version + 3) % 12],
        f"Port{number // 3}ville",
    )
    secret = f"secret{number:03}x{version:03}"
    text = f"{one} met {other} in {place}. {place} sold {one} a lamp called {secret.title()} Lamp."
    if number % 2:
        text += " " + documents(1, start=number)[0].text
    return sg.Document(f"note-{number:03}", text, {"note": secret})


def said_in(index: sg.Index) -> tuple[set[str], set[str]]:
    """Ids and texts of documents and chunks, with names; and those of relations, units and methods' nodes."""
    said, derived = set(index.documents()), set[str]()
    for chunks in index.chunks().values():
        said |= {value for chunk in chunks for value in (chunk.id, chunk.text)}
    said |= {entity.name for entity in index.entities()}
    for things in (index.entities(), index.relations(), index.units(), *map(index.nodes, index.methods)):
        derived |= {value for thing in things for value in (thing.id, getattr(thing, "text", ""))}
    return said, derived


def numbers_in(index: sg.Index) -> set[int]:
    """What stands for texts in 64 bits: keys of what is said, halves of ids, arrays, hashes of vectors."""
    snapshot, said = snapshot_of(index), set[str]().union(*said_in(index))
    hashes = np.concatenate([np.zeros(0, np.uint64), *snapshot.pool.hashes])
    arrays = [snapshot.id_halves.ravel(), hashes[snapshot.vectors.slots]]
    for part in snapshot.manifest.parts:
        for array in snapshot.part(part).arrays.values():
            if isinstance(array, PooledVectors):
                arrays.append(hashes[array.slots])
            elif array.dtype == np.uint64:
                arrays.append(array.ravel())
    numbers = set(np.concatenate(arrays).tolist())
    numbers |= {content_key(*kind, value) for kind in ((), *((each,) for each in KINDS)) for value in said}
    ids = (value for value in said if len(value) == 32 and set(value) <= set("0123456789abcdef"))
    numbers |= {int(half, 16) for value in ids for half in (value[:16], value[16:])}
    return {each for each in numbers if each >= LEAST}


KINDS = ("graph", "entity", "attribute", "name", "text")
"""Words with which keys of texts are made."""


class Updates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.work = tempfile.TemporaryDirectory(prefix="updates-")
        self.path = Path(self.work.name) / "idx"
        self.present: dict[int, int] = {}
        self.next = 0
        self.said, self.numbers = set[str](), set[int]()
        self.gone, self.gone_numbers = set[str](), set[int]()

    @initialize(
        count=st.integers(5, 14),
        methods=st.sets(st.sampled_from(NAMES)),
        model=st.booleans(),
        mode=st.sampled_from(["sync", "async"]),
    )
    def build(self, count: int, methods: set[str], model: bool, mode: str) -> None:
        self.call = Caller(mode)
        self.model = CountingModel if model else type(None)
        self.present = dict.fromkeys(range(count), 0)
        self.next = count
        self.index, self.twin = (self.built(methods, path) for path in (self.path, None))
        self.remember()

    def built(self, methods: Any, path: Path | None = None) -> sg.Index:
        given = [document(*each) for each in self.present.items()]
        llm, embedder = self.model(), FakeEmbedder()
        return sg.build_index(given, sorted(methods) or None, path, llm, embedder, CONFIG, progress=False)

    def both(self, change: Callable[[sg.Index], Any]) -> None:
        real = GroupBuilder.regroup

        def unknown(builder: Any, *of: Any) -> Any:
            marks, rows = real(builder, *of)
            return marks, np.full(len(rows), -1, np.int64)

        with patching(True):
            change(self.index)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GroupBuilder, "regroup", unknown)
            change(self.twin)
        for method in self.index.methods:
            assert_equal_states(state(self.index, method), state(self.twin, method))
            assert_sound(self.index, method)
        self.remember()

    def remember(self) -> None:
        said, numbers = said_in(self.index)[0], numbers_in(self.index)
        self.gone = (self.gone | (self.said - said)) - said
        self.gone_numbers = (self.gone_numbers | (self.numbers - numbers)) - numbers
        self.said, self.numbers = said, numbers

    def erased(self) -> None:
        content, said = everything_in(self.path), "\n".join(self.said).casefold()
        gone = [each for each in self.gone if each.casefold() not in said]
        assert [each for each in gone if each.encode() in content] == []
        assert keys_in(self.path, self.gone_numbers) == set()
        self.gone, self.gone_numbers = set(), set()

    def drawn(self, data: st.DataObject, most: int) -> list[int]:
        return data.draw(
            st.lists(st.sampled_from(sorted(self.present)), min_size=1, max_size=most, unique=True)
        )

    @rule(count=st.integers(1, 4))
    def insert(self, count: int) -> None:
        new = dict.fromkeys(range(self.next, self.next + count), 0)
        self.next += count
        self.present |= new
        self.both(lambda index: self.call(index, "insert", [document(*each) for each in new.items()]))

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        new = {each: self.present[each] + 1 for each in self.drawn(data, 3)}
        self.present |= new
        self.both(lambda index: self.call(index, "insert", [document(*each) for each in new.items()]))
        self.erased()

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        old = self.drawn(data, 3)
        names = [document(each, self.present.pop(each)).id for each in old]
        self.both(lambda index: self.call(index, "delete", names))
        self.erased()

    @precondition(lambda self: len(self.index.methods) < len(NAMES))
    @rule(data=st.data())
    def add_method(self, data: st.DataObject) -> None:
        method = data.draw(st.sampled_from([each for each in NAMES if each not in self.index.methods]))
        self.both(lambda index: self.call(index, "add_method", method))

    @rule()
    def regroup(self) -> None:
        self.both(lambda index: self.call(index, "regroup"))
        if self.model is CountingModel:
            return  # what a model wrote stays, as do the types that it chose for HiRAG
        with self.built(self.index.methods) as new:
            for method in self.index.methods:
                groups = [
                    sorted((node.kind, node.level, sorted(node.members)) for node in index.nodes(method))
                    for index in (self.index, new)
                ]
                assert groups[0] == groups[1], method

    @rule()
    def compact(self) -> None:
        self.both(lambda index: self.call(index, "compact"))

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = sg.open_index(self.path, self.model(), FakeEmbedder(), check="full")

    def teardown(self) -> None:
        if hasattr(self, "twin"):
            with self.built(self.index.methods) as new:
                for method in self.index.methods:
                    assert_equal_states(
                        state_after_update(self.index, method), state_after_update(new, method)
                    )
            self.index.close()
            self.twin.close()
        self.work.cleanup()


def campaign(work: Path, trials: int, seed: int = 1) -> None:
    row = Tally("series of updates")
    chosen = settings(
        max_examples=trials,
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        deadline=None,
        derandomize=seed == 1,
        database=None,
    )
    run_state_machine_as_test(
        Updates, settings=chosen
    )  # raises with the steps of the shortest failing series
    row.trials += trials
    row.outcomes["equal, sound, erased"] += trials

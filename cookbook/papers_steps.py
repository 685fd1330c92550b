"""What a table of the papers is made by: evaluations of methods, and scripts of `benchmarks/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

Corpora = Literal["any", "texts", "short"]
Given = Literal["none", "all", "each", "beside"]
PAPERS = {
    "archrag": "ArchRAG",
    "noderag": "NodeRAG",
    "hirag": "HiRAG",
    "lsh": "LSH tree",
    "graphrag": "GraphRAG-Bench",
}
"""The papers, as names of tables begin."""


@dataclass(frozen=True)
class Step:
    """An evaluation of methods, or a script of `benchmarks/` with its arguments before the data.

    Parameters
    ----------
    methods, arguments, config
        Of an evaluation; `arguments` of a script too.
    tokens
        Tokens of context of each answer, or `free`, where the paper says so; the caller's choice comes first.
    answers
        Whether the answers are written to `WORK/answers`, in the form of GraphRAG-Bench.
    reference
        Whose answers all others are compared with: on the data's own questions where their answers are texts,
        else on questions about the corpus as a whole that the model thinks up. Empty: answers are scored.
    only
        The data that it is for: all, those whose answers are texts, or those whose answers are short.
    corpora
        Whether a script takes none, all at once, each in a run of its own, as evaluations do, or the folder
        that the first of them stands in, with others beside it.
    takes_extraction, keeps_vectors, takes_llm
        Further options of a script.
    small
        What a script takes besides for a smoke test; an evaluation asks two questions then.
    libraries
        Names that a script takes behind its arguments, each where the module that it needs is installed.
    needs
        Modules without which a script cannot run, by what `pip install` takes.
    """

    methods: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    tokens: str = ""
    reference: str = ""
    answers: bool = False
    only: Corpora = "any"
    script: str = ""
    corpora: Given = "each"
    takes_extraction: bool = False
    keeps_vectors: bool = True
    takes_llm: bool = False
    small: tuple[str, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def lacks(self) -> str | None:
        """What `pip install` has to bring before the script can run; None if nothing."""
        return next((name for name, module in self.needs.items() if find_spec(module) is None), None)


@dataclass(frozen=True)
class Table:
    """One table or figure: what it shows, on which data, and how it is made; its name says where it stands.

    `with_model` are steps that follow where there is a model, of tables whose other steps need none.
    """

    name: str
    title: str
    steps: tuple[Step, ...]
    data: str = ""
    with_model: tuple[Step, ...] = ()

    @property
    def place(self) -> str:
        """Where it stands: `ArchRAG, Table 3`."""
        paper, _, label = self.name.partition("-")
        return (
            f"{PAPERS[paper]}, {label.replace('-', ' ').capitalize() if label != 'bench' else 'its metrics'}"
        )

    @property
    def takes_model(self) -> bool:
        """Whether there is something to do for a model."""
        return self.needs_model or bool(self.with_model) or any(step.takes_llm for step in self.steps)

    @property
    def needs_data(self) -> bool:
        """Whether a corpus has to be named."""
        return any(step.corpora != "none" for step in self.steps)

    @property
    def needs_model(self) -> bool:
        """Whether it is about answers: what has only scripts, or rankings, is made without a model."""
        return any(step.methods for step in self.steps)

    @property
    def needs(self) -> str:
        """In words."""
        model = "a chat model" if self.needs_model else "no model"
        model += ", or a chat model for more" if self.takes_model and not self.needs_model else ""
        parts = [self.data if self.needs_data else "", model]
        return "; ".join(part for part in parts if part)


def answered(
    *methods: str,
    arguments: tuple[str, ...] = (),
    config: Mapping[str, Any] | None = None,
    tokens: str = "",
    only: Corpora = "any",
) -> Step:
    """Answers and their metrics, tokens and times."""
    return Step(methods, arguments, config or {}, tokens, only=only)


def compared(reference: str, *methods: str, tokens: str = "", only: Corpora = "any") -> Step:
    """Answers of methods against those of one."""
    return Step(methods, tokens=tokens, reference=reference, only=only)


def pairwise(*methods: str, tokens: str = "", only: Corpora = "any") -> tuple[Step, ...]:
    """Every method compared with every other one: each is the reference once. Answers come from the cache."""
    return tuple(compared(reference, *methods, tokens=tokens, only=only) for reference in methods)

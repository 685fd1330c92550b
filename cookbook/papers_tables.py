"""The tables and figures of the papers as commands; `papers.py` runs them, `papers.md` tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MULTIHOP = "MultiHop-RAG (folder), HotpotQA (file)"
ARENA = "RAG-QA Arena (folder with corpus.jsonl), one for each domain or one for all"
ULTRA = "UltraDomain's mix, cs, legal and agriculture (files)"
MUSIQUE = "MuSiQue (file or folder)"

ARCHRAG = "archrag?own_prompt=true"
LIGHTRAG = ("lightrag/nodes?mode=local", "lightrag/nodes?mode=global", "lightrag/nodes?mode=hybrid")
GRAPHRAG = ("graphrag_local/nodes", "graphrag_global")
RAPTOR = "raptor/nodes"
HEAD_TO_HEAD = ("--abstract", "--reference")


@dataclass(frozen=True)
class Step:
    """An evaluation of methods, or a script of `benchmarks/` with its arguments before the data.

    `corpora`: whether the script takes none, all at once, or each in a run of its own, as evaluations do.
    """

    methods: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    script: str = ""
    corpora: Literal["none", "all", "each"] = "each"
    takes_extraction: bool = False
    keeps_vectors: bool = False


@dataclass(frozen=True)
class Table:
    """One table or figure: where it stands, what it shows, on which data, and how it is made."""

    name: str
    paper: str
    label: str
    title: str
    steps: tuple[Step, ...]
    data: str = ""

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
        parts = [self.data if self.needs_data else "", "a chat model" if self.needs_model else "no model"]
        return "; ".join(part for part in parts if part)


def answered(*methods: str, arguments: tuple[str, ...] = (), config: Mapping[str, Any] | None = None) -> Step:
    """Answers and their metrics, tokens and times."""
    return Step(methods, arguments, config or {})


def pairwise(*methods: str) -> tuple[Step, ...]:
    """Every method compared with every other one: each is the reference once. Answers come from the cache."""
    return tuple(Step(methods, (*HEAD_TO_HEAD, reference)) for reference in methods)


def script(
    name: str,
    *arguments: str,
    corpora: Literal["none", "all", "each"] = "each",
    extraction: bool = False,
    vectors: bool = True,
) -> Step:
    """A script of `benchmarks/`, and whether it takes corpora, extractions of them, a folder of vectors."""
    return Step((), arguments, {}, name, corpora, extraction, vectors)


CHNSW = script(
    "chnsw.py", "--leaves", "25000", "--data", "clustered", "random", corpora="none", vectors=False
)
COMMUNITIES = script("communities.py", corpora="all")
ABLATIONS = script("noderag.py", "tables", extraction=True)
FIGURES = script("hirag.py", "figures", extraction=True)
STATISTICS = script("statistics_of_data.py", corpora="all", vectors=False)


SPECIFIC = ("zero_shot", "cot", "bm25", "dense", RAPTOR, "hipporag", *LIGHTRAG, *GRAPHRAG, ARCHRAG)
BACKBONES = ("dense", "hipporag", RAPTOR, ARCHRAG)
SUMMARIES = (
    "dense",
    "graphrag_local/nodes",
    "lightrag/nodes",
    "fastgraphrag/nodes",
    "kag",
    "hirag?own_prompt=true",
)

_ALL = (
    Table(
        "archrag-table-3",
        "ArchRAG",
        "Table 3",
        "specific questions",
        (answered(*SPECIFIC),),
        f"{MULTIHOP}, NarrativeQA (folder)",
    ),
    Table(
        "archrag-figure-3",
        "ArchRAG",
        "Figure 3",
        "abstract questions, each method against each",
        pairwise("dense", "lightrag/nodes", "graphrag_global?level=1", "graphrag_global?level=2", ARCHRAG),
        "MultiHop-RAG (folder)",
    ),
    Table(
        "archrag-figure-4",
        "ArchRAG",
        "Figure 4",
        "time and tokens of questions",
        (answered(*LIGHTRAG, *GRAPHRAG, "hipporag", ARCHRAG),),
        MULTIHOP,
    ),
    Table(
        "archrag-figure-5",
        "ArchRAG",
        "Figure 5",
        "time and tokens of indexing",
        (answered("hipporag", RAPTOR, "lightrag/nodes", "graphrag_local/nodes", ARCHRAG),),
        MULTIHOP,
    ),
    Table(
        "archrag-figure-6",
        "ArchRAG",
        "Figure 6",
        "C-HNSW against Base-HNSW",
        (CHNSW,),
    ),
    Table(
        "archrag-figure-7",
        "ArchRAG",
        "Figure 7",
        "communities by the CH index",
        (COMMUNITIES,),
        "a folder with openie.jsonl, or entities.jsonl and relationships.jsonl",
    ),
    Table(
        "archrag-figure-8",
        "ArchRAG",
        "Figure 8",
        "communities by cosine similarity",
        (COMMUNITIES,),
        "as Figure 7",
    ),
    Table(
        "archrag-table-4",
        "ArchRAG",
        "Table 4",
        "variants",
        (
            answered(ARCHRAG, "archrag/nodes?levels=[0]", "archrag?mode=direct&own_prompt=true"),
            answered(ARCHRAG, config={"archrag": {"clustering": "spectral"}}),
            answered(ARCHRAG, config={"archrag": {"clustering": "spectral", "augmentation": "none"}}),
            answered(ARCHRAG, config={"archrag": {"augmentation": "none"}}),
            answered(ARCHRAG, config={"archrag": {"max_levels": 1}}),
        ),
        MULTIHOP,
    ),
    Table(
        "archrag-table-5",
        "ArchRAG",
        "Table 5",
        "other models: run it once for each --llm",
        (answered(*BACKBONES),),
        MULTIHOP,
    ),
    Table(
        "archrag-table-6",
        "ArchRAG",
        "Table 6",
        "against the gold answers",
        (answered(*BACKBONES, arguments=("--against-gold",)),),
        ARENA,
    ),
    Table(
        "archrag-table-7",
        "ArchRAG",
        "Table 7",
        "communities: Leiden against ours",
        (COMMUNITIES,),
        "as Figure 7",
    ),
    Table(
        "archrag-table-8",
        "ArchRAG",
        "Table 8",
        "GraphRAG with attributed communities",
        (answered("graphrag_global", "graphrag_global?communities=attributed", ARCHRAG),),
        MULTIHOP,
    ),
    Table(
        "archrag-figure-9",
        "ArchRAG",
        "Figure 9",
        "C-HNSW on other vectors",
        (CHNSW,),
    ),
    Table(
        "archrag-figure-10",
        "ArchRAG",
        "Figure 10",
        "numbers of results per level",
        (answered(*(f"archrag?k_per_level={k}&own_prompt=true" for k in (2, 5, 10, 15))),),
        MULTIHOP,
    ),
    Table(
        "archrag-table-9",
        "ArchRAG",
        "Table 9",
        "names that HippoRAG finds in questions",
        (script("entity_errors.py", corpora="all", vectors=False),),
        MULTIHOP,
    ),
    Table(
        "noderag-table-1",
        "NodeRAG",
        "Table 1",
        "accuracy and tokens; comparisons of each with each",
        (
            answered("dense", "hyde", "lightrag/nodes", "graphrag_local/nodes", "noderag?own_prompt=true"),
            *pairwise("dense", "hyde", "lightrag/nodes", "graphrag_local/nodes", "noderag?own_prompt=true"),
        ),
        f"HotpotQA, {MUSIQUE}, MultiHop-RAG, {ARENA}",
    ),
    Table(
        "noderag-table-2",
        "NodeRAG",
        "Table 2",
        "ablations",
        (ABLATIONS,),
        MUSIQUE,
    ),
    Table(
        "noderag-figure-4",
        "NodeRAG",
        "Figure 4",
        "steps of the walk",
        (ABLATIONS,),
        MUSIQUE,
    ),
    Table(
        "noderag-table-3",
        "NodeRAG",
        "Table 3",
        "times, disk and tokens",
        (answered("graphrag_local/nodes", "graphrag_global", "lightrag/nodes", "noderag?own_prompt=true"),),
        f"HotpotQA, {MUSIQUE}, MultiHop-RAG, {ARENA}",
    ),
    Table(
        "noderag-table-4",
        "NodeRAG",
        "Table 4",
        "nodes and edges by type",
        (ABLATIONS,),
        MUSIQUE,
    ),
    Table(
        "noderag-table-5",
        "NodeRAG",
        "Table 5",
        "variants of GraphRAG",
        (answered("graphrag_local/nodes", "graphrag_global"),),
        MUSIQUE,
    ),
    Table(
        "noderag-table-6",
        "NodeRAG",
        "Table 6",
        "types of nodes (definitions; the counts are Table 4's)",
        (ABLATIONS,),
        MUSIQUE,
    ),
    Table(
        "hirag-table-1",
        "HiRAG",
        "Table 1",
        "win rates on summaries, and ablations",
        (
            Step((*SUMMARIES, "hirag?mode=no_bridge&own_prompt=true"), (*HEAD_TO_HEAD, SUMMARIES[-1])),
            Step(SUMMARIES[-1:], (*HEAD_TO_HEAD, "dense"), {"hirag": {"max_layers": 1}}),
        ),
        ULTRA,
    ),
    Table(
        "hirag-table-2",
        "HiRAG",
        "Table 2",
        "EM and F1 of chains",
        (
            answered(
                "dense",
                RAPTOR,
                "graphrag_local/nodes",
                "lightrag/nodes",
                "hipporag2",
                "hirag?own_prompt=true",
            ),
        ),
        "2WikiMultiHopQA, HotpotQA (files)",
    ),
    Table("hirag-table-3", "HiRAG", "Table 3", "statistics of data", (STATISTICS,), ULTRA),
    Table(
        "hirag-table-4",
        "HiRAG",
        "Table 4",
        "statistics of data",
        (STATISTICS,),
        "2WikiMultiHopQA, HotpotQA (files)",
    ),
    Table(
        "hirag-table-5",
        "HiRAG",
        "Table 5",
        "tokens, calls and time",
        (answered("graphrag_local/nodes", "lightrag/nodes", "kag", "hirag?own_prompt=true"),),
        ULTRA,
    ),
    Table(
        "hirag-table-6",
        "HiRAG",
        "Table 6",
        "the same by three judges: give --judge A,B,C",
        (Step(SUMMARIES, (*HEAD_TO_HEAD, SUMMARIES[-1])),),
        ULTRA,
    ),
    Table(
        "hirag-table-7",
        "HiRAG",
        "Table 7",
        "what the bridge covers",
        (FIGURES,),
        "a corpus",
    ),
    Table(
        "hirag-figure-4",
        "HiRAG",
        "Figure 4",
        "cluster sparsity",
        (FIGURES,),
        "a corpus",
    ),
    Table(
        "hirag-figure-5",
        "HiRAG",
        "Figure 5",
        "clustering coefficients",
        (FIGURES,),
        "a corpus",
    ),
    Table(
        "hirag-figure-6",
        "HiRAG",
        "Figure 6",
        "shortest paths with the hierarchy",
        (FIGURES,),
        "a corpus",
    ),
    Table(
        "lsh-table-1",
        "LSH tree",
        "Table 1",
        "construction times",
        (script("construction.py", "--limit", "120", corpora="all"),),
        "MultiHop-RAG, MuSiQue, ALCE, HotpotQA",
    ),
    Table(
        "lsh-table-2",
        "LSH tree",
        "Table 2",
        "abstract questions against GraphRAG",
        (Step(("lshtree?own_prompt=true",), (*HEAD_TO_HEAD, "graphrag_global")),),
        f"{ULTRA}, MultiHop-RAG",
    ),
    Table(
        "lsh-table-3",
        "LSH tree",
        "Table 3",
        "abstract questions against RAPTOR",
        (Step(("lshtree?own_prompt=true",), (*HEAD_TO_HEAD, RAPTOR)),),
        f"{ULTRA}, MultiHop-RAG",
    ),
    Table(
        "lsh-figure-4",
        "LSH tree",
        "Figure 4",
        "accuracy and recall; STRREC, STREM, STRHIT",
        (answered("graphrag_local/nodes", RAPTOR, "lshtree?own_prompt=true"),),
        "MultiHop-RAG, MuSiQue, ALCE, HotpotQA",
    ),
    Table(
        "lsh-figure-5",
        "LSH tree",
        "Figure 5",
        "sizes of chunks",
        (script("chunk_size.py", "--sizes", "200,400,800,1400", extraction=True),),
        "a corpus of long documents",
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}

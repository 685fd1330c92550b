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
BALANCED = "raptor/nodes?clusters=balanced"
Corpora = Literal["any", "texts", "short"]


@dataclass(frozen=True)
class Step:
    """An evaluation of methods, or a script of `benchmarks/` with its arguments before the data.

    Parameters
    ----------
    methods, arguments, config
        Of an evaluation; `arguments` of a script too.
    reference
        Whose answers all others are compared with: on the data's own questions where their answers are texts,
        else on questions about the corpus as a whole that the model thinks up. Empty: answers are scored.
    only
        The data that it is for: all, those whose answers are texts, or those whose answers are short.
    corpora
        Whether a script takes none, all at once, or each in a run of its own, as evaluations do.
    takes_extraction, keeps_vectors, takes_llm
        Further options of a script.
    """

    methods: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
    only: Corpora = "any"
    script: str = ""
    corpora: Literal["none", "all", "each"] = "each"
    takes_extraction: bool = False
    keeps_vectors: bool = False
    takes_llm: bool = False


@dataclass(frozen=True)
class Table:
    """One table or figure: where it stands, what it shows, on which data, and how it is made.

    `with_model` are steps that follow where there is a model, of tables whose other steps need none.
    """

    name: str
    paper: str
    label: str
    title: str
    steps: tuple[Step, ...]
    data: str = ""
    with_model: tuple[Step, ...] = ()

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
    only: Corpora = "any",
) -> Step:
    """Answers and their metrics, tokens and times."""
    return Step(methods, arguments, config or {}, only=only)


def compared(reference: str, *methods: str, only: Corpora = "any") -> Step:
    """Answers of methods against those of one."""
    return Step(methods, reference=reference, only=only)


def pairwise(*methods: str, only: Corpora = "any") -> tuple[Step, ...]:
    """Every method compared with every other one: each is the reference once. Answers come from the cache."""
    return tuple(compared(reference, *methods, only=only) for reference in methods)


def script(
    name: str,
    *arguments: str,
    corpora: Literal["none", "all", "each"] = "each",
    extraction: bool = False,
    vectors: bool = True,
    llm: bool = False,
) -> Step:
    """A script of `benchmarks/`: whether it takes corpora, extractions, a folder of vectors, a model."""
    options = {"takes_extraction": extraction, "keeps_vectors": vectors, "takes_llm": llm}
    return Step((), arguments, script=name, corpora=corpora, **options)


CHNSW = script(
    "chnsw.py", "--leaves", "25000", "--data", "clustered", "random", corpora="none", vectors=False
)
COMMUNITIES = script("communities.py", corpora="all")
ABLATIONS = script("noderag.py", "tables", extraction=True)
FIGURES = script("hirag.py", "figures", extraction=True)
STATISTICS = script("statistics_of_data.py", corpora="all", vectors=False)


SPECIFIC = ("zero_shot", "cot", "bm25", "dense", RAPTOR, "hipporag", *LIGHTRAG, *GRAPHRAG, ARCHRAG)
RIVALS = ("dense", "hyde", "lightrag/nodes", "graphrag_local/nodes", "noderag?own_prompt=true")
NODERAG_STEPS = answered(*(f"noderag?steps={steps}&own_prompt=true" for steps in range(1, 11)))
NODERAG_PARTS = answered(
    "dense",
    "noderag?own_prompt=true",
    "noderag?semantic_edges=false&own_prompt=true",
    "noderag?names=false&own_prompt=true",
    'noderag?mode=entry&names=false&types=["S","A","H"]&own_prompt=true',
)
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
            answered(
                ARCHRAG,
                "archrag?build.clustering=spectral&own_prompt=true",
                "archrag?build.clustering=spectral&build.augmentation=none&own_prompt=true",
                "archrag?build.augmentation=none&own_prompt=true",
                "archrag?build.max_levels=1&own_prompt=true",
                "archrag?levels=[0]&own_prompt=true",
                "archrag?mode=direct&own_prompt=true",
                arguments=("--reference", ARCHRAG),
            ),
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
        (script("entity_errors.py", corpora="all", vectors=False, llm=True),),
        MULTIHOP,
    ),
    Table(
        "noderag-table-1",
        "NodeRAG",
        "Table 1",
        "accuracy and tokens; comparisons of each with each",
        (
            answered(*RIVALS, only="short"),
            answered(*RIVALS, arguments=("--against-gold",), only="texts"),
            *pairwise(*RIVALS, only="texts"),
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
        (NODERAG_PARTS,),
    ),
    Table(
        "noderag-figure-4",
        "NodeRAG",
        "Figure 4",
        "steps of the walk",
        (ABLATIONS,),
        MUSIQUE,
        (NODERAG_STEPS,),
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
            compared(
                SUMMARIES[-1],
                *SUMMARIES,
                "hirag?build.max_layers=0&own_prompt=true",
                "hirag?mode=no_bridge&own_prompt=true",
            ),
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
                "fastgraphrag/nodes",
                "hipporag",
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
        "the same by other judges: run it once for each --judge, or give several",
        (compared(SUMMARIES[-1], *SUMMARIES),),
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
        (answered("graphrag_local/nodes", RAPTOR, BALANCED, "lshtree?own_prompt=true"),),
    ),
    Table(
        "lsh-table-2",
        "LSH tree",
        "Table 2",
        "abstract questions against GraphRAG",
        (compared("graphrag_global", "lshtree?own_prompt=true"),),
        "UltraDomain's mix, cs and legal (files), MultiHop-RAG",
    ),
    Table(
        "lsh-table-3",
        "LSH tree",
        "Table 3",
        "abstract questions against RAPTOR",
        (compared(RAPTOR, "lshtree?own_prompt=true"),),
        "UltraDomain's mix, cs and legal (files), MultiHop-RAG",
    ),
    Table(
        "lsh-figure-4",
        "LSH tree",
        "Figure 4",
        "accuracy and recall; STRREC, STREM, STRHIT",
        (answered("graphrag_local/nodes", RAPTOR, BALANCED, "lshtree?own_prompt=true"),),
        "MultiHop-RAG, MuSiQue, ALCE, HotpotQA",
    ),
    Table(
        "lsh-figure-5",
        "LSH tree",
        "Figure 5",
        "sizes of chunks",
        (script("chunk_size.py", "--sizes", "200,400,800,1400", extraction=True),),
        "a corpus of long documents",
        tuple(
            answered("lshtree?own_prompt=true", config={"chunking": {"size": size, "overlap": size // 10}})
            for size in (400, 600, 800, 1000, 1200, 1400)
        ),
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}

"""The tables and figures of the papers: which rows and scripts make each. README.md tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

PAPERS = {
    "archrag": "ArchRAG",
    "noderag": "NodeRAG",
    "hirag": "HiRAG",
    "lsh": "LSH tree",
    "graphrag": "GraphRAG-Bench",
    "hipporag": "HippoRAG",
}
"""The papers, as names of tables begin."""


@dataclass(frozen=True)
class Rows:
    """An evaluation of rows, on each corpus.

    `tokens` of context of each answer, or `free`, where the paper says so. `compare` says whose answers all
    others are compared with: those of `reference`, on the data's own questions where their answers are texts,
    else on questions about the corpus as a whole that the model thinks up; or the `gold` answers. `only` are
    the corpora that it is for: all, those whose answers are texts, or those whose answers are short.
    """

    rows: tuple[str, ...]
    reference: str = "dense"
    compare: Literal["reference", "gold"] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    tokens: str = ""
    only: Literal["any", "texts", "short"] = "any"


@dataclass(frozen=True)
class Script:
    """A script of `benchmarks/` with its arguments before the data.

    `corpora`: whether it takes none, all at once, each in a run of its own, or the folder that the first of
    them stands in, with others beside it. `options` are those of this program that it takes, `small` what it
    takes besides for a smoke test, `libraries` names that it takes where the module of each is installed.
    """

    script: str
    arguments: tuple[str, ...] = ()
    corpora: Literal["all", "each", "beside"] = "each"
    options: tuple[str, ...] = ("cache",)
    small: tuple[str, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def lacks(self) -> str | None:
        """What `pip install` has to bring before the script can run; None if nothing."""
        return next((name for name, module in self.needs.items() if find_spec(module) is None), None)


@dataclass(frozen=True)
class Table:
    """One table or figure. `with_model` are steps that follow where there is a model, if others need none."""

    name: str
    title: str
    data: str
    steps: tuple[Rows | Script, ...]
    with_model: tuple[Rows, ...] = ()
    needs_model: bool = True

    @property
    def place(self) -> str:
        """Where it stands: `ArchRAG, Table 3`."""
        paper, _, label = self.name.partition("-")
        label = {"bench": "its metrics", "recall": "recall of the compared systems"}.get(
            label, label.capitalize()
        )
        return f"{PAPERS[paper]}, {label.replace('-', ' ')}"

    @property
    def takes_model(self) -> bool:
        """Whether there is something to do for a model."""
        scripts = [step for step in self.steps if isinstance(step, Script)]
        return self.needs_model or bool(self.with_model) or any("llm" in each.options for each in scripts)

    @property
    def lacks(self) -> str | None:
        """What `pip install` has to bring before it can be run; None if nothing."""
        return next((each.lacks for each in self.steps if isinstance(each, Script) and each.lacks), None)

    @property
    def needs(self) -> str:
        """In words."""
        without = "no model, or a chat model for more" if self.takes_model else "no model"
        return f"{self.data}; {'a chat model' if self.needs_model else without}"


def pairwise(*rows: str, tokens: str = "", only: Literal["any", "texts"] = "any") -> tuple[Rows, ...]:
    """Every row compared with every other one: each is the reference once. Answers come from the cache."""
    return tuple(Rows(rows, reference, "reference", tokens=tokens, only=only) for reference in rows)


MULTIHOP = "MultiHop-RAG (folder), HotpotQA (file)"
ARENA = "RAG-QA Arena (folder with corpus.jsonl), one for each domain or one for all"
ULTRA = "UltraDomain's mix, cs, legal and agriculture (files)"
ABSTRACT = "UltraDomain's mix, cs and legal (files), MultiHop-RAG"
MUSIQUE = "MuSiQue (file or folder)"
TREES = "MultiHop-RAG, MuSiQue, ALCE, HotpotQA"
FOUR = f"HotpotQA, {MUSIQUE}, MultiHop-RAG, {ARENA}"
TEXTS = "a corpus with others beside it, of 91,200 texts and sentences together"
GRAPHS = "a folder with openie.jsonl, or entities.jsonl and relationships.jsonl"
CHAINED = "2WikiMultiHopQA, HotpotQA (files)"
BENCHED = "GraphRAG-Bench's medical or novel (Questions/NAME_questions.json, with Corpus/NAME.json)"

ARCHRAG = "archrag?k_per_level=5&fill=false&own_prompt=true"
"""The paper's own setting: five results of each level, and no passages beside them."""
NODERAG = "noderag/nodes?decompose=true"
"""The paper's claim rests on one prompt for all; the model finds the names in questions, as for HippoRAG."""
HIRAG, LSHTREE = "hirag?own_prompt=true", "lshtree?own_prompt=true"
ALL_DATA = '["T","S","A","H"]'
LIGHTRAG = ("lightrag-local", "lightrag-global", "lightrag")
GRAPHRAG = ("graphrag_local", "graphrag_global")
BACKBONES = ("dense", "hipporag", "raptor", ARCHRAG)
RIVALS = ("dense", "hyde", "lightrag", "graphrag_local", NODERAG)
SUMMARIES = ("dense", "graphrag_local", "lightrag", "fastgraphrag", "kag", HIRAG)
SYSTEMS = ("hipporag", "hipporag-no-specificity", "hipporag-no-synonyms", "hipporag2", "kag")
SYSTEMS += ("fastgraphrag/passages", "lightrag/passages", "graphrag_local/passages", "raptor/passages")

LIBRARIES = {
    "hnswlib": "hnswlib",
    "faiss_sq8": "faiss",
    "usearch_i8": "usearch",
    "svs": "svs",
    "ngt": "ngtpy",
}
CHNSW = Script(
    "chnsw.py",
    ("--leaves", "90000", "--data", "real"),
    "beside",
    small=("--small",),
    libraries=LIBRARIES,
    needs={"hnswlib": "hnswlib", "'stratagraph[local]'": "onnxruntime"},
)
COMMUNITIES = Script("communities.py", corpora="all", small=("--small",))
ABLATIONS = Script("noderag.py", options=("cache", "extraction"), small=("--small",))
HASHED = ("--embedder", "hashing", "--questions", "10")
FIGURES = Script("hirag.py", options=("cache", "extraction"), small=HASHED)
CONSTRUCTION = Script("construction.py", ("--limit", "120"), "all", small=("--small",))
STATISTICS = Script("statistics_of_data.py", corpora="all", options=())
ENTITY_ERRORS = Script("entity_errors.py", corpora="all", options=("llm",))
SIZES = ("--sizes", "200,400,800,1400")
CHUNK_SIZES = Script("chunk_size.py", SIZES, options=("cache", "extraction"), small=("--small",))

NODERAG_PARTS = Rows(
    (
        "dense",
        NODERAG,
        f"{NODERAG}&semantic_edges=false",
        f"{NODERAG}&names=false",
        f"{NODERAG}&mode=entry&names=false&entry_types={ALL_DATA}&types={ALL_DATA}",
    ),
    tokens="free",
)
VARIANTS = Rows(
    (
        ARCHRAG,
        f"{ARCHRAG}&build.clustering=custom:spectral",
        f"{ARCHRAG}&build.clustering=custom:spectral&build.augmentation=none",
        f"{ARCHRAG}&build.augmentation=none",
        f"{ARCHRAG}&build.clustering=leidenalg",
        f"{ARCHRAG}&build.neighbours=hnswlib",
        f"{ARCHRAG}&build.max_levels=1",
        f"{ARCHRAG}&levels=[0]",
        f"{ARCHRAG}&mode=direct",
    ),
    ARCHRAG,
)
WIN_RATES = (*SUMMARIES, "hirag?build.max_layers=0&own_prompt=true", "hirag?mode=no_bridge&own_prompt=true")
CHAINS = ("dense", "raptor", "graphrag_local", "lightrag", "fastgraphrag", "hipporag", "hipporag2", HIRAG)
DIRECT = ("zero_shot", "cot", "bm25", "dense", "raptor", "hipporag", *LIGHTRAG, *GRAPHRAG, ARCHRAG)
ABSTRACTS = pairwise("dense", "lightrag", "graphrag_global-1", "graphrag_global", ARCHRAG)
PER_LEVEL = tuple(f"archrag?k_per_level={k}&fill=false&own_prompt=true" for k in (2, 3, 5, 7, 9))
STEPS = tuple(f"{NODERAG}&steps={steps}" for steps in range(1, 11))
BUILT_TREES = Rows(("graphrag_local", "raptor", "raptor-balanced", LSHTREE))
CHUNKED = tuple(
    Rows((LSHTREE,), config={"chunking": {"size": size, "overlap": size // 10}})
    for size in (400, 600, 800, 1000, 1200, 1400)
)
BENCH = ("dense", *GRAPHRAG, "walk", ARCHRAG, NODERAG, HIRAG, LSHTREE)
RIVALRY = (
    Rows(RIVALS, tokens="free", only="short"),
    Rows(RIVALS, compare="gold", tokens="free", only="texts"),
    *pairwise(*RIVALS, tokens="free", only="texts"),
)


def _scripted(name: str, title: str, data: str, script: Script, *with_model: Rows) -> Table:
    return Table(name, title, data, (script,), with_model, needs_model=False)


_ALL = (
    Table("archrag-table-3", "specific questions", f"{MULTIHOP}, NarrativeQA (folder)", (Rows(DIRECT),)),
    Table(
        "archrag-figure-3", "abstract questions, each method against each", "MultiHop-RAG (folder)", ABSTRACTS
    ),
    Table(
        "archrag-figure-4",
        "time and tokens of questions",
        MULTIHOP,
        (Rows((*LIGHTRAG, *GRAPHRAG, "hipporag", ARCHRAG)),),
    ),
    Table(
        "archrag-figure-5",
        "time and tokens of indexing",
        MULTIHOP,
        (Rows(("hipporag", "raptor", "lightrag", "graphrag_local", ARCHRAG)),),
    ),
    _scripted("archrag-figure-6", "C-HNSW against Base-HNSW", TEXTS, CHNSW),
    _scripted("archrag-figure-7", "communities by the CH index", GRAPHS, COMMUNITIES),
    _scripted("archrag-figure-8", "communities by cosine similarity", "as Figure 7", COMMUNITIES),
    Table("archrag-table-4", "variants", MULTIHOP, (VARIANTS,)),
    Table("archrag-table-5", "other models: run it once for each --llm", MULTIHOP, (Rows(BACKBONES),)),
    Table("archrag-table-6", "against the gold answers", ARENA, (Rows(BACKBONES, compare="gold"),)),
    _scripted("archrag-table-7", "communities: Leiden against ours", "as Figure 7", COMMUNITIES),
    Table(
        "archrag-table-8",
        "GraphRAG with attributed communities",
        MULTIHOP,
        (Rows(("graphrag_global", "graphrag_global-attributed", ARCHRAG)),),
    ),
    _scripted("archrag-figure-9", "C-HNSW on other vectors", TEXTS, CHNSW),
    Table("archrag-figure-10", "numbers of results per level", MULTIHOP, (Rows(PER_LEVEL, tokens="free"),)),
    _scripted("archrag-table-9", "names that HippoRAG finds in questions", MULTIHOP, ENTITY_ERRORS),
    Table("noderag-table-1", "accuracy and tokens; comparisons of each with each", FOUR, RIVALRY),
    _scripted("noderag-table-2", "ablations", MUSIQUE, ABLATIONS, NODERAG_PARTS),
    _scripted("noderag-figure-4", "steps of the walk", MUSIQUE, ABLATIONS, Rows(STEPS, tokens="free")),
    Table(
        "noderag-table-3",
        "times, disk and tokens",
        FOUR,
        (Rows(("graphrag_local", "graphrag_global", "lightrag", NODERAG), tokens="free"),),
    ),
    _scripted("noderag-table-4", "nodes and edges by type", MUSIQUE, ABLATIONS),
    Table("noderag-table-5", "variants of GraphRAG", MUSIQUE, (Rows(GRAPHRAG),)),
    _scripted(
        "noderag-table-6", "types of nodes (definitions; the counts are Table 4's)", MUSIQUE, ABLATIONS
    ),
    Table(
        "hirag-table-1",
        "win rates on summaries, and ablations",
        ULTRA,
        (Rows(WIN_RATES, HIRAG, "reference"),),
    ),
    Table("hirag-table-2", "EM and F1 of chains", CHAINED, (Rows(CHAINS),)),
    _scripted("hirag-table-3", "statistics of data", ULTRA, STATISTICS),
    _scripted("hirag-table-4", "statistics of data", CHAINED, STATISTICS),
    Table(
        "hirag-table-5",
        "tokens, calls and time",
        ULTRA,
        (Rows(("graphrag_local", "lightrag", "kag", HIRAG)),),
    ),
    Table(
        "hirag-table-6",
        "the same by other judges: run it once for each --judge, or give several",
        ULTRA,
        (Rows(SUMMARIES, HIRAG, "reference"),),
    ),
    _scripted("hirag-table-7", "what the bridge covers", "a corpus", FIGURES),
    _scripted("hirag-figure-4", "cluster sparsity", "a corpus", FIGURES),
    _scripted("hirag-figure-5", "clustering coefficients", "a corpus", FIGURES),
    _scripted("hirag-figure-6", "shortest paths with the hierarchy", "a corpus", FIGURES),
    _scripted("lsh-table-1", "construction times", TREES, CONSTRUCTION, BUILT_TREES),
    Table(
        "lsh-table-2",
        "abstract questions against GraphRAG",
        ABSTRACT,
        (Rows(("graphrag_global", LSHTREE), "graphrag_global", "reference"),),
    ),
    Table(
        "lsh-table-3",
        "abstract questions against RAPTOR",
        ABSTRACT,
        (Rows(("raptor", LSHTREE), "raptor", "reference"),),
    ),
    Table("lsh-figure-4", "accuracy and recall; STRREC, STREM, STRHIT", TREES, (BUILT_TREES,)),
    _scripted("lsh-figure-5", "sizes of chunks", "a corpus of long documents", CHUNK_SIZES, *CHUNKED),
    Table("graphrag-bench", "answers by type of question", BENCHED, (Rows(BENCH),)),
    Table(
        "hipporag-recall",
        "documents found",
        "a corpus, such as MuSiQue's with openie.jsonl",
        (Rows((*SYSTEMS, "walk", "bm25", "hybrid")),),
        needs_model=False,
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}

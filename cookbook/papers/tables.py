"""The tables and figures of the papers as commands; `papers.py` runs them, `papers.md` tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from papers_steps import Step, Table, answered, compared, pairwise

MULTIHOP = "MultiHop-RAG (folder), HotpotQA (file)"
ARENA = "RAG-QA Arena (folder with corpus.jsonl), one for each domain or one for all"
ULTRA = "UltraDomain's mix, cs, legal and agriculture (files)"
MUSIQUE = "MuSiQue (file or folder)"

ARCHRAG = "archrag?k_per_level=5&fill=false&own_prompt=true"
"""The paper's own setting: five results of each level, and no passages beside them."""
ALL_DATA = '["T","S","A","H"]'
NODERAG = "noderag/nodes?decompose=true"
"""The paper's claim rests on one prompt for all; the model finds the names in questions, as for HippoRAG."""
LIGHTRAG = ("lightrag/nodes?mode=local", "lightrag/nodes?mode=global", "lightrag/nodes?mode=hybrid")
GRAPHRAG = ("graphrag_local/nodes", "graphrag_global")
RAPTOR = "raptor/nodes"
BALANCED = "raptor/nodes?clusters=balanced"
TEXTS = "a corpus with others beside it, of 91,200 texts and sentences together"

CHNSW = Step(
    script="chnsw.py",
    arguments=("--leaves", "90000", "--data", "real"),
    corpora="beside",
    small=("--small",),
    libraries={
        "hnswlib": "hnswlib",
        "faiss_sq8": "faiss",
        "usearch_i8": "usearch",
        "svs": "svs",
        "ngt": "ngtpy",
    },
    needs={"hnswlib": "hnswlib", "'stratagraph[local]'": "onnxruntime"},
)
COMMUNITIES = Step(script="communities.py", corpora="all", small=("--small",))
ABLATIONS = Step(script="noderag.py", arguments=("tables",), takes_extraction=True, small=("--small",))
FIGURES = Step(
    script="hirag.py",
    arguments=("figures",),
    takes_extraction=True,
    small=("--embedder", "hashing", "--questions", "10"),
)
CONSTRUCTION = Step(script="construction.py", arguments=("--limit", "120"), corpora="all", small=("--small",))
STATISTICS = Step(script="statistics_of_data.py", corpora="all", keeps_vectors=False)
ENTITY_ERRORS = Step(script="entity_errors.py", corpora="all", keeps_vectors=False, takes_llm=True)
CHUNK_SIZES = Step(
    script="chunk_size.py",
    arguments=("--sizes", "200,400,800,1400"),
    takes_extraction=True,
    small=("--small",),
)

SPECIFIC = ("zero_shot", "cot", "bm25", "dense", RAPTOR, "hipporag", *LIGHTRAG, *GRAPHRAG, ARCHRAG)
RIVALS = ("dense", "hyde", "lightrag/nodes", "graphrag_local/nodes", NODERAG)
NODERAG_STEPS = answered(*(f"{NODERAG}&steps={steps}" for steps in range(1, 11)), tokens="free")
NODERAG_PARTS = answered(
    "dense",
    NODERAG,
    f"{NODERAG}&semantic_edges=false",
    f"{NODERAG}&names=false",
    f"{NODERAG}&mode=entry&names=false&entry_types={ALL_DATA}&types={ALL_DATA}",
    tokens="free",
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
VARIANTS = answered(
    ARCHRAG,
    f"{ARCHRAG}&build.clustering=spectral",
    f"{ARCHRAG}&build.clustering=spectral&build.augmentation=none",
    f"{ARCHRAG}&build.augmentation=none",
    f"{ARCHRAG}&build.max_levels=1",
    f"{ARCHRAG}&levels=[0]",
    f"{ARCHRAG}&mode=direct",
    arguments=("--reference", ARCHRAG),
)
WIN_RATES = compared(
    SUMMARIES[-1],
    *SUMMARIES,
    "hirag?build.max_layers=0&own_prompt=true",
    "hirag?mode=no_bridge&own_prompt=true",
)
CHAINS = answered(
    "dense",
    RAPTOR,
    "graphrag_local/nodes",
    "lightrag/nodes",
    "fastgraphrag/nodes",
    "hipporag",
    "hipporag2",
    "hirag?own_prompt=true",
)

BENCH = Step(
    (
        "dense",
        *GRAPHRAG,
        "walk",
        ARCHRAG,
        NODERAG,
        "hirag?own_prompt=true",
        "lshtree?own_prompt=true",
    ),
    answers=True,
)

_ALL = (
    Table(
        "archrag-table-3",
        "specific questions",
        (answered(*SPECIFIC),),
        f"{MULTIHOP}, NarrativeQA (folder)",
    ),
    Table(
        "archrag-figure-3",
        "abstract questions, each method against each",
        pairwise("dense", "lightrag/nodes", "graphrag_global?level=1", "graphrag_global?level=2", ARCHRAG),
        "MultiHop-RAG (folder)",
    ),
    Table(
        "archrag-figure-4",
        "time and tokens of questions",
        (answered(*LIGHTRAG, *GRAPHRAG, "hipporag", ARCHRAG),),
        MULTIHOP,
    ),
    Table(
        "archrag-figure-5",
        "time and tokens of indexing",
        (answered("hipporag", RAPTOR, "lightrag/nodes", "graphrag_local/nodes", ARCHRAG),),
        MULTIHOP,
    ),
    Table("archrag-figure-6", "C-HNSW against Base-HNSW", (CHNSW,), TEXTS),
    Table(
        "archrag-figure-7",
        "communities by the CH index",
        (COMMUNITIES,),
        "a folder with openie.jsonl, or entities.jsonl and relationships.jsonl",
    ),
    Table(
        "archrag-figure-8",
        "communities by cosine similarity",
        (COMMUNITIES,),
        "as Figure 7",
    ),
    Table(
        "archrag-table-4",
        "variants",
        (VARIANTS,),
        MULTIHOP,
    ),
    Table(
        "archrag-table-5",
        "other models: run it once for each --llm",
        (answered(*BACKBONES),),
        MULTIHOP,
    ),
    Table(
        "archrag-table-6",
        "against the gold answers",
        (answered(*BACKBONES, arguments=("--against-gold",)),),
        ARENA,
    ),
    Table(
        "archrag-table-7",
        "communities: Leiden against ours",
        (COMMUNITIES,),
        "as Figure 7",
    ),
    Table(
        "archrag-table-8",
        "GraphRAG with attributed communities",
        (answered("graphrag_global", "graphrag_global?communities=attributed", ARCHRAG),),
        MULTIHOP,
    ),
    Table("archrag-figure-9", "C-HNSW on other vectors", (CHNSW,), TEXTS),
    Table(
        "archrag-figure-10",
        "numbers of results per level",
        (
            answered(
                *(f"archrag?k_per_level={k}&fill=false&own_prompt=true" for k in (2, 3, 5, 7, 9)),
                tokens="free",
            ),
        ),
        MULTIHOP,
    ),
    Table(
        "archrag-table-9",
        "names that HippoRAG finds in questions",
        (ENTITY_ERRORS,),
        MULTIHOP,
    ),
    Table(
        "noderag-table-1",
        "accuracy and tokens; comparisons of each with each",
        (
            answered(*RIVALS, tokens="free", only="short"),
            answered(*RIVALS, arguments=("--against-gold",), tokens="free", only="texts"),
            *pairwise(*RIVALS, tokens="free", only="texts"),
        ),
        f"HotpotQA, {MUSIQUE}, MultiHop-RAG, {ARENA}",
    ),
    Table("noderag-table-2", "ablations", (ABLATIONS,), MUSIQUE, (NODERAG_PARTS,)),
    Table(
        "noderag-figure-4",
        "steps of the walk",
        (ABLATIONS,),
        MUSIQUE,
        (NODERAG_STEPS,),
    ),
    Table(
        "noderag-table-3",
        "times, disk and tokens",
        (answered("graphrag_local/nodes", "graphrag_global", "lightrag/nodes", NODERAG, tokens="free"),),
        f"HotpotQA, {MUSIQUE}, MultiHop-RAG, {ARENA}",
    ),
    Table("noderag-table-4", "nodes and edges by type", (ABLATIONS,), MUSIQUE),
    Table(
        "noderag-table-5",
        "variants of GraphRAG",
        (answered("graphrag_local/nodes", "graphrag_global"),),
        MUSIQUE,
    ),
    Table(
        "noderag-table-6",
        "types of nodes (definitions; the counts are Table 4's)",
        (ABLATIONS,),
        MUSIQUE,
    ),
    Table(
        "hirag-table-1",
        "win rates on summaries, and ablations",
        (WIN_RATES,),
        ULTRA,
    ),
    Table(
        "hirag-table-2",
        "EM and F1 of chains",
        (CHAINS,),
        "2WikiMultiHopQA, HotpotQA (files)",
    ),
    Table("hirag-table-3", "statistics of data", (STATISTICS,), ULTRA),
    Table(
        "hirag-table-4",
        "statistics of data",
        (STATISTICS,),
        "2WikiMultiHopQA, HotpotQA (files)",
    ),
    Table(
        "hirag-table-5",
        "tokens, calls and time",
        (answered("graphrag_local/nodes", "lightrag/nodes", "kag", "hirag?own_prompt=true"),),
        ULTRA,
    ),
    Table(
        "hirag-table-6",
        "the same by other judges: run it once for each --judge, or give several",
        (compared(SUMMARIES[-1], *SUMMARIES),),
        ULTRA,
    ),
    Table("hirag-table-7", "what the bridge covers", (FIGURES,), "a corpus"),
    Table("hirag-figure-4", "cluster sparsity", (FIGURES,), "a corpus"),
    Table("hirag-figure-5", "clustering coefficients", (FIGURES,), "a corpus"),
    Table("hirag-figure-6", "shortest paths with the hierarchy", (FIGURES,), "a corpus"),
    Table(
        "lsh-table-1",
        "construction times",
        (CONSTRUCTION,),
        "MultiHop-RAG, MuSiQue, ALCE, HotpotQA",
        (answered("graphrag_local/nodes", RAPTOR, BALANCED, "lshtree?own_prompt=true"),),
    ),
    Table(
        "lsh-table-2",
        "abstract questions against GraphRAG",
        (compared("graphrag_global", "lshtree?own_prompt=true"),),
        "UltraDomain's mix, cs and legal (files), MultiHop-RAG",
    ),
    Table(
        "lsh-table-3",
        "abstract questions against RAPTOR",
        (compared(RAPTOR, "lshtree?own_prompt=true"),),
        "UltraDomain's mix, cs and legal (files), MultiHop-RAG",
    ),
    Table(
        "lsh-figure-4",
        "accuracy and recall; STRREC, STREM, STRHIT",
        (answered("graphrag_local/nodes", RAPTOR, BALANCED, "lshtree?own_prompt=true"),),
        "MultiHop-RAG, MuSiQue, ALCE, HotpotQA",
    ),
    Table(
        "lsh-figure-5",
        "sizes of chunks",
        (CHUNK_SIZES,),
        "a corpus of long documents",
        tuple(
            answered("lshtree?own_prompt=true", config={"chunking": {"size": size, "overlap": size // 10}})
            for size in (400, 600, 800, 1000, 1200, 1400)
        ),
    ),
    Table(
        "graphrag-bench",
        "answers by type of question",
        (BENCH,),
        "GraphRAG-Bench's medical or novel (Questions/NAME_questions.json, with Corpus/NAME.json)",
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}

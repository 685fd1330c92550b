"""The figures that the papers print, to stand beside those of a run.

Tables and figures whose numbers are only drawn are left out.
A method has its paper's name. Rows of one table have the same columns, which its first line names.
"""

from __future__ import annotations

from collections.abc import Mapping

PRINTED: Mapping[str, str] = {
    "archrag-table-3": """
method            MultiHop-RAG acc, rec   HotpotQA acc, rec   NarrativeQA BLEU-1, METEOR, ROUGE-L
Zero-shot         47.7  23.6              28.0  31.8          8.0   7.9   8.6
CoT               54.5  28.7              32.5  39.7          5.0   8.1   6.4
BM25              37.6  19.4              49.7  53.6          2.0   4.9   2.8
Vanilla RAG       58.6  31.4              50.6  56.1          2.0   4.9   2.8
RAPTOR            59.1  34.1              -     -             5.5  12.5   9.1
HippoRAG          38.9  19.1              51.3  56.8          2.2   5.0   2.8
LightRAG-Low      44.1  25.1              34.1  41.8          4.5   8.7   6.6
LightRAG-High     48.5  28.7              25.6  33.3          4.4   8.1   6.1
LightRAG-Hybrid   50.3  30.3              35.6  43.3          5.0   9.4   7.0
GraphRAG-Local    40.1  23.8              29.7  35.5          3.9   3.3   3.5
GraphRAG-Global   45.9  28.4              33.5  42.6          -     -     -
ArchRAG           68.8  37.2              65.4  69.2          11.5  15.6  17.6
""",
    "archrag-table-4": """
variant           MultiHop-RAG acc, rec   HotpotQA acc, rec
ArchRAG           68.8  37.2              65.4  69.2
Spec.             67.1  36.7              60.5  63.7
Spec. (No Aug)    62.8  34.2              64.8  63.2
Leiden            63.2  34.1              61.7  64.8
Single-Layer      63.8  36.4              60.1  63.6
Entity-Only       61.2  34.7              59.9  63.1
Direct Prompt     59.9  29.6              40.7  45.4
""",
    "archrag-table-5": """
model          method        MultiHop-RAG acc, rec   HotpotQA acc, rec
Llama3.1-8B    Vanilla RAG   58.6  31.4              50.6  56.1
               HippoRAG      38.9  19.1              51.3  56.8
               RAPTOR        59.1  34.1              -     -
               ArchRAG       68.8  37.2              65.4  69.2
GPT-3.5-turbo  Vanilla RAG   65.9  32.8              60.7  65.9
               HippoRAG      68.9  31.4              58.0  62.3
               RAPTOR        64.4  34.6              -     -
               ArchRAG       67.2  31.5              62.8  65.0
GPT-4o-mini    Vanilla RAG   71.4  32.8              68.2  70.1
               HippoRAG      70.5  31.6              65.0  68.5
               RAPTOR        70.1  32.6              -     -
               ArchRAG       77.3  33.8              69.9  73.8
""",
    "archrag-table-6": """
wins, wins and ties, against the gold answers, per cent
method        Lifestyle    Recreation   Science      Technology   Writing
Vanilla RAG   17.5  20.5   17.0  25.0   32.5  37.0   28.5  34.0   15.0  16.5
HippoRAG      26.5  26.5   29.5  30.5   49.5  49.5   42.0  42.5   21.0  21.5
RAPTOR        17.0  19.5   18.5  24.5   39.0  45.0   33.0  35.5   25.0  26.5
ArchRAG       49.5  50.0   41.5  41.5   56.0  56.0   59.0  59.5   45.0  45.0
""",
    "archrag-table-7": """
method   MultiHop-RAG CHI, Sim   HotpotQA CHI, Sim
Leiden   3.02  0.71              3.42  0.71
Ours     4.68  0.89              4.82  0.88
""",
    "archrag-table-8": """
method            MultiHop-RAG acc, rec   HotpotQA acc, rec
GraphRAG-Global   45.9  28.4              33.5  42.6
GraphRAG+AC       49.3  31.4              50.6  52.8
ArchRAG           68.8  37.2              65.4  69.2
""",
    "archrag-figure-6": """
C-HNSW against Base-HNSW: 3.5 times faster on average, 5.4 times on level 1 (1.861 s against 10.125 s)
""",
    "archrag-table-9": """
corpus         no entity found   low-quality entity
MultiHop-RAG   1.3 %             11.9 %
HotpotQA       5.0 %             15.8 %
""",
    "noderag-table-1": """
accuracy (MultiHop-RAG: score; Arena: wins and ties against the gold answers), thousands of tokens
method     HotpotQA     MuSiQue      MultiHop   FiQA        Lifestyle   Recreation   Science     Tech
NaiveRAG   87.50  9.8   39.43  9.6   .56  8.9   .663  9.4   .689  9.1   .526  9.0   .720  9.3   .817  9.1
HyDE       73.00 10.0   33.14  9.8   .53  9.4   .789  9.6   .863  9.3   .823  9.3   .777  9.5   .829  9.3
LightRAG   79.00  7.1   36.00  7.4   .50  7.9   .754  6.3   .937  6.9   .840  7.1   .800  6.2   .817  6.8
GraphRAG   89.00  6.6   41.71  6.6   .53  7.4   .749  6.4   .943  6.7   .863  6.7   .806  6.6   .863  6.8
NodeRAG    89.50  5.0   46.29  5.9   .57  6.1   .794  3.3   .949  3.8   .903  4.2   .886  3.4   .949  3.3
""",
    "noderag-table-2": """
setting                    accuracy   seconds   thousands of tokens
NodeRAG                    46.29      4.05      5.96
w/o HNSW                   41.71      4.92      6.78
w/o dual search            44.57      4.72      9.70
w/o cross nodes, k = 10    41.71      4.15      4.27
w/o cross nodes, k = 20    43.43      4.70      7.89
w/o cross nodes, k = 30    42.29      4.80      11.62
""",
    "noderag-table-3": """
GraphRAG local, GraphRAG global, LightRAG, NodeRAG; indexing and disk: GraphRAG, LightRAG, NodeRAG
corpus         indexing, min   disk, MB        question, s              tokens retrieved
HotpotQA       66  39  21      227  461  214   2.66  26.69  5.58  3.98  6681    810529  7177  5079
MuSiQue        76  90  25      255  492  250   2.94  22.65  6.53  4.05  6617   1111073  7458  5960
MultiHop-RAG   50  58  24      141  276  137   4.15  34.45  7.10  4.89  7368    920780  8920  5260
""",
    "noderag-table-4": """
corpus         T     S      N      R      A    O     H     nodes   edges  of them HNSW's
HotpotQA       1985  15905  88863  56578  684  4479  4479  172603  759812  487731
MuSiQue        1907  18714  99840  61964  795  5700  5700  193922  888966  583126
MultiHop-RAG   1532  10986  43184  29286  685  2289  2289   90144  367486  203199
""",
    "noderag-table-5": """
MuSiQue    accuracy   seconds   tokens
default    37.14      4.82      10.4k
local      41.71      2.94      6.6k
global     33.14      22.65     1.11M
""",
    "hirag-table-1": """
wins of HiRAG over ..., per cent, overall (comprehensiveness, empowerment, diversity)
over         Mix                    CS                     Legal                  Agriculture
NaiveRAG     87.6 (83.4 88.4 87.3)  73.5 (70.0 71.0 85.5)  74.5 (67.5 75.0 78.0)  71.5 (66.0 69.0 79.0)
GraphRAG     64.1 (57.9 64.9 59.5)  64.0 (59.5 61.5 69.5)  54.5 (51.5 56.5 53.0)  54.0 (51.0 51.5 54.5)
LightRAG     65.9 (63.2 65.1 65.9)  59.0 (55.5 58.5 67.0)  52.0 (51.0 56.5 37.0)  61.5 (61.5 63.5 62.5)
FastGraphRAG 99.2 (99.2 99.2 99.2)  100 (100 100 99.5)     100 (99.0 100 98.5)    100 (100 100 100)
KAG          97.7 (97.7 96.5 96.2)  98.5 (99.0 95.5 95.0)  91.5 (83.5 91.0 89.0)  100 (99.5 99.5 96.5)
w/o HiIndex  57.6 (53.3 56.8 59.5)  60.0 (55.8 61.2 60.0)  53.5 (51.0 52.5 52.0)  52.0 (49.5 49.5 51.5)
w/o Bridge   52.7 (50.8 55.8 55.4)  57.5 (53.5 57.0 56.0)  56.0 (50.5 61.5 56.5)  58.0 (53.0 59.0 54.0)
""",
    "hirag-table-2": """
method         2Wiki EM, F1   HotpotQA EM, F1
NaiveRAG       54.4  60.8     57.3  71.0
RAPTOR         39.7  48.4     50.6  64.7
GraphRAG       45.7  61.0     51.4  67.6
LightRAG        2.5  12.1      9.9  20.2
FastGraphRAG   20.8  44.8     35.0  49.6
HippoRAG       59.4  67.3     46.3  60.0
HippoRAG2      60.5  69.7     56.3  71.1
HiRAG          69.0  74.4     62.0  72.9
""",
    "hirag-table-5": """
tokens, calls and seconds of indexing; tokens, calls and seconds of a question
Mix           GraphRAG     8507697   2666    6696        0   1.00   0.70
              LightRAG     3849030   1160    3342      358   2.00   3.06
              KAG          6440668    831    8530   110532   9.17  58.47
              HiRAG       21898765   6790   17208        0   1.00   0.85
CS            GraphRAG    27506689   8649   19255        0   1.00   0.98
              LightRAG    12638997   3799   14307      353   2.00   4.97
              KAG          7358717   2190   14837    89746   6.29  46.37
              HiRAG       56042906  16535   44994        0   1.00   1.17
Legal         GraphRAG    51168359  13560   30065        0   1.00   1.12
              LightRAG    30299958   9442   21505      354   2.00   5.44
              KAG         18431706   4980   29191    97683   7.82  51.26
              HiRAG      106427778  27224  115232        0   1.00   2.04
Agriculture   GraphRAG    27974472   8669   20362        0   1.00   1.17
              LightRAG    12031096   3694   13550      355   2.00   5.64
              KAG          7513424   2358   22557    93217   6.83  49.57
              HiRAG       96080883  22736   50920        0   1.00   1.76
""",
    "hirag-table-6": """
wins of HiRAG on Mix, overall, per cent
over           GPT-4o   Claude-3.5-sonnet   Qwen-turbo
NaiveRAG       87.6     89.0                87.3
GraphRAG       64.1     67.3                67.6
LightRAG       65.9     66.4                64.5
FastGraphRAG   99.2     100                 99.2
KAG            97.7     98.2                96.4
""",
    "hirag-table-7": """
share that the bridge covers, per cent   Mix     CS      Legal   Agriculture
global                                   38.61   48.96   53.44   50.75
local                                    83.07   81.88   78.13   64.47
""",
    "lsh-table-1": """
seconds of construction   MultiHop-RAG   MuSiQue    ALCE       HotpotQA
LSH tree                  71.98          866.93     2442.82    1979.32
GraphRAG                  2215.66        19392.49   50274.21   45381.43
RAPTOR                    945.41         -          -          -
RAPTOR, balanced          103.76         1061.72    3203.82    2918.33
""",
    "lsh-table-2": """
wins over GraphRAG, per cent   comprehensive   diversity   empowerment   overall
Mix                            56              52          49            51
CS                             53              58          48            55
Legal                          33              54          42            42
MultiHop-RAG                   56              42          55            52
""",
    "lsh-table-3": """
wins over RAPTOR, per cent     comprehensive   diversity   empowerment   overall
Mix                            67              62          47            54
CS                             52              48          41            46
Legal                          58              42          61            52
MultiHop-RAG                   51              57          53            53
""",
    "lsh-figure-4": """
of the text: MultiHop-RAG, accuracy of the LSH tree 64.34; the rest is drawn
""",
    "graphrag-bench": """
on the benchmark's leaderboard, by model and corpus: https://graphrag-bench.github.io
""",
}


def printed(name: str) -> str:
    """What the paper prints for a table; empty where it only draws."""
    return PRINTED.get(name, "").strip("\n")

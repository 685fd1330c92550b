"""Programs that make the papers' tables and figures, and the systems that the papers compare with.

    run, tables           the command line; what each table is made by
    harness               one evaluation: rows by name, and what the package's own evaluation does not measure
    corpus                what the compared systems share: passages, vectors, one graph
    asking, raptor, walks, graphrag, lightrag       the compared systems, made anew from papers and programs
    comparing, statements, wording                  win rates, GraphRAG-Bench's judge, metrics of wording
    clusterings           ArchRAG's grid of augmentations and clusterings
    layouts               corpora as their authors publish them
    printed.md            the papers' own figures

`python cookbook/papers --list` lists the tables; README.md tells of them.
"""

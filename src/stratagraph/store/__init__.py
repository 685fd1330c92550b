"""The only package that reads and writes the files of an index folder.

    folder
    ├── CURRENT                 number of the current generation; renaming it publishes a generation
    ├── generations/<n>/        never changed once published
    │   ├── manifest.json       format, settings, size and checksums of every file
    │   ├── corpus/*/*.arrays   chunks and documents, in segments that generations share
    │   ├── chunks.arrays       document, record and vector of each chunk
    │   ├── parts/              arrays of content of each part (the extraction, the graph, each method)
    │   ├── numbers/            arrays of rows and measures of each part
    │   ├── patches/            differences between these arrays and those of an earlier generation
    │   ├── nodes/*/*.arrays    nodes of each part, in segments
    │   ├── vectors/*.arrays    all vectors, in segments
    │   └── slots/*.arrays      the vectors of each part, by their slots
    ├── calls.sqlite            answers of models
    ├── journal.sqlite          while an operation is unfinished or a purge is due
    ├── lock, lock.json         the writer's lock, and who holds it
    └── stratagraph-index       marks the folder as an index

`folder.IndexFolder` creates, opens, writes and verifies a folder. `snapshot.Snapshot` reads a published
generation, `staging.Staging` writes the next one. Both are a `corpus.Corpus`. Records of chunks, documents
and nodes are found, read and written in `records`.
"""

from __future__ import annotations

"""The only place where an index folder's files are touched.

    folder                      an index
    ├── CURRENT                 number of the generation in use; its rename is the moment of publishing
    ├── generations/<n>/        never changed once published
    │   ├── manifest.json       how it was made; size and checksums of every file
    │   ├── corpus/*/*.arrays   chunks and documents, in segments that generations share
    │   ├── chunks.arrays       the document of each chunk, and which record and vector are its own
    │   ├── parts/*/*.piece     the arrays of each part: the extraction, the graph, the methods; or
    │   │                       parts/*.arrays, where they are small; numbers of rows: numbers/*.arrays
    │   ├── patches/*/*.arrays  how they follow from these files, which generations share
    │   ├── nodes/*/*.arrays    the nodes of each part, in segments likewise
    │   ├── vectors/*.arrays    all vectors, too
    │   └── slots/*.arrays      which vectors are those of a part
    ├── calls.sqlite            answers of models
    ├── journal.sqlite          only while an operation is unfinished or a purge is due
    ├── lock, lock.json         the writer's lock, and who holds it
    └── stratagraph-index         marks the folder as ours from its first moment

    folder      IndexFolder: create, open, write, verify
    snapshot    Snapshot: a generation opened for reading
    staging     Staging: the next generation while it is made, up to its publishing
    view        what both of these read: the corpus, and its parts: the extraction, the graph, each method
    assembly    documents that arrive, and how they and the previous corpus become the next
    scratch     those documents on the disk, meanwhile
    corpus      chunks and documents in segments
    tables      chunks and documents of earlier formats, in SQLite
    blocks      records in segments, compressed: nodes, chunks, documents
    segments    what of them is shared, and what is written anew
    pool        vectors in segments
    rows        vectors as rows of a vector store
    external    those, in the place of a pool; external_writer: what an update writes there
    node_records  nodes in segments
    nodes       the sources of nodes as arrays
    files       files and directories by descriptor, never through a link
    arrays      files of arrays
    patches     arrays as they follow from those of an earlier generation
    pieces      files of arrays in pieces, of which a delete writes few anew
    part_arrays what of a part's arrays is shared, and what is written anew
    checksums   sizes and checksums, and how far they are checked
    contents    the files of a generation: opening them, and what their numbers must obey
    manifest    the description of a generation; versions of the format and their migration
    calls       the cache of model calls, and purging it
    journal     what a killed operation leaves for the next try
    layout      names, atomic steps, cleaning up
    lock        one writer at a time
    database    SQLite connections and errors
    verify      the full check
    copying     a copy of a folder, as an index of its own

A published generation is never written to again. Whatever must survive a killed process is in the two
SQLite files beside the generations.
"""

from __future__ import annotations

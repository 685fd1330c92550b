"""The only package that reads and writes the files of an index folder, whose layout ARCHITECTURE shows.

`folder.IndexFolder` creates, opens, writes and verifies a folder. `snapshot.Snapshot` reads a published
generation, `staging.Staging` writes the next one. Both are a `corpus.RecordedCorpus`. Records of chunks,
documents and nodes are found, read and written in `records`.
"""

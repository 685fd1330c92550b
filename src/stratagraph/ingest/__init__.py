"""From files to the graph, in the order in which data flows.

    loaders, files      files and folders as documents
    bounded_reading     the process that reads files within limits of time and memory
    chunk, headings     documents into chunks; titles, bylines and headings, which state no fact
    extraction          what each chunk says: by a model, by rules, by spaCy, or given
    names               when two names are one, and which names stand in a question
    graph               what all chunks say as one graph with exact provenance: nodes and arrays
    lexical, nearest    the words of BM25; nearest vectors
    summarize           summaries of groups of texts
    carryover           what an update takes over from the previous generation
    checks              checks of stored arrays, when they are opened

A stage takes values and the gate, returns values, and knows neither the store nor methods.
"""

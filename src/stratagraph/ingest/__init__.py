"""From files to the graph: documents, chunks, extraction, names, graph."""

"""The graph of the corpus: extractions merged, described and laid out as arrays."""

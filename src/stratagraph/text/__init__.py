"""Text without an index: sentences, tokens, stop words, statements that fit a budget."""

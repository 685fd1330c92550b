"""Text without an index: sentences, tokens, stop words, statements that fit a budget."""

from collections.abc import Callable

CountTokens = Callable[[str], int]

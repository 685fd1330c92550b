"""An embedder of tests that gives vectors of parts of texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratagraph.testing import FakeEmbedder


class Spans(FakeEmbedder):
    """Vectors of parts depend on the passage around them, as pooled ones do."""

    def __init__(self) -> None:
        super().__init__(32)
        self.alone: list[str] = []
        self.passages: list[str] = []

    def embed_documents(self, texts: list[str]) -> Any:
        self.alone += texts
        return super().embed_documents(texts)

    def embed_spans(self, texts: list[str], spans: list[Any]) -> tuple[Any, Any]:
        self.passages += texts
        parts = [
            np.array(self.embed_query(text[start:end])) + 0.1 * np.array(self.embed_query(text))
            for text, own in zip(texts, spans, strict=True)
            for start, end in own
        ]
        return [self.embed_query(text) for text in texts], parts

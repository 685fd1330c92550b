"""A picture shows no entity and no relation of passages that the filter does not admit."""

from __future__ import annotations

from pathlib import Path

import pytest

import stratagraph as sg

OPEN = [
    sg.Document("a", "Mara Quill steered the ferry Dunlin to Bremen.", {"tenant": "open"}),
    sg.Document("b", "Tomas Weir met Mara Quill at the quay of Bremen.", {"tenant": "open"}),
]
CLOSED = [
    sg.Document(
        "c", "Mara Quill owes the Kestrel Bank nine crowns. Bremen fears Ansel Sorrow.", {"tenant": "closed"}
    ),
    sg.Document(
        "d", "Ansel Sorrow saw Mara Quill sell the Dunlin to the Kestrel Bank.", {"tenant": "closed"}
    ),
]
SECRETS = ("Kestrel", "Sorrow", "crowns")


@pytest.mark.parametrize("method", ["lshtree", "archrag", "noderag", "hirag"])
@pytest.mark.parametrize("shards", [False, True])
def test_a_picture_shows_what_the_filter_admits(tmp_path: Path, method: str, shards: bool) -> None:
    embedder = sg.HashingEmbedder()
    if shards:
        index = sg.build_shards(
            OPEN + CLOSED, tmp_path / "idx", method=method, shards=2, embedder=embedder, progress=False
        )
    else:
        index = sg.build_index(OPEN + CLOSED, method, tmp_path / "idx", embedder=embedder, progress=False)
    with index:
        for question in ("Who is Mara Quill?", "What does Ansel Sorrow know of the Kestrel Bank?"):
            for where in ({"tenant": "open"}, lambda metadata: metadata["tenant"] == "open"):
                retrieval = index.retrieve(question, where=where)
                page = retrieval.show().html.replace(question, "")
                assert not [secret for secret in SECRETS if secret in page]
            unfiltered = index.retrieve(question).show().html.replace(question, "")
            assert any(secret in unfiltered for secret in SECRETS)

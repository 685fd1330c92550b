"""A build on a cluster of Ray with two workers, which is started here; skipped where Ray is not installed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.errors import MapperError
from stratagraph.testing.contract import CountingModel, documents
from stratagraph.types.protocols import Mapper

pytest.importorskip("ray", reason="Ray is not installed: pip install 'stratagraph[ray]'")
EMBEDDER = sg.HashingEmbedder(64)
LONG = [sg.Document(d.id, f"{d.text} " * 40) for d in documents(40)]


class Deadly:
    """Ends its process the first time that it is used."""

    name = "deadly"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def embed_documents(self, texts: list[str]) -> Any:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return EMBEDDER.embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        return EMBEDDER.embed_query(text)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Mapper]:
    with sg.mapper("ray", 2, embed=True) as made:
        yield made


def state(index: sg.Index) -> Any:
    return index.chunks(), [list(index.nodes(method)) for method in index.methods], list(index.relations())


def test_the_same_as_without(cluster: Mapper, tmp_path: Path) -> None:
    given = {"method": ["archrag", "lshtree"], "embedder": EMBEDDER, "progress": False}
    with sg.build_index(LONG, **given) as one, sg.build_index(LONG, mapper=cluster, **given) as other:
        assert state(one) == state(other)
    spread = {"shards": 3, "embedder": EMBEDDER, "progress": False}
    with (
        sg.build_shards(LONG, tmp_path / "one", **spread) as one,
        sg.build_shards(LONG, tmp_path / "other", mapper=cluster, **spread) as other,
    ):
        assert state(one) == state(other)


def test_a_killed_worker_loses_nothing_and_repeats_no_call(cluster: Mapper, tmp_path: Path) -> None:
    model, mark = CountingModel(), tmp_path / "mark"
    given = {"llm": model, "config": {"extraction": {"mode": "llm"}}, "progress": False}
    with sg.build_index(LONG[:20], embedder=Deadly(mark), mapper=cluster, **given) as index:
        assert mark.exists()
        assert index.stats()["documents"] == 20
    assert len(set(model.prompts)) == len(model.prompts)


def test_no_cluster_is_told_soon() -> None:
    with pytest.raises(ValueError, match=r"host:port"):
        sg.mapper("ray@nonsense")
    import ray

    ray.shutdown()  # one that is connected to would be taken
    with pytest.raises(MapperError, match=r"no cluster of Ray at '127\.0\.0\.1:9'.*ray start --head"):
        sg.build_index(LONG, embedder=EMBEDDER, mapper="ray@127.0.0.1:9", progress=False)

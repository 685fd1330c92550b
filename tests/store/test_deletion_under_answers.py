"""An answer that ends after the documents it quotes were deleted is not kept."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder

SECRET = "zanzibar"


class Held:
    """A model that quotes its prompt once it is let go."""

    name = "held"

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def complete(self, prompt: str) -> str:
        """What the prompt says of the paint."""
        self.asked.set()
        self.go.wait(20)
        return f"The paint is {SECRET if SECRET in prompt else 'unknown'} [1]."


@pytest.mark.parametrize(
    ("deleted", "same_object", "shards"),
    [("quoted", True, None), ("quoted", False, None), ("quoted", False, 2), ("other", True, None)],
)
def test_an_answer_to_what_was_deleted_is_not_kept(
    tmp_path: Path, same_object: bool, deleted: str, shards: int | None
) -> None:
    path = tmp_path / "idx"
    documents = [
        sg.Document("quoted", f"The paint of the pier is {SECRET}."),
        sg.Document("other", "Olaf Strand repaired the ferry Aurora in Lund."),
        sg.Document("third", "Maria Lind steers the ferry Aurora to Ven."),
    ]
    build = sg.build_index if shards is None else partial(sg.build_shards, shards=shards)
    build(documents, method="lshtree", path=path, embedder=FakeEmbedder(), progress=False).close()
    model = Held()
    with (
        sg.open_index(path, llm=model, embedder=FakeEmbedder()) as reader,
        sg.open_index(path, embedder=FakeEmbedder()) as writer,
    ):
        answers: list[str] = []
        question = "What is the paint of the pier?"
        asking = threading.Thread(
            target=lambda: answers.append(reader.answer(question, k=1, view="chunks").text)
        )
        asking.start()
        assert model.asked.wait(20)
        (reader if same_object else writer).delete([deleted])
        model.go.set()
        asking.join(20)
        assert SECRET in answers[0]
    held = b"".join(each.read_bytes() for each in path.rglob("calls.sqlite*"))
    assert (SECRET.encode() in held) == (deleted == "other")

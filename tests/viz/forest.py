"""An index that exists only as far as pictures look at it: a tree of any size, with overlaps if asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratagraph.types.records import Chunk, GraphEntity, MethodNode


class Forest:
    """Levels of summaries over chunks, `fan` members each, up to one at the top."""

    methods = ("forest",)

    def __init__(self, leaves: int, fan: int) -> None:
        self.leaves = leaves
        self.levels: list[list[MethodNode]] = []
        below = [f"chunk {number}" for number in range(leaves)]
        while len(below) > 1:
            level = len(self.levels) + 1
            groups = [below[start : start + fan] for start in range(0, len(below), fan)]
            self.levels.append(
                [
                    MethodNode(
                        f"{level}.{n}",
                        "summary",
                        level,
                        f"Summary {n} of level {level}.",
                        tuple(group),
                        ("chunk 0",),
                        ("d",),
                    )
                    for n, group in enumerate(groups)
                ]
            )
            below = [node.id for node in self.levels[-1]]

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        for level in self.levels:
            yield from level

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        return iter(())

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        return {"d": self.find_chunks(f"chunk {number}" for number in range(self.leaves))}

    def find_chunks(self, ids: str | Iterable[str]) -> list[Chunk]:
        return [Chunk(f"Text of {each}.", "d", id=each) for each in ids if each.startswith("chunk ")]

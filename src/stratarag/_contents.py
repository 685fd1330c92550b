"""Reading an index without a question: what it holds, as values, as files and as pictures."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from stratarag import _listing, viz
from stratarag._serving import Reader
from stratarag.export import export
from stratarag.picture import Picture
from stratarag.records import (
    BuildReport,
    Chunk,
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    Metadata,
    MethodNode,
)


def listed(ids: str | Iterable[str]) -> list[str]:
    """Ids as a list; a single one is a list of one.

    Raises
    ------
    TypeError
        If it is neither an id nor a collection of ids.
    """
    if not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a string or a list of strings, not {type(ids).__name__} {ids!r}")
    return [ids] if isinstance(ids, str) else list(ids)


class Contents(ABC):
    """The part of `Index` that reads the current generation. Iterators read a batch at a time.

    Attributes
    ----------
    last_report
        What the last build, insert or delete through this object did; None after opening.
    """

    last_report: BuildReport | None = None

    @abstractmethod
    def _serve(self) -> Reader:
        """The reader of the current generation."""

    @property
    def generation(self) -> int:
        """Number of the generation that questions see; each update publishes the next."""
        return self._serve().snapshot.manifest.generation

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the folder, the default one first."""
        return self._serve().methods

    def documents(self) -> dict[str, Metadata]:
        """The documents in the index with their metadata, by id."""
        return self._serve().snapshot.document_metadata()

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        """The chunks of these documents, or of all, in their order; unknown ids are left out."""
        return self._serve().chunks_of(None if document_ids is None else set(listed(document_ids)))

    def find_chunks(self, ids: str | Iterable[str]) -> list[Chunk]:
        """The chunks with these ids, ours or the caller's own (`Chunk.ref`), in the order of the corpus.

        Unknown ids are left out; several chunks may share an id of the caller's.
        """
        return self._serve().find_chunks(listed(ids))

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        """The entities of the index's graph, by normalised name, with what they came from.

        With `ids`, those of them that exist.
        """
        return _listing.entities(self._serve().snapshot, None if ids is None else listed(ids))

    def relations(self) -> Iterator[GraphRelation]:
        """The relations of the index's graph, with what they came from."""
        return _listing.relations(self._serve().snapshot)

    def units(self) -> Iterator[GraphUnit]:
        """The semantic units of the index's graph: facts, with the entities in them and their sources."""
        return _listing.units(self._serve().snapshot)

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        """The nodes of a method (None: the first), with their members, sources and documents.

        What a node's members are (nodes of the level below, entities, chunks) depends on the method and
        the level.

        Raises
        ------
        MethodMissing
            If the folder holds no index of that method.
        """
        reader = self._serve()
        return _listing.method_nodes(reader.snapshot, reader.method_name(method))

    def extractions(self) -> Iterator[tuple[str, Extraction]]:
        """What was extracted from each chunk, with the chunk's id, in the order of the corpus.

        As a dictionary it is what `extraction=` takes, for the same chunks in another index.
        """
        return _listing.extractions(self._serve().snapshot)

    def export(
        self, path: str | os.PathLike[str], format: str = "jsonl", *, method: str | None = None
    ) -> Path:
        """Write what the index holds to a file or, for Parquet, a folder; returns its path.

        Parameters
        ----------
        path
            Where to write. Files that are there under these names are replaced once the new ones are whole.
        format
            `"jsonl"`: everything, the extraction included, which `read_extraction` reads back.
            `"graphml"`: chunks, entities, relations and the methods' nodes as one graph.
            `"parquet"`: a table for each kind of thing, in a folder. `"html"`: the page of `show`.
        method
            Whose nodes go along; None means those of all methods (for a page: of the first).

        Raises
        ------
        ValueError
            If there is no such format.
        MethodMissing
            If the folder holds no index of that method.
        MissingExtra
            For Parquet, if pyarrow is not installed.
        """
        return export(self, path, format, method=method)

    def show(self, method: str | None = None, *, most: int = viz.MOST_SHOWN) -> Picture:
        """A method's hierarchy as a page, which a notebook shows and `save` writes to a file.

        A click on a cell opens its text and sources. Of a hierarchy with more than `most` nodes the largest
        are shown, and the page says so. See `viz.hierarchy`.
        """
        return viz.hierarchy(self, self._serve().method_name(method), most=most)

    def show_report(self) -> Picture:
        """Tokens and seconds, stage by stage, of the last build, insert or delete through this object.

        Raises
        ------
        ValueError
            If this object has built or changed nothing; a report is not kept in the folder.
        """
        if self.last_report is None:
            raise ValueError(
                "there is no report: this object has only opened the index. build_index, insert, delete and "
                "add_method make one"
            )
        return viz.build_report(self.last_report)

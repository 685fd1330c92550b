"""What a build in batch files keeps in its folder between rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stratagraph.config import Config, as_config
from stratagraph.errors import Damaged
from stratagraph.ingest.extraction.stage import Given
from stratagraph.ingest.extraction.stored import from_json, to_json
from stratagraph.models.batching import Results
from stratagraph.operations.changes import settings_of
from stratagraph.store.folder import IndexFolder
from stratagraph.types.records import Chunk, Document, Section, content_id


@dataclass(frozen=True)
class Begun:
    """How an operation was begun, without its documents.

    `identity` and `embedder` are fingerprints of the models, `embedder_given` is the embedder's name as
    given, `without` lists what the model's server refuses, `asked` the custom ids of the last requests, and
    `files` the files that the documents hold whole, and `roots` the folders of the index.
    """

    operation: str
    methods: tuple[str, ...]
    config: Mapping[str, Any]
    max_failures: float
    llm: Any
    embedder: str
    embedder_given: str | None = None
    identity: str = ""
    without: Sequence[Sequence[str]] = ()
    asked: Sequence[str] = ()
    files: Sequence[str] = ()
    roots: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def settings(self, folder: IndexFolder) -> Config:
        """The settings of the build, or of the existing index."""
        given = replace(as_config(self.config), max_failures=self.max_failures)
        return settings_of(folder.snapshot().manifest, given) if folder.generation else given


@dataclass(frozen=True)
class Inputs:
    """The documents of an operation; `stored` if the folder holds them already."""

    documents: Sequence[Any]
    extraction: Given | None = None
    stored: bool = False


def remember(folder: IndexFolder, begun: Begun, inputs: Inputs, results: Mapping[str, str]) -> None:
    """Store what the next round needs; `results` are the lines whose answers are not in the cache."""
    with folder.writer(begun.operation):
        settings = json.dumps(asdict(begun))
        folder.journal.keep_inputs(settings, None if inputs.stored else _lines(inputs))
        folder.journal.keep_results(results)


def _lines(inputs: Inputs) -> Iterator[str]:
    for item in inputs.documents:
        if isinstance(item, Chunk):
            yield json.dumps({"chunk": asdict(item)})
        elif isinstance(item, str):
            yield json.dumps({"document": {"id": content_id(item), "text": item}})
        else:
            text = item.text if isinstance(item, Document) else "".join(item.blocks())
            fields = {"id": item.id, "text": text, "metadata": dict(item.metadata)}
            fields |= {"file": item.file, "root": item.root}
            if isinstance(item, Document) and item.sections:
                fields["sections"] = [[each.start, dict(each.metadata)] for each in item.sections]
            yield json.dumps({"document": fields})
    for key, value in (inputs.extraction or {}).items():
        yield json.dumps({"extraction": [key, to_json(value)]})


def remembered(folder: IndexFolder) -> tuple[Begun, Inputs, Results]:
    """What `remember` stored; `ValueError` if nothing is, `Damaged` if it cannot be read."""
    settings, *lines = folder.journal.inputs() or [""]
    result_lines = folder.journal.results()
    folder.journal.close()
    if not settings:
        raise ValueError(
            f"no batch is under way in {str(folder.path)!r}: begin one with batch.write. What was answered "
            "before is in the cache, and is not asked again"
        )
    documents: list[Document | Chunk] = []
    extraction, results = {}, Results()
    try:
        begun = Begun(**json.loads(settings))
        for line in lines:
            ((kind, value),) = json.loads(line).items()
            if kind == "extraction":
                extraction[value[0]] = from_json(value[1])
            elif kind == "chunk":
                documents.append(Chunk(**value))
            else:
                sections = tuple(Section(start, metadata) for start, metadata in value.pop("sections", ()))
                documents.append(Document(**value, sections=sections))
        for line in result_lines:
            results.add(line)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise Damaged(f"{folder.journal.path}: what it holds of a batch cannot be read ({error})") from error
    return begun, Inputs(documents, extraction or None, stored=True), results

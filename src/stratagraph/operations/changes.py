"""A change of an index: the operation with its input, and the settings that it leaves in force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stratagraph.config import Config, UnknownSetting, as_config
from stratagraph.errors import Damaged, EmbedderMismatch, FormatMismatch, SettingsConflict
from stratagraph.ingest.extraction.stage import Given
from stratagraph.ingest.loaders import FileDocuments
from stratagraph.methods import NAMES
from stratagraph.operations.documents import Documents, check_documents
from stratagraph.operations.gates import Models
from stratagraph.store.manifest import Manifest
from stratagraph.store.snapshot import JoinedSnapshot, Snapshot
from stratagraph.types.records import DocumentState

_SETTING = 80  # characters of a setting that a message shows


@dataclass(frozen=True, slots=True)
class Action:
    """What a change does, and what that means for `update`; its name in reports, lock and journal."""

    name: str
    takes_documents: bool = False
    builds: bool = False  # methods are given, which the index has afterwards
    continues: bool = False  # settings that are given are those of the index, if there is one
    starts_over: bool = False  # nothing of the index is taken over
    regroups: bool = False  # all groups of the given methods are divided anew
    rewrites: bool = False  # all files are written again
    embeds_all: bool = False  # everything is embedded again; extractions and texts stay
    changes_embedder: bool = False  # the next generation has the embedder that is given

    @property
    def is_upkeep(self) -> bool:
        """Whether documents, methods and settings stay as they are."""
        return self.rewrites or self.embeds_all


BUILD = Action("build", takes_documents=True, builds=True, continues=True)
REBUILD = Action("rebuild", takes_documents=True, builds=True, starts_over=True)
INSERT = Action("insert", takes_documents=True)
ESTIMATE = Action("estimate", takes_documents=True)
DELETE = Action("delete")
ADD_METHOD = Action("add method", builds=True)
REGROUP = Action("regroup", regroups=True, rewrites=True)
COMPACT = Action("compact", rewrites=True)
RESTORE = Action("restore vectors", embeds_all=True)
REEMBED = Action("reembed", embeds_all=True, changes_embedder=True)


@dataclass(frozen=True, slots=True)
class Change:
    """An action and its input.

    `methods` and `config` are those of a build, those that are added, or those to regroup; other actions
    keep the folder's. `files` names the files all of whose documents are given; `FileDocuments`
    knows its own. With `prune`, documents that are not given are deleted: of files, those that vanished from
    the given folders; of other input, all of them, or those for whose ids `prune` returns True. `share` says
    that these are the documents of one shard, which may have none, and `roots` where its files are.
    """

    action: Action
    documents: Documents | None = None
    removed: Collection[str] = ()
    missing_ok: bool = False
    methods: Sequence[str] = ()
    config: Config = field(default_factory=Config)
    extraction: Given | None = None
    prune: bool | Callable[[str], bool] = False
    files: Collection[str] = ()
    roots: Mapping[str, Sequence[str]] | None = None
    share: bool = False

    def __post_init__(self) -> None:
        if self.action.takes_documents:
            check_documents(self.documents)
        if self.prune and self.action == INSERT and not isinstance(self.documents, FileDocuments):
            raise ValueError(
                "prune=True is for files: give what read_documents returns, or delete documents by their ids"
            )

    def require_known(self, unknown: Sequence[str]) -> None:
        """Raise `KeyError` for documents to delete that the index lacks, unless they are to be ignored."""
        if unknown and not self.missing_ok:
            raise KeyError(
                f"no document {unknown[0]!r} in the index ({len(unknown)} of {len(self.removed)} ids "
                "unknown); pass missing_ok=True to ignore that"
            )

    @property
    def may_remove(self) -> bool:
        """Whether documents that were not given may have to be removed."""
        return bool(self.prune or self.files) or isinstance(self.documents, FileDocuments)

    def join(self, before: Snapshot | JoinedSnapshot | None) -> None:
        """Give files the ids that they have in the index."""
        if isinstance(self.documents, FileDocuments):
            states = () if before is None else before.document_states().values()
            owners = {state.file: state.root for state in states if state.file}
            self.documents.join({} if before is None else before.manifest.roots, owners)

    def roots_after(self, before: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """The roots of the index after the change, by key."""
        read = self.documents.roots() if isinstance(self.documents, FileDocuments) else self.roots or {}
        return {**before, **read}

    def vanished(self, before: Snapshot | JoinedSnapshot | None) -> tuple[str, ...]:
        """Files of the index that are in the given folders no more, and whose documents stay."""
        if self.prune or before is None or not isinstance(self.documents, FileDocuments):
            return ()
        files = dict.fromkeys((state.file, state.root) for state in before.document_states().values())
        return tuple(file for file, root in files if file and self.documents.vanished(file, root))

    def removes(self, identity: str, state: DocumentState) -> bool:
        """Whether to remove a document that was not given."""
        _, file, root = state
        if file and file in self.files:
            return True
        if isinstance(self.documents, FileDocuments):
            return bool(file) and (
                file in self.documents.files or (bool(self.prune) and self.documents.vanished(file, root))
            )
        return self.prune(identity) if callable(self.prune) else self.prune


def settings_of(manifest: Manifest, running: Config) -> Config:
    """The recorded settings, with those of `running` that say how models are called."""
    where = f"manifest.json of generation {manifest.generation}"
    if set(manifest.methods) - set(NAMES):
        names = ", ".join(NAMES)
        raise Damaged(f"{where}: its methods are {list(manifest.methods)}; this version has {names}")
    try:
        recorded = as_config(manifest.config)
    except UnknownSetting as error:
        raise FormatMismatch(
            f"{where}: its settings are not those of this version of stratagraph ({error}); build the "
            "index again in another folder"
        ) from error
    except (TypeError, ValueError) as error:
        raise Damaged(f"{where}: its settings are not valid ({error})") from error
    return replace(recorded, limits=running.limits, max_failures=running.max_failures)


def continued(manifest: Manifest, change: Change) -> tuple[tuple[str, ...], Config]:
    """The methods and settings of a build over an index: those given come first, those it has stay.

    `resolve` and `date_key` are as given: names are resolved anew by each update anyway, and dates are read
    when a search needs them.
    """
    recorded = settings_of(manifest, change.config)
    extraction = replace(recorded.extraction, resolve=change.config.extraction.resolve)
    methods = tuple(dict.fromkeys([*change.methods, *manifest.methods]))
    added = {name: own for name, own in change.config.methods.items() if name not in manifest.methods}
    methods_settings = {**recorded.methods, **added}
    date_key = change.config.date_key
    return methods, replace(recorded, extraction=extraction, date_key=date_key, methods=methods_settings)


def require_methods(manifest: Manifest | None, change: Change) -> None:
    """Raise `MissingExtra` or `ValueError` if a method of the next generation cannot be built here.

    It may need a package that is not installed, or a function that was not registered.
    """
    if change.action == COMPACT:  # which groups nothing
        return
    methods = dict.fromkeys(change.methods, change.config)
    if manifest is not None and manifest.methods:
        recorded = settings_of(manifest, change.config)
        methods |= {name: recorded for name in manifest.methods if name not in methods}
    for name, config in methods.items():
        config.method(name).require()


def require_same_settings(
    models: Models, manifest: Manifest, path: Path, change: Change, *, shards: bool = False
) -> None:
    """Raise `SettingsConflict` if a build is given other settings than the index was built with.

    Only one index may change `resolve` and `date_key`, or be rebuilt; `shards` may not.
    """
    recorded, given = settings_of(manifest, change.config), change.config
    same_embedder = models.has_embedder_of(manifest)
    differences = []
    if not same_embedder:
        other = models.embedder_name(manifest.dimension)
        differences.append(f"embedder is {manifest.embedder!r}, {models.said_of_embedder} is {other!r}")
    methods = {*manifest.methods} & {*given.methods, *change.methods}
    old, new = (
        replace(each, methods={name: each.method(name) for name in methods}).to_dict()
        for each in (recorded, given)
    )
    if not shards:
        new["extraction"]["resolve"] = old["extraction"]["resolve"]
        new["date_key"] = old["date_key"]
    for name in ("chunking", "extraction", "tokenizer", "prompts", "date_key"):
        differences += _differing(name, old[name], new[name])
    for name in methods:
        differences += _differing(name, old["methods"][name], new["methods"][name])
    if differences:
        otherwise = "build anew with rebuild=True, for which estimate() tells the cost"
        otherwise = "build in another folder" if shards else otherwise
        kind = SettingsConflict if same_embedder else EmbedderMismatch
        raise kind(
            f"{str(path)!r} holds an index with other settings: {'; '.join(differences)}. Build with the "
            f"settings of the index (config=None keeps them), or {otherwise}",
            tuple(differences),
        )


def _differing(name: str, recorded: Any, given: Any) -> Iterator[str]:
    """The settings below `name` that differ, with both values."""
    if isinstance(recorded, Mapping) and isinstance(given, Mapping):
        for key in {**recorded, **given}:
            yield from _differing(f"{name}.{key}", recorded.get(key), given.get(key))
    elif recorded != given:
        yield f"{name} is {_short(recorded)}, not {_short(given)} as given"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SETTING else f"{text[: _SETTING - 3]}..."

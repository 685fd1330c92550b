"""An index behind a URL, fetched to a local folder.

This is an index folder whose generations come from the URL. The file `url` names the URL, and makes the
folder read-only for everyone else.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Self

from stratagraph.errors import Damaged, NotAnIndex, StoreError
from stratagraph.store.checksums import Check, as_check, problem
from stratagraph.store.copying import take_over
from stratagraph.store.folder import DEFAULT_CHECK, TEMPORARY, IndexFolder
from stratagraph.store.layout import SOURCE_URL, Layout, made_layout
from stratagraph.store.lock import TemporaryFolder, WriterLock
from stratagraph.store.manifest import Manifest
from stratagraph.store.remote import Remote

_RACES = 20  # how often a writer may replace the generation that is being fetched
_WAIT = 600.0  # seconds that another process may take to fetch into the same folder


class CachedFolder(IndexFolder):
    """The local copy of an index behind a URL; made by `at`."""

    def __init__(
        self, remote: Remote, layout: Layout, *, temporary: TemporaryFolder | None, check: Check
    ) -> None:
        super().__init__(layout, temporary=temporary, check=check)
        self._remote = remote
        self.url = remote.url

    @classmethod
    def at(cls, url: str, cache_dir: Path | None, check: Check = DEFAULT_CHECK) -> Self:
        """Fetch the generation published at a URL, unless it is there, and open it.

        `cache_dir` is a folder for the copies of any number of URLs; None makes a private temporary one.
        `NotAnIndex`, `FormatMismatch` or `Damaged` if the URL holds no sound index of this format,
        `RemoteError` if the storage refuses or does not answer.
        """
        as_check(check)
        remote = Remote.at(url)
        remote.current()  # before a folder is made for it
        name = hashlib.sha256(url.rstrip("/").encode("utf-8", "surrogatepass")).hexdigest()[:16]
        temporary, path = None, cache_dir and cache_dir / name
        if path is None:
            temporary = TemporaryFolder(TEMPORARY)
            path = temporary.path / "index"
        folder = cls(remote, made_layout(path), temporary=temporary, check=check)
        try:
            folder.refresh()
        except BaseException:
            folder.close()
            raise
        return folder._opened()

    def refresh(self) -> None:
        """Fetch the generation that is published now, unless it is there.

        `Damaged` if the download is not what was written (the earlier copy stays), `RemoteError` if the
        storage refuses or does not answer.
        """
        self._require_open()
        for _ in range(_RACES):
            number = self._remote.current()
            try:
                manifest = self._remote.manifest(number)
                if not self._holds(manifest):
                    with WriterLock(self._layout.root, "fetch", patience=_WAIT):
                        if not self._holds(manifest):  # else another process has fetched it meanwhile
                            self._fetch(manifest)
                return
            except (FileNotFoundError, Damaged) as error:
                if self._remote.current() == number:
                    missing = "" if isinstance(error, Damaged) else " is missing"
                    raise Damaged(f"{self.url}: {error}{missing}; copy the index there again") from error
        raise StoreError(f"{self.url}: generations are replaced faster than they can be fetched")

    def publish_to(self, url: str) -> None:
        """Copy to another URL; nothing happens if it is this index's own."""
        if Remote.at(url).url != self.url:
            super().publish_to(url)

    def _holds(self, manifest: Manifest) -> bool:
        """Whether the folder has this generation, and its files pass the check."""
        number = self._layout.current()
        if number == 0 or not self._layout.root.holds_file(SOURCE_URL):
            return False
        try:
            with self._layout.generation(number) as directory:
                own = Manifest.read(directory, number)
                if replace(own, generation=manifest.generation).to_json() != manifest.to_json():
                    return False
                for name, entry in own.files.items():
                    with directory.reader(name) as opened:
                        if problem(opened.fileno(), entry, self._check):
                            return False
        except (FileNotFoundError, Damaged):
            return False
        return True

    def _fetch(self, manifest: Manifest) -> None:
        self._layout.sweep()
        if not self._layout.root.holds_file(SOURCE_URL):
            if self._layout.current():
                raise NotAnIndex(f"{self.path} holds an index, not a cache; give another cache_dir")
            self._layout.root.write(SOURCE_URL, f"{self.url}\n".encode())
        take_over(self._layout, manifest, self._remote.files(manifest))
        self._layout.sweep()

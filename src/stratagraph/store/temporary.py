"""Temporary folders with texts, which do not outlast the process that made them, even if it is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from stratagraph.errors import StratagraphError
from stratagraph.store.files import Directory
from stratagraph.store.lock import WriterLock

_ATTEMPTS = 20


class TemporaryFolder:
    """A new temporary folder. This process holds its lock until it is closed.

    Folders of the same prefix and user that nobody holds the lock of, since their process died, are removed.
    """

    def __init__(self, prefix: str) -> None:
        self.owner = os.getpid()
        for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            self._remove_if_left(old)
        for attempt in range(1, _ATTEMPTS + 1):
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            try:
                self._directory = Directory.open(self.path)
                self._lock = WriterLock(self._directory, None).__enter__()
                return
            except (OSError, StratagraphError):  # taken for one that was left, before the lock was held
                if attempt == _ATTEMPTS:
                    raise

    @staticmethod
    def _remove_if_left(path: Path) -> None:
        try:
            if path.is_symlink() or (hasattr(os, "getuid") and path.stat().st_uid != os.getuid()):
                return  # another user may have put anything there
            with Directory.open(path) as folder, WriterLock(folder, None, patience=0):
                shutil.rmtree(path, ignore_errors=True)
        except (OSError, StratagraphError):
            return

    def close(self) -> None:
        """Remove the folder; a forked child leaves it to its parent."""
        if self.owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.__exit__(None, None, None)
            self._directory.close()

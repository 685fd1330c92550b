"""Reads files in a process that ends when one of them needs too much time or memory.

Parsers of other authors, such as PDFium, cannot be stopped from inside of a process, and may end it. So a
process of its own reads files one after another, and is replaced after a failure. For each file it gets a
line of JSON and answers with others: documents, messages, and an end. It imports readers and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratagraph.ingest.files.contents import FileContents
    from stratagraph.ingest.files.walk import FoundFile
    from stratagraph.types.records import Document, StreamedDocument

MEMORY = 500 * 2**20
"""Bytes that the process may take beyond those that it starts with (Linux)."""
CPU_SECONDS = 10
"""CPU seconds to read a file (not on Windows); each MB adds one."""
_WALL = 10  # seconds on the clock for each CPU second, since a process may wait for a busy machine
_START = (
    "import sys; sys.path.append(sys.argv[1]); from stratagraph.ingest.bounded_reading import main; main()"
)
_LAST_WORDS = 5  # seconds for which a process is waited for that has closed its output
_OUTPUT = 128 * 2**20  # bytes that the documents of a file may have as JSON


class BoundedReader:
    """Reads files in another process, which starts with the first file. To be closed."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._faults = tempfile.TemporaryFile()  # noqa: SIM115

    def __enter__(self) -> BoundedReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()
        self._faults.close()

    def _end(self, *, alive: bool = True) -> int:
        """End the process; returns its exit code. It has ended by itself unless it is `alive`."""
        if self._child is None:
            return 0
        child, self._child = self._child, None
        with suppress(subprocess.TimeoutExpired):  # one that ended by itself tells how
            child.wait(0 if alive else _LAST_WORDS)
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return child.wait()

    def _begin(self) -> subprocess.Popen[bytes]:
        """The process. The current folder is not on its path, and nothing in it is run."""
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(Path(__file__).resolve().parents[2])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._faults,
                env={**os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"},
            )
        return self._child

    def read(
        self, file: FoundFile, contents: FileContents, encoding: str | None
    ) -> Iterator[Document | StreamedDocument]:
        """The documents of a file.

        `Unreadable` if reading it takes more time or memory than is allowed, or ends the process.
        """
        from stratagraph.ingest.files.reading import Unreadable

        seconds = CPU_SECONDS + file.size // 10**6
        child, late, complete = self._begin(), threading.Event(), False
        assert child.stdin is not None
        assert child.stdout is not None

        def end_late() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(seconds * _WALL, end_late)
        timer.daemon = True
        timer.start()
        room, line = _OUTPUT, b"-"
        try:
            asked = [str(file.path), file.name, file.root, file.size, file.named, encoding, seconds]
            with suppress(OSError):  # of a process that has ended, whose answer is empty
                child.stdin.write(json.dumps(asked).encode() + b"\n")
                child.stdin.flush()
            while (line := child.stdout.readline(room + 1)).endswith(b"\n"):
                room -= len(line)
                answer: dict[str, Any] = json.loads(line)
                if "document" in answer:
                    yield _document(file, answer["document"])
                    continue
                contents.skipped += map(tuple, answer["skipped"])
                contents.warned += map(tuple, answer["warned"])
                contents.binary = answer["binary"]
                complete = not answer["ends"]
                return
            if len(line) > room:
                raise Unreadable(f"its documents take more than {_OUTPUT // 2**20} MB")
        finally:
            timer.cancel()
            if not complete:
                code = self._end(alive=bool(line))
        if late.is_set():
            raise Unreadable(f"reading it took more than {seconds * _WALL} s, and was ended")
        if code == -getattr(signal, "SIGXCPU", 0):
            raise Unreadable(f"reading it took more than {seconds} s of CPU, and was ended")
        if code < 0:
            ended = f"was ended by {signal.Signals(-code).name}, as when a parser fails or memory ends"
            raise Unreadable(f"the process that read it {ended}")
        self._faults.seek(0, os.SEEK_END)
        self._faults.seek(max(0, self._faults.tell() - 1000))
        last = self._faults.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Unreadable(f"the process that read it ended with code {code}{f' ({last})' if last else ''}")


def _document(file: FoundFile, answer: dict[str, Any]) -> Document | StreamedDocument:
    from stratagraph.ingest.files.kinds import text_blocks
    from stratagraph.types.records import Document, Section, StreamedDocument

    if "encoding" in answer:
        read = partial(text_blocks, file.path, answer["encoding"])
        return StreamedDocument(answer["id"], read, answer["metadata"])
    sections = tuple(Section(start, metadata) for start, metadata in answer["sections"])
    return Document(answer["id"], answer["text"], answer["metadata"], sections)


def _limit(seconds: int | None = None) -> None:
    """Limit the CPU time of this process from now on, else its memory, where the operating system can."""
    if sys.platform == "win32":
        return
    import resource

    if seconds is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        addresses = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))


def main() -> None:
    """Read the files that the standard input names."""
    _limit()
    from stratagraph.ingest.files.contents import FileContents, documents_in, guarded
    from stratagraph.ingest.files.walk import FoundFile
    from stratagraph.types.records import StreamedDocument

    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogatepass")
    os.dup2(2, 1)  # what parsers print is no answer

    def say(**fields: Any) -> None:
        out.write(json.dumps(fields, default=str) + "\n")

    for line in sys.stdin.buffer:
        path, name, root, size, named, encoding, seconds = json.loads(line)
        _limit(seconds)
        file, contents, ends = FoundFile(Path(path), name, root, size, named), FileContents(), False
        try:
            for document in guarded(file, contents, documents_in(file, contents, encoding)):
                own = {"id": document.id, "metadata": dict(document.metadata)}
                if isinstance(document, StreamedDocument):
                    say(document={**own, "encoding": document.read.args[1]})  # type: ignore[attr-defined]
                else:
                    sections = [[each.start, dict(each.metadata)] for each in document.sections]
                    say(document={**own, "text": document.text, "sections": sections})
        except MemoryError:
            ends = True
        if ends:
            contents.skip(name, f"reading it needs more than {MEMORY // 2**20} MB of memory, and was ended")
        say(skipped=contents.skipped, warned=contents.warned, binary=contents.binary, ends=ends)
        out.flush()

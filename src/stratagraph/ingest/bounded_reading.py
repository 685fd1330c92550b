"""Reads one file in a process that ends when it needs too much time or memory.

`python -m stratagraph.ingest.bounded_reading FOLDER FILE NAME CPU_SECONDS` prints JSON lines: documents,
skipped files, warnings, and an error. A text above `STREAMED_ABOVE` goes to a file in FOLDER. It imports the
loaders and nothing else, since each upload starts it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from stratagraph.ingest.loaders import read_documents
from stratagraph.types.records import StreamedDocument

MEMORY = 500 * 2**20
"""Bytes that the process may take beyond those that it starts with (Linux)."""


def _limit(seconds: int) -> None:
    """Set the limits of this process, where the operating system has them."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    most = max(seconds, int(used.ru_utime + used.ru_stime) + 2)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        addresses = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))


def main(folder: Path, path: Path, name: str, seconds: int) -> None:
    """Read a file and print its documents."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    own = path.as_posix()

    def say(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")

    def named(text: str) -> str:
        return text.replace(own, name)

    _limit(seconds)
    try:
        documents = read_documents(
            path,
            on_skip=lambda which, why: say(kind="skipped", name=named(which), reason=why),
            on_warning=lambda which, why: say(kind="warnings", name=named(which), reason=why),
        )
        for number, document in enumerate(documents):
            source = document.metadata.get("source")
            renamed = {"source": named(source)} if isinstance(source, str) else {}
            given = {"id": named(document.id), "metadata": {**document.metadata, **renamed}}
            if isinstance(document, StreamedDocument):
                text = folder / f"text-{number}"
                with text.open("w", encoding="utf-8", newline="") as file:
                    file.writelines(document.blocks())
                say(document={**given, "file": text.name})
            else:
                sections = [[each.start, dict(each.metadata)] for each in document.sections]
                say(document={**given, "text": document.text, "sections": sections})
        say(done=bool(documents.files))
    except MemoryError:
        documents = None  # frees what was read, so that the error can be said
        say(error=f"{name}: reading it needs more than {MEMORY // 2**20} MB of memory, and was ended")
    except ValueError as error:
        say(error=named(str(error)))
    out.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))

"""Take the screenshots of the documentation: the demo's index in `stratagraph serve`, in a real Chromium.

    python .ci/screenshots.py

They go to `docs/images`. Look at each before it is committed.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stratagraph as sg
from stratagraph import demo

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.viz.browser import Browser, Page, program, running  # noqa: E402

IMAGES = ROOT / "docs/images"
METHODS = ["hirag", "archrag", "noderag", "lshtree"]
QUESTION = "Who commanded the ferry that ran aground on the Anvil?"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of an index."""
    command = [sys.executable, "-c", "from stratagraph.cli.main import main; main()", "serve", str(folder)]
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("page: ").strip()
    finally:
        process.terminate()
        process.wait()


def wait(page: Page, expression: str) -> None:
    """Wait until something is true on a page."""
    until = time.monotonic() + 60
    while not page.run(expression):
        assert time.monotonic() < until, expression
        time.sleep(0.05)


def ask(page: Page) -> None:
    """Ask the question and wait for the graph to come to rest."""
    wait(page, "!!document.querySelector('#question')")
    page.run(f"document.querySelector('#question').value = {json.dumps(QUESTION)}")
    page.run("document.querySelector('form.question').requestSubmit()")
    wait(page, "!!document.querySelector('.graph svg') && !document.querySelector('.answer[aria-busy]')")
    time.sleep(4)


def shoot(browser: Browser, name: str) -> None:
    """Keep what the page shows."""
    data = browser.call("Page.captureScreenshot", format="png")["data"]
    (IMAGES / f"{name}.png").write_bytes(base64.b64decode(data))
    print(IMAGES / f"{name}.png")


def view(browser: Browser, address: str, name: str, *, dark: bool = False) -> Page:
    """A view of the page, freshly opened."""
    page = browser.open(f"{address}#{name}", dark=dark, width=1280, height=800)
    wait(page, "document.querySelector('#facts').textContent.includes('document')")
    return page


def main() -> None:
    """Build the index, and take all of them."""
    path = program()
    assert path is not None, "no chromium is installed"
    with tempfile.TemporaryDirectory() as folder, running(path) as browser:
        index = Path(folder) / "islands"
        sg.build_index(demo.documents(), METHODS, index, progress=False).close()
        with served(index) as address:
            for name, dark in (("serve-ask", False), ("serve-dark", True)):
                ask(view(browser, address, "ask", dark=dark))
                shoot(browser, name)
            page = view(browser, address, "ask")
            ask(page)
            page.click("button.cite")
            wait(page, "!!document.querySelector('.reader .cited')")
            time.sleep(0.5)
            shoot(browser, "serve-read")
            page = view(browser, address, "browse")
            for depth in range(3):
                column = f"document.querySelectorAll('.column')[{depth}]?.querySelector('li')"
                wait(page, f"!!{column}")
                page.run(f"{column}.click()")
            time.sleep(0.5)
            shoot(browser, "serve-browse")
            page = view(browser, address, "documents")
            time.sleep(1)
            shoot(browser, "serve-documents")
        with sg.open_index(index) as opened:
            for name, picture in (
                ("show-hierarchy", opened.show()),
                ("show-question", opened.retrieve(QUESTION).show()),
            ):
                browser.open(picture.save(Path(folder) / f"{name}.html"), width=1280, height=800)
                time.sleep(4)
                shoot(browser, name)


if __name__ == "__main__":
    main()

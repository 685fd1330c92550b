"""A real browser, driven by its DevTools protocol over a pipe; nothing but the browser is needed.

Every request and every message of a page is kept, so that a test can say that there was none.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds for one answer


def program() -> str | None:
    """A browser's path, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A headless browser with one page at a time."""

    def __init__(self, path: str, profile: str) -> None:
        (theirs_in, self._write), (self._read, theirs_out) = os.pipe(), os.pipe()
        # The browser reads commands from descriptor 3 and writes to 4.
        command = 'exec 3<&$1 4>&$2; shift 2; exec "$@"'
        self._process = subprocess.Popen(
            [
                *("bash", "-c", command, "bash", str(theirs_in), str(theirs_out), path),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
                *("--disable-sync", "--remote-debugging-pipe", f"--user-data-dir={profile}"),
                *("--window-size=1100,640", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _next(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {seconds} s")
            piece = os.read(self._read, 2**20)
            if not piece:
                raise RuntimeError(f"the browser ended with {self._process.wait()}")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def wait_for(self, event: str) -> None:
        """Wait until an event has come."""
        while not any(each.get("method") == event for each in self.events):
            self.events.append(self._next(PATIENCE))

    def open(self, page: Path | str, *, dark: bool = False, width: int = 1100, height: int = 640) -> Page:
        """Open a file or an address in a new page and wait until it is loaded."""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self.wait_for("Page.loadEventFired")
        return Page(self)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)


class Page:
    """The page that the browser shows."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._browser.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """The text that a person sees in the first element that a selector finds."""
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector: str, number: int = 0) -> None:
        """Scroll to an element and click in its middle, as a person does."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{number}]"
        self.run(f"{found}.scrollIntoView({{block: 'nearest'}})")
        box = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({found}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self._browser.call(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1
            )

    def picture(self, path: Path) -> None:
        """Save a screenshot."""
        data = self._browser.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, its own file and data in it apart."""
        self.run("0")
        asked = [
            each["params"]["request"]["url"]
            for each in self._browser.events
            if each.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in asked[1:] if not url.startswith("data:")]

    @property
    def complaints(self) -> list[str]:
        """Errors, exceptions and whatever the page wrote to the console."""
        self.run("0")
        names = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(each) for each in self._browser.events if each.get("method") in names]


@contextmanager
def running(path: str) -> Iterator[Browser]:
    """A browser for the length of a block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(path, profile)
        try:
            yield browser
        finally:
            browser.close()

"""The page in a real browser: what a person sees, by mouse and by keys, whatever is in the documents."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.server.conftest import EVIL, serving
from tests.viz.browser import Browser, Page

pytest.importorskip("fastapi")
SERVE = [sys.executable, "-c", "from stratagraph.cli.main import main; main()", "serve"]
QUESTION = "Who steered the ferry from Ostra to Bremen?"


@pytest.fixture(scope="module")
def address(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose documents no test changes."""
    yield from served(Path(shutil.copytree(built, tmp_path_factory.mktemp("page") / "idx")))


@pytest.fixture
def changing(folder: Path) -> Iterator[str]:
    """A server whose documents a test changes."""
    yield from served(folder)


def served(folder: Path) -> Iterator[str]:
    with serving([*SERVE, str(folder), "--embedder", "hashing", "--port", "0"], "page: ") as address:
        yield address


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_the_server_ends_by_ctrl_c_without_complaint(folder: Path) -> None:
    command = [*SERVE, str(folder), "--embedder", "hashing", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("page: ")
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)
    assert (process.returncode, said[1]) == (0, "")


def wait(page: Page, expression: str, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not page.run(expression):
        assert time.monotonic() < until, (expression, page.complaints)
        time.sleep(0.02)


def wait_for_documents(address: str, count: int) -> None:
    """Wait until the server, which looks for changes once a second, has so many documents."""
    until = time.monotonic() + 60
    while json.load(urlopen(f"{address}api/index", timeout=60))["documents"] != count:
        assert time.monotonic() < until
        time.sleep(0.1)


def press(browser: Browser, key: str) -> None:
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))


def ask(page: Page, question: str) -> None:
    wait(page, "!!document.querySelector('#question')")
    page.run(f"document.querySelector('#question').value = {json.dumps(question)}")
    page.run("document.querySelector('form.question').requestSubmit()")
    wait(page, "!!document.querySelector('.graph svg') && !document.querySelector('.answer[aria-busy]')")


def assert_quiet(page: Page, address: str) -> None:
    """Nothing was complained about, nothing asked for elsewhere, and no text became markup."""
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(address)] == []
    assert page.run("document.title") == "idx · stratagraph"
    assert page.run("document.querySelectorAll('main script, main img, aside img').length") == 0


def test_a_question_is_answered_with_its_sources(browser: Browser, address: str) -> None:
    page = browser.open(address)
    ask(page, QUESTION)
    assert "Mara Quill steered the ferry" in page.text(".answer")
    assert "no model wrote an answer" in page.text(".answer")
    marked = page.run("[...document.querySelectorAll('.quote mark')].map(e => e.textContent.toLowerCase())")
    assert {"steered", "ferry", "ostra", "bremen"} == set(marked)
    assert "has its words" in page.text(".hit .why")
    assert page.run("document.querySelectorAll('.graph g.hit').length") > 0
    page.click("button.cite")
    wait(page, "!!document.querySelector('.reader .cited')")
    assert "Mara Quill steered the ferry" in page.text(".reader .cited")
    assert "year" in page.text(".reader .metadata")
    press(browser, "Escape")
    assert page.run("document.querySelector('#reader').hidden")
    page.click(".graph g.node.hit circle")
    assert page.run("document.activeElement.className").startswith("hit")
    assert_quiet(page, address)


def test_a_conversation_is_kept_until_a_new_one_begins(browser: Browser, address: str) -> None:
    page = browser.open(address)
    ask(page, QUESTION)
    ask(page, "When was it?")
    assert QUESTION in page.text(".thread")
    assert "Searched for: When was it? (Mara Quill" in page.text(".told")
    page.click(".thread > button")
    assert page.run("document.querySelector('.thread').children.length") == 0
    ask(page, "When was it?")
    assert page.run("document.querySelector('.told').children.length") == 0
    assert_quiet(page, address)


def test_markdown_is_shown_as_it_is_meant_and_the_quoted_sentence_is_marked(
    browser: Browser, changing: str
) -> None:
    text = (
        "# Rules of the Lamp\n\n- Trim the **great wick** at dusk.\n- Oil comes from Hull.\n\n"
        "The warden of Skerry rings `bell two` when\nthe fog comes in.\n\n```\nring --twice <now>\n```\n"
    )
    request = Request(f"{changing}api/files/rules.md", text.encode(), method="PUT")
    with urlopen(request, timeout=60) as reply:
        job = json.load(reply)["id"]
    until = time.monotonic() + 60
    while json.load(urlopen(f"{changing}api/jobs/{job}", timeout=60))["state"] != "done":
        assert time.monotonic() < until
        time.sleep(0.1)
    wait_for_documents(changing, 6)
    page = browser.open(changing)
    ask(page, "When does the warden of Skerry ring the bell?")
    assert page.text(".hit .text strong") == "great wick"
    assert page.text(".hit .text pre") == "ring --twice <now>"
    assert "#" not in page.text(".hit .text")
    page.run(
        "[...document.querySelectorAll('.quote')]"
        ".find(e => e.textContent.includes('fog')).querySelector('button.cite').click()"
    )
    wait(page, "!!document.querySelector('.reader mark')")
    marked = page.run("[...document.querySelectorAll('.reader mark')].map(e => e.textContent).join('')")
    assert "fog comes in" in marked
    assert "Hull" not in marked
    assert_quiet(page, changing)


def test_kinds_of_hits_are_filtered(browser: Browser, address: str) -> None:
    page = browser.open(address)
    wait(page, "document.querySelector('select').options.length == 3")  # and the walk
    page.run("document.querySelector('select').value = 'hirag'")
    ask(page, QUESTION)
    chips = page.run("[...document.querySelectorAll('.kinds .chip')].map(e => e.textContent)")
    assert len(chips) > 2
    page.click(".kinds .chip", 2)
    shown = "[...document.querySelectorAll('.hit:not([hidden]) .tag')].map(e => e.textContent)"
    assert {chips[2].rpartition(" ")[0]} == set(page.run(shown))


def test_markup_in_documents_is_text(browser: Browser, address: str) -> None:
    page = browser.open(address)
    ask(page, "What did Ostra say to Mara Quill?")
    assert EVIL[:40] in page.run("document.querySelector('.hits').textContent")
    page.run("location.hash = 'documents'")
    wait(page, "document.querySelectorAll('.documents li').length == 5")
    assert "<b>evil</b>.txt" in page.text(".documents")
    page.click(".documents button.link")
    wait(page, "!!document.querySelector('.reader .text')")
    assert EVIL[:40] in page.text(".reader")
    assert "<i>key</i>" in page.text(".reader .metadata")
    assert_quiet(page, address)


def test_separators_of_lines_in_a_text_are_no_end_of_an_event(browser: Browser, changing: str) -> None:
    body = json.dumps([{"id": "u", "text": "Ida Fenn painted\u2028the lighthouse\u2029of Skerry."}])
    head = {"content-type": "application/json"}
    urlopen(Request(f"{changing}api/documents", body.encode(), head), timeout=60).read()
    wait_for_documents(changing, 6)
    page = browser.open(changing)
    ask(page, "Who painted the lighthouse of Skerry?")
    assert "Ida Fenn" in page.text(".hit .text")
    page.run("location.hash = 'constructor'")
    wait(page, "!document.querySelector('#view-ask').hidden")
    assert page.complaints == []


def test_text_runs_in_its_own_direction(browser: Browser, address: str) -> None:
    page = browser.open(address)
    ask(page, "مارا تقود القارب")
    found = "[...document.querySelectorAll('.hit .text p')].find(e => e.textContent.includes('القارب'))"
    assert page.run(f"getComputedStyle({found}).direction") == "rtl"
    assert page.run("getComputedStyle(document.querySelector('.why')).direction") == "ltr"
    assert_quiet(page, address)


def test_the_hierarchy_is_walked_by_keys(browser: Browser, address: str) -> None:
    page = browser.open(address)
    wait(page, "!!document.querySelector('#facts b')")
    page.run("document.activeElement.blur()")
    press(browser, "2")
    wait(page, "document.querySelectorAll('.column li').length > 0")
    page.run("document.activeElement.blur()")
    press(browser, "j")
    press(browser, "Enter")
    wait(page, "document.querySelectorAll('.column:nth-child(2) li').length > 0")
    press(browser, "ArrowRight")
    assert page.run("!!document.activeElement.closest('.column:nth-child(2)')")
    press(browser, "Enter")
    assert page.text(".split .detail h2")
    press(browser, "ArrowLeft")
    assert page.run("!!document.activeElement.closest('.column:nth-child(1)')")
    press(browser, "?")
    assert page.run("document.querySelector('#keys').open")
    assert_quiet(page, address)


def test_documents_are_added_and_deleted(browser: Browser, changing: str) -> None:
    page = browser.open(changing + "#documents")
    wait(page, "document.querySelectorAll('.documents li').length == 5")
    page.run(
        """(() => { const files = new DataTransfer();
        files.items.add(new File(['Ida Fenn painted the lighthouse.'], 'new & <b>.txt'));
        const drop = new DragEvent('drop', { dataTransfer: files });
        document.querySelector('.drop').dispatchEvent(drop); })()"""
    )
    wait(page, "document.querySelectorAll('.documents li').length == 6")
    assert "done in" in page.text(".job")
    assert "new & <b>.txt" in page.text(".documents")
    page.run("window.confirm = () => true")
    at = page.run(
        "[...document.querySelectorAll('.documents li')].findIndex(e => e.textContent.includes('new &'))"
    )
    page.click(".documents .danger", at)
    wait(page, "document.querySelectorAll('.documents li').length == 5")
    page.run("location.hash = 'costs'")
    wait(page, "document.querySelectorAll('#view-costs tbody tr').length > 1")
    assert "insert" in page.text("#view-costs table")
    assert_quiet(page, changing)


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(browser: Browser, address: str, dark: bool) -> None:
    """WCAG contrast of at least 4.5 for what is read."""
    from tests.viz.test_pages import contrast

    page = browser.open(address, dark=dark)
    ask(page, QUESTION)
    pairs = page.run(
        """['.answer .text', 'button.cite', '.hit .text', '.why li', '.tag', '.cost', 'nav a',
            '.hit button.quiet', '.facts', 'button.primary', '.legend'].map(s => {
            let e = document.querySelector(s), ink = getComputedStyle(e).color, ground = 'rgba(0, 0, 0, 0)';
            for (; e && /, 0\\)$|color\\(/.test(ground); e = e.parentElement)
                ground = getComputedStyle(e).backgroundColor;
            return [s, ink, ground].map((c, i) => i ? c.match(/[0-9.]+/g).slice(0, 3).map(Number) : c) })"""
    )
    weak = {name: contrast(ink, ground) for name, ink, ground in pairs if contrast(ink, ground) < 4.5}
    assert not weak
    assert (sum(pairs[0][2]) < 200) == dark


def test_a_token_is_asked_for_and_kept(browser: Browser, folder: Path) -> None:
    command = [*SERVE, str(folder), "--embedder", "hashing", "--port", "0"]
    with serving([*command, "--token", "a-token-of-some-length"], "page: ") as shown:
        address, _, token = shown.partition("#token=")
        assert token == "a-token-of-some-length"
        page = browser.open(address)
        wait(page, "document.querySelector('#login').open")
        page.run(f"document.querySelector('#login input').value = '{token}'")
        page.run("document.querySelector('#login form').requestSubmit()")
        wait(page, "!!document.querySelector('#facts b')")
        page = browser.open(shown)
        wait(page, "!!document.querySelector('#facts b')")
        assert "token" not in page.run("location.href")

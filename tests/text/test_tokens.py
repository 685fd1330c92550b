from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings

import pytest

from stratagraph.text import tokens
from stratagraph.text.tokens import Estimate, choose


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)  # as without llama-index-core
    return tmp_path


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a vocabulary was about to be downloaded")

    monkeypatch.setattr("tiktoken.load.read_file", refuse)


def vocabulary_file(folder, name):
    return folder / hashlib.sha1(tokens._URL.format(name=name).encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("   \t ", 0),
        ("ferry", 1),
        ("The ferry is late.", 5),
        ("lighthousekeeper", 3),
        ("1871", 2),
        ("渡船晚了", 4),
        ("🙂🙂", 2),
        ("one\n\n  two", 3),
        ("snake_case", 3),
    ],
)
def test_the_estimate_counts_by_its_documented_rule(text, count):
    assert Estimate()(text) == count


def test_the_estimate_adds_up_over_words():
    text = "In the year 1871 the ferry Plover, 40 feet long, was late; nobody minded."
    assert Estimate()(text) == sum(Estimate()(word) for word in text.split())


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("switched_off", [False, True])
def test_without_a_vocabulary_tokens_are_estimated_silently(empty_cache, monkeypatch, switched_off):
    if switched_off:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose().name == "estimate-1"
        assert choose("estimate-1") == Estimate()


@pytest.mark.usefixtures("no_network", "empty_cache")
@pytest.mark.parametrize("name", ["cl100k_base", "a-tokenizer-of-the-future"])
def test_a_recorded_counter_that_is_not_here_is_replaced_with_one_warning(name):
    with pytest.warns(UserWarning, match=name) as seen:
        assert choose(name).name == "estimate-1"
    assert len(seen) == 1


@pytest.mark.usefixtures("no_network")
def test_an_altered_vocabulary_is_neither_used_nor_replaced(empty_cache):
    file = vocabulary_file(empty_cache, "cl100k_base")
    file.write_bytes(b"IQ== 0\n")
    assert choose().name == "estimate-1"
    assert file.read_bytes() == b"IQ== 0\n"


def test_the_vocabulary_of_llama_index_is_used_without_importing_it(tmp_path):
    pytest.importorskip("llama_index.core")
    script = (
        "import os, sys, tiktoken.load\n"
        "from stratagraph.text.tokens import choose\n"
        "tiktoken.load.read_file = None\n"
        "print(choose().name, choose('cl100k_base')('tiktoken is great!'))\n"
        "print(os.environ['TIKTOKEN_CACHE_DIR'])\n"
        "assert not [each for each in sys.modules if each.startswith('llama_index')]\n"
    )
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["o200k_base", "6", str(tmp_path)], done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_network", "empty_cache")
def test_a_cached_vocabulary_is_used(monkeypatch):
    cache = pytest.importorskip("llama_index.core").__path__[0] + "/_static/tiktoken_cache"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", cache)
    counter = choose("cl100k_base")
    assert counter.name == "cl100k_base"
    assert counter("tiktoken is great!") == 6
    assert counter("<|endoftext|>") > 1
    assert counter("ha" * 100_000) >= counter("ha" * 50_000) * 2 - 1
    prose = "The ferry left the harbour at seven, two hours late, and nobody on the quay complained. " * 9
    assert Estimate()(prose) == pytest.approx(counter(prose), rel=0.15)

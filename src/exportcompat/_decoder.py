"""The interface of an exported decoder: names, axes, and one way to call eager models and ONNX files alike.

The names are those that optimum's ORTModelForCausalLM, onnxruntime-genai and transformers.js read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError

from ._extras import require

PAST = "past_key_values.{}.{}"
PRESENT = "present.{}.{}"
_LEAVES = ("key", "value")

TOKEN_AXES = {0: "batch", 1: "sequence"}
MASK_AXES = {0: "batch", 1: "total_sequence"}
CACHE_AXES = {0: "batch", 2: "past_sequence"}


def cache_names(pattern: str, layers: int) -> list[str]:
    """Return the names of the keys and values of `layers` layers, in the order of the leaves."""
    return [pattern.format(index, leaf) for index in range(layers) for leaf in _LEAVES]


def input_names(layers: int) -> list[str]:
    """Return the input names of a decoder; pass 0 layers for a graph without a past."""
    return ["input_ids", "attention_mask", "position_ids", *cache_names(PAST, layers)]


def output_names(layers: int) -> list[str]:
    """Return the output names of a decoder."""
    return ["logits", *cache_names(PRESENT, layers)]


class OnnxDecoder:
    """An ONNX file with the interface of a decoder, run by ONNX Runtime on the CPU.

    Args:
        path: the file.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ExportCompatError: the file is missing, truncated or no model, or has not these inputs and outputs.
    """

    def __init__(self, path: Path) -> None:
        runtime = require("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # ONNX Runtime has an exception class for each of its status codes, and no common one.
            raise ExportCompatError(f"{path} is no ONNX model that ONNX Runtime can load: {error}") from error
        self._inputs = {item.name: item.shape for item in self._session.get_inputs()}
        self._outputs = [item.name for item in self._session.get_outputs()]
        if "input_ids" not in self._inputs or "logits" not in self._outputs:
            raise ExportCompatError(
                f"{path} has the inputs {list(self._inputs)} and the outputs {self._outputs}; a decoder has "
                "'input_ids' and 'logits': export it with input_names and output_names"
            )

    @property
    def takes_past(self) -> bool:
        """Say whether the graph takes keys and values."""
        return any(name.startswith("past_key_values.") for name in self._inputs)

    def empty_cache(self, batch: int) -> dict[str, Any]:
        """Return keys and values of length 0, `(batch, kv_heads, 0, head_dim)` each, float32."""
        numpy = require("numpy", "onnx")
        return {
            name: numpy.zeros((batch, shape[1], 0, shape[3]), numpy.float32)
            for name, shape in self._inputs.items()
            if name.startswith("past_key_values.")
        }

    def __call__(self, inputs: Mapping[str, Any], cache: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the logits and the cache to feed back, given int64 torch tensors and a cache."""
        feeds = {name: tensor.numpy() for name, tensor in inputs.items() if name in self._inputs}
        outputs = dict(zip(self._outputs, self._session.run(None, {**feeds, **cache}), strict=True))
        present = {name: value for name, value in outputs.items() if name.startswith("present.")}
        return outputs["logits"], {name.replace("present", "past_key_values", 1): present[name] for name in present}

"""The interface of an exported decoder: names, axes, and one way to call eager models and ONNX files alike.

The names are those that optimum's ORTModelForCausalLM, onnxruntime-genai and transformers.js read.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError

from ._contract import contract_of
from ._discrepancy import dtype_name
from ._onnx_file import Program, opened, placed

PAST_ARGUMENT = "past_key_values"
PAST = f"{PAST_ARGUMENT}.{{}}.{{}}"
PRESENT = "present.{}.{}"
LOGITS = "logits"
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
    return [LOGITS, *cache_names(PRESENT, layers)]


def present_name(past: str) -> str:
    """Return the name of the output that belongs to an input of the cache."""
    return past.replace(PAST_ARGUMENT, "present", 1)


class OnnxDecoder:
    """An ONNX file with the interface of a decoder, run by ONNX Runtime on the CPU, or another exporter's program.

    Args:
        file: the program, or the path of a file.
        outputs: the names of its outputs, where the file has others; None if it has the right ones.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ExportCompatError: the file is missing, truncated or no model, or has not these inputs and outputs.
    """

    def __init__(self, file: Path | Program, outputs: Sequence[str] | None = None) -> None:
        self._file = opened(file)
        past = [name for name in self._file.inputs if name.startswith(PAST_ARGUMENT)]
        self._past = {name: dotted(name) for name in past}
        self._tokens = [name for name in self._file.inputs if name not in self._past]
        names = self._file.outputs if outputs is None else outputs
        self._outputs = placed(self._file.outputs, names)
        if not {"input_ids", "inputs_embeds"} & set(self._tokens) or LOGITS not in self._outputs.values():
            raise ExportCompatError(
                f"{self._file.path} has the inputs {list(self._file.inputs)} and the outputs {self._file.outputs}; "
                "a decoder has 'input_ids' (or 'inputs_embeds') and 'logits': export it with input_names and "
                "output_names"
            )

    @property
    def takes_past(self) -> bool:
        """Say whether the graph takes keys and values."""
        return bool(self._past)

    @property
    def last_only(self) -> bool:
        """Say whether the logits are those of the last token alone."""
        return contract_of(self._file.metadata).last_logits

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are no cache."""
        return self._tokens

    def empty_cache(self, batch: int) -> dict[str, Any]:
        """Return keys and values of length 0, `(batch, kv_heads, 0, head_dim)` each, in the dtype of the file.

        A cache of fixed size is full of zeros.
        """
        torch = require("torch", "torch")
        return {
            known: torch.zeros(_empty(self._file.inputs[name], batch), dtype=self._file.dtype(name))
            for name, known in self._past.items()
        }

    def __call__(self, inputs: Mapping[str, Any], cache: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the logits and the cache to feed back, given torch tensors and a cache."""
        feeds = {name: inputs[name] for name in self._tokens if name in inputs}
        results = self._file.run({**feeds, **{name: cache[known] for name, known in self._past.items()}})
        outputs = {self._outputs[name]: value for name, value in results.items() if name in self._outputs}
        kept = {name: outputs[present_name(known)] for name, known in self._past.items()}
        for name, tensor in kept.items():
            if tensor.dtype != self._file.dtype(name):
                raise ExportCompatError(
                    f"output {present_name(self._past[name])!r} is {dtype_name(tensor.dtype)}, and a later call takes "
                    f"it as {dtype_name(self._file.dtype(name))}"
                )
        return outputs[LOGITS], {self._past[name]: tensor for name, tensor in kept.items()}


def dotted(name: str) -> str:
    """Return a cache's name with dots, as `past_key_values.0.key`, for one that torch or transformers has made up."""
    listed = re.fullmatch(rf"{PAST_ARGUMENT}[._](key|value)_cache[._](\d+)", name)
    if listed is not None:
        return PAST.format(listed[2], listed[1])
    found = re.fullmatch(rf"{PAST_ARGUMENT}[._](\d+)[._](\w+)", name)
    if found is None:
        return name
    leaf = dict(zip("01", _LEAVES, strict=True)).get(found[2], found[2])
    return PAST.format(found[1], leaf)


def _empty(shape: Sequence[Any], batch: int) -> list[int]:
    """Return a shape with the batch, and 0 for every other axis that has a name; one axis alone holds counters."""
    named = "batch" in shape or len(shape) == 1
    return [
        batch if size == "batch" or (axis == 0 and not named) else size if isinstance(size, int) else 0
        for axis, size in enumerate(shape)
    ]

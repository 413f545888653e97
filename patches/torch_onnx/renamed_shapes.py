"""Names of inputs are taken for keys of `dynamic_shapes` where there are as many of them as arguments.

Symptom: `KeyError: 'past_key_values.0.conv_state'`, for a model with as many inputs, of which two are for each layer of
the cache, as `forward` has arguments.
Cause: torch 2.6 lets `dynamic_shapes` have the names of inputs for keys, and looks at the number of names alone.
What is done: `dynamic_shapes` that do not have these names stay as they are.
Can go: with torch 2.6 (run on 2.6.0 and 2.8.0).
"""

from collections.abc import Callable, Sequence
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_rename_dynamic_shapes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_rename_dynamic_shapes_with_model_inputs` leave what does not have the names of the inputs."""

    def rename(model: Any, *, dynamic_shapes: Any, input_names: Sequence[str]) -> Any:
        if isinstance(dynamic_shapes, dict) and not dynamic_shapes.keys() >= set(input_names):
            return dynamic_shapes
        return original(model, dynamic_shapes=dynamic_shapes, input_names=input_names)

    return rename


SPECS = (
    PatchingSpec(
        id="torch-onnx-renamed-shapes",
        targets=("torch.onnx._internal.exporter._compat:_rename_dynamic_shapes_with_model_inputs",),
        replacement=f"{__name__}:patch_rename_dynamic_shapes",
        requires=("torch>=2.6,<2.7",),
        reason="dynamic_shapes are renamed where a model has as many inputs as forward has arguments: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.6.0/torch/onnx/_internal/exporter/_compat.py",),
        proofs=("nemotron_h",),
        kind="wrap",
    ),
)

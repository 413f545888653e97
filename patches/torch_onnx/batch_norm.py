"""The exporter takes batch normalization for an operator with three outputs.

Symptom: `'tuple' object has no attribute 'dtype'` for every model with batch normalization (MobileViT, RT-DETR).
Cause: `BatchNormalization` gets all outputs of its schema, and outside of training it has one.
What is done: it has one output, unless it is in training, as in torch 2.7.
Can go: with torch 2.6.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from exportcompat.registry import PatchingSpec


def with_one_output(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that makes a node, made to give one output to batch normalization outside of training."""

    def _construct_node(signature: Any, named_inputs: Any, named_attrs: Any, *args: Any, **kwargs: Any) -> Any:
        is_normalization = (signature.domain, signature.name) == ("", "BatchNormalization")
        if is_normalization and not named_attrs.get("training_mode"):
            signature = replace(signature, outputs=signature.outputs[:1])
        return original(signature, named_inputs, named_attrs, *args, **kwargs)

    return _construct_node


SPECS = (
    PatchingSpec(
        id="torch-onnx-batch-norm",
        targets=("torch.onnx._internal.exporter._building:_construct_node",),
        replacement=f"{__name__}:with_one_output",
        requires=("torch>=2.6,<2.7", "onnxscript>=0.1"),
        reason="Batch normalization gets the outputs that it has in training: no graph.",
        upstream=(
            "https://github.com/pytorch/pytorch/blob/v2.6.0/torch/onnx/_internal/exporter/_building.py",
            "https://github.com/pytorch/pytorch/blob/v2.7.0/torch/onnx/_internal/exporter/_building.py",
        ),
        proofs=("mobilevit",),
        kind="wrap",
    ),
)

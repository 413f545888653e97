"""MobileNetV1 and V2 pad by what the sample's height and width left over.

Symptom: `tf_padding` is right for heights and widths that leave the sample's remainders; off by 3.8 to 9 at others.
Cause: `if in_height % stride_height == 0` takes one of two lengths, and the one of the sample stays in the graph.
What is done: while it is traced, the length is computed: what the strides reach beyond the size.
Can go: when transformers computes it, or torch exports an `if` on sizes as one graph.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_apply_tf_padding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `apply_tf_padding` of `(batch, channels, height, width)` features, made to compute its lengths."""

    def apply_tf_padding(features: Any, conv_layer: Any) -> Any:
        import torch

        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(features):
            return original(features, conv_layer)
        padding: list[Any] = []
        for axis in (1, 0):
            length = _length(features.shape[axis - 2], conv_layer.kernel_size[axis], conv_layer.stride[axis])
            before, dilation = length // 2, conv_layer.dilation[axis]
            padding += [before * dilation, (length - before) * dilation]
        return torch.nn.functional.pad(features, padding, "constant", 0.0)

    return apply_tf_padding


def _length(size: Any, kernel: int, stride: int) -> Any:
    """Return the length of both paddings of an axis.

    It is written so that torch sees in the size of the result that of the strides, and no remainders of remainders.
    """
    import torch

    strides = (size - 1) // stride
    length = strides * stride + kernel - size
    return length if kernel >= stride else torch.sym_max(length, 0)


SPECS = (
    PatchingSpec(
        id="same-padding",
        targets=(
            "transformers.models.mobilenet_v1.modeling_mobilenet_v1:apply_tf_padding",
            "transformers.models.mobilenet_v2.modeling_mobilenet_v2:apply_tf_padding",
        ),
        replacement=f"{__name__}:patch_apply_tf_padding",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="The padding of the sample's height and width stays in the graph: wrong numbers at other sizes.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/mobilenet_v2/modeling_mobilenet_v2.py",
        ),
        proofs=("mobilenet_v1", "mobilenet_v2"),
        defect=(r"in_height % stride_height",),
        kind="wrap",
    ),
)

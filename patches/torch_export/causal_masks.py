"""`nn.TransformerEncoder` and `nn.TransformerDecoder` ask whether a mask is the causal one.

Symptom: `Could not guard on data-dependent expression Eq(u0, 1)` for each model of these that is given a mask.
Cause: the elements of the mask are compared with those of a causal one, for a kernel that needs no mask then. While a
graph is captured a mask has no elements.
What is done: while it is traced, a mask is used as it is, as by any other mask. Who says `is_causal` is not asked.
Can go: when `_detect_is_causal_mask` asks nothing while a graph is captured.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_detect_is_causal_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_detect_is_causal_mask` leave the elements of a mask alone while it is traced."""

    def traced(mask: Any, is_causal: Any = None, size: Any = None) -> Any:
        return False if is_causal is None else original(mask, is_causal, size)

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="torch-causal-masks",
        targets=("torch.nn.modules.transformer:_detect_is_causal_mask",),
        replacement=f"{__name__}:patch_detect_is_causal_mask",
        requires=("torch>=2.6",),
        reason="An encoder of torch asks whether its mask is causal, which is a branch on data: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/transformer.py",),
        proofs=("stacking_gpt",),
        kind="wrap",
    ),
)

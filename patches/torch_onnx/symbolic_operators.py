"""The exporter has no functions for some operators on sizes, such as `torch.sym_float` and `round`.

Symptom: `No ONNX function found for <function sym_float>` for NLLB-MoE, `sym_min` for DeepSeek-V3.2; with torch 2.8 and
later for `round(size / 2)`; to torch 2.8 for `int(size / 2)` and the root of a size.
Cause: `torch.sym_float`, `sym_max`, `sym_min` and `sym_not` are in the table of functions from torch 2.8, `math.trunc`
from 2.9, and `round` is not.
What is done: they are added to it.
Can go: when torch has all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from exportcompat.patches.toolkit.records import variants


def patch_get_decomps(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ONNXRegistry.get_decomps` know operators on sizes."""
    from ._symbolic_operators import FUNCTIONS

    return knowing(original, FUNCTIONS)


def knowing(original: Callable[..., Any], functions: Mapping[Any, Callable[..., Any]]) -> Callable[..., Any]:
    """Return `get_decomps` with the functions given here for operators that the registry does not know."""

    def get_decomps(self: Any, target: Any) -> Any:
        known = original(self, target)
        if known or target not in functions:
            return known
        self.register_op(target, functions[target])
        return original(self, target)

    return get_decomps


SPECS = variants(
    {
        "id": "torch-onnx-symbolic-operators",
        "targets": ("torch.onnx._internal.exporter._registration:ONNXRegistry.get_decomps",),
        "reason": "Operators on sizes have no ONNX function: no graph.",
        "upstream": (
            "https://github.com/pytorch/pytorch/blob/v2.8.0/torch/onnx/_internal/exporter/_torchlib/ops/symops.py",
        ),
        "kind": "wrap",
    },
    {
        "torch>=2.6,<2.8": {
            "replacement": f"{__package__}._older_sizes:patch_get_decomps",
            "proofs": ("nllb_moe_decoder",),
        },
        "torch>=2.8,<2.9": {
            "replacement": f"{__package__}._older_sizes:patch_get_decomps",
            "proofs": ("spacing_gpt",),
        },
        "torch>=2.9": {"replacement": f"{__name__}:patch_get_decomps", "proofs": ("rounding_gpt",)},
    },
)

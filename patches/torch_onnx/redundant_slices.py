"""The optimizer drops a slice whose sizes it does not know, as if nothing were cut off.

Symptom: `x[:, a:b] = y` gives `y` alone, of another shape, or another element is looked up; nothing is said, or ONNX
Runtime stops at a `Reshape` further on. Models that fill a part of a tensor, such as the padding of masks.
Cause: a rule of onnxscript 0.3.2 to 0.5.2 takes a `Slice` away if the sizes before and after it are equal, and two
unknown sizes are equal there.
What is done: the rule takes away a `Slice` of known sizes alone.
Can go: when onnxscript 0.5.2 is no longer supported; 0.5.3 asks whether the sizes are known.
"""

import sys
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_CONDITION = "_same_shape"


def patch_init(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a pass of rules take the one for slices of known sizes in place of that for all."""

    def init(self: Any, rules: Any, /) -> None:
        # A rule keeps its condition from when onnxscript is imported: replacing the function has no effect.
        original(self, [_exact(rule) for rule in getattr(rules, "rules", rules)])

    return init


def _exact(rule: Any) -> Any:
    condition = rule._condition_function
    if getattr(condition, "__name__", "") != _CONDITION:
        return rule
    module = sys.modules[condition.__module__]

    def check(op: Any, data: Any, slice_output: Any, **values: Any) -> bool:
        are_known = all(map(_is_known, (data.shape, slice_output.shape)))
        return are_known and bool(condition(op, data, slice_output, **values))

    return type(rule)(module._potential_redundant_slice, module._identity_to_itself, check)


def _is_known(shape: Any) -> bool:
    """Say whether each size is a number or has a name."""
    return shape is not None and all(isinstance(size, int) or size.value is not None for size in shape)


SPECS = (
    PatchingSpec(
        id="torch-onnx-redundant-slices",
        targets=("onnxscript.rewriter:RewritePass.__init__",),
        replacement=f"{__name__}:patch_init",
        requires=("torch>=2.6", "onnxscript>=0.3.2,<0.5.3"),
        reason="A slice of unknown sizes is dropped, so that filling a part of a tensor fills all of it.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.5.2/onnxscript/rewriter/rules/common/_collapse_slices.py",
        ),
        proofs=("filling_gpt",),
        kind="wrap",
    ),
)

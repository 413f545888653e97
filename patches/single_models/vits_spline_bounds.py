"""VITS asks by ifs whether the values of a spline are within its bounds.

Symptom: `Could not guard on data-dependent expression Eq(u3, 1)` in `_rational_quadratic_spline`.
Cause: `if torch.min(inputs) < lower or ...: raise`, and the same for the discriminant of each root.
What is done: while it is traced, both are taken to be as they must be. The inputs are picked by these very bounds right
before. Where eager stops because a discriminant is negative, the file's results are not numbers.
Can go: with transformers 4.57; from 5.0 on the questions are `torch_compilable_check`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def within(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the spline of `inputs`, `(values,)`, made to take them to be within its bounds while it is traced."""

    def spline(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(inputs):
            return original(inputs, *args, **kwargs)
        with _answering():
            return original(inputs, *args, **kwargs)

    return spline


def _answering() -> Any:
    """Return a mode in which a comparison with a bound is false, and all elements are what they are asked to be."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Answering(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.all:
                return True
            return False if func is torch.Tensor.__bool__ else func(*args, **(kwargs or {}))

    return Answering()


SPECS = (
    PatchingSpec(
        id="vits-spline-bounds",
        targets=("transformers.models.vits.modeling_vits:_rational_quadratic_spline",),
        replacement=f"{__name__}:within",
        requires=("transformers>=4.44,<5.0", "torch>=2.6"),
        reason="VITS asks by ifs on data whether values are within the bounds of a spline: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/vits/modeling_vits.py",
            "https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/models/vits/modeling_vits.py",
        ),
        proofs=("vits",),
        defect=(r"if torch\.min\(inputs\) < lower_bound",),
        kind="wrap",
    ),
)

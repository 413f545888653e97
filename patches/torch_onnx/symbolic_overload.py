"""Integers that meet a fraction of a size are given to an operator that takes plain numbers alone.

Symptom: `float() argument must be a string or a real number, not 'SymbolicTensor'` for `ids * (ids.shape[1] / 7)`, with
`-` and `//` too, and `Cannot find a compatible OpOverload for aten.sub` with the fraction first.
Cause: the pass that inserts casts looks for an operator again, and takes the first that fits; `mul.Scalar` fits a
symbolic number. onnxscript has it for numbers that are known while it translates, and what is computed in the graph is
a tensor there, for which there is `mul.Tensor`.
What is done: a symbolic number counts as a tensor without axes where an operator is looked for, if the operator that is
found runs with it.
Can go: when the pass prefers the operator that the node has.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_find_compatible_op_overload(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `find_compatible_op_overload`, made to look for one that takes tensors for symbolic numbers."""
    import torch
    from torch.utils._pytree import tree_map_only

    numbers = {torch.SymInt: torch.tensor(0), torch.SymFloat: torch.tensor(0.0)}

    def find_compatible_op_overload(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = tree_map_only(tuple(numbers), lambda number: numbers[type(number)], args)
        if all(new is old for new, old in zip(tensors, args, strict=True)):
            return original(op, args, kwargs)
        try:
            found = original(op, tensors, kwargs)
            # A comparison, `clamp` and `remainder` take no number in a tensor's place.
            found(*args, **kwargs)
        except (RuntimeError, TypeError):
            return original(op, args, kwargs)
        return found

    return find_compatible_op_overload


SPECS = (
    PatchingSpec(
        id="torch-onnx-symbolic-overload",
        targets=("torch.onnx._internal.fx.passes.type_promotion:find_compatible_op_overload",),
        replacement=f"{__name__}:patch_find_compatible_op_overload",
        requires=("torch>=2.13",),
        reason="Integers times a fraction of a size become an operator for plain numbers: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/fx/passes/type_promotion.py",),
        proofs=("scaling_gpt",),
        kind="wrap",
    ),
)

"""Two constants of a graph get one name.

Symptom: ONNX Runtime refuses the file (`Node input '...lifted_tensor_0' is not a graph input, initializer, ...`), or
the one constant stands for the other, as with dynamic NTK and longrope on torch 2.6.
Cause: the graph is recorded a second time to be decomposed. A constant that is also a buffer of the module counts as
the buffer then, is met without a name, and is named as if it were the first constant of all.
What is done: the constants that are gathered before the second recording include those that are buffers too.
Can go: with torch 2.6; torch 2.7 keeps the names (run on 2.6.0 and 2.7.1).
"""

from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_gather_constant_attrs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_gather_constant_attrs` gather attributes that are the same tensors as buffers."""

    def _gather_constant_attrs(m: Any) -> Any:
        found = original(m)
        for name, value in _plain_tensors(m):
            if value not in found:
                found.add(value, name)
        return found

    return _gather_constant_attrs


def _plain_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    import torch

    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                yield f"{path}.{name}".lstrip("."), value


SPECS = (
    PatchingSpec(
        id="torch-export-constant-names",
        targets=("torch._export.non_strict_utils:_gather_constant_attrs",),
        replacement=f"{__name__}:patch_gather_constant_attrs",
        requires=("torch>=2.6,<2.7",),
        reason="A constant that is also a buffer takes the name of another one: no file, or wrong.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.6.0/torch/_export/passes/lift_constants_pass.py",),
        proofs=("llama_dynamic",),
        kind="wrap",
    ),
)

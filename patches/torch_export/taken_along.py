"""Elements that are taken along an axis make numbers of all sizes.

Symptom: `You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (3)` for
`torch.take_along_dim`, as PP-DocLayoutV2 sorts its boxes by it.
Cause: the operator is made of others in C++, where sizes that are broadcast are read as integers.
What is done: while a model is captured, a gather of what both tensors are when expanded, which is what the operator
means. Outside, and where it is told where to write, it is torch's own.
Can go: when torch asks for symbolic sizes there, as 2.6 and 2.8 do (run on 2.6.0, 2.8.0, 2.11.0, 2.13.0 and 2.15.0).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_override(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_override` answer `take_along_dim` by a gather."""

    def _override(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        import torch

        is_taken = func in (torch.take_along_dim, torch.Tensor.take_along_dim) and "out" not in kwargs
        return (_gathered, args, kwargs) if is_taken else original(self, func, args, kwargs)

    return _override


def _gathered(input: Any, indices: Any, dim: int | None = None) -> Any:  # noqa: A002 (as torch names it)
    """Return the elements of a tensor that indices name along an axis; the other axes are broadcast."""
    import torch

    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    axis = range(input.dim())[dim]
    sizes = [list(input.shape), list(indices.shape)]
    common = torch.broadcast_shapes(*([*item[:axis], 1, *item[axis + 1 :]] for item in sizes))
    source, index = ([*common[:axis], item[axis], *common[axis + 1 :]] for item in sizes)
    return input.expand(source).gather(axis, indices.expand(index))


SPECS = (
    PatchingSpec(
        id="torch-export-taken-along",
        targets=("torch._export.non_strict_utils:_NonStrictTorchFunctionHandler._override",),
        replacement=f"{__name__}:patch_override",
        requires=("torch>=2.11",),
        reason="`torch.take_along_dim` makes numbers of the sizes of what it takes from: no graph for other sizes.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/TensorAdvancedIndexing.cpp",),
        proofs=("taking_gpt",),
        kind="wrap",
    ),
)

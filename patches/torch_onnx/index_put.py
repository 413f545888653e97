"""Values cannot be written to places of which the number is dynamic, or the index has several axes.

Symptom: `unsupported operand type(s) for *: 'int' and 'SymbolicDim'` for experts of Qwen3-MoE. To onnxscript 0.2.2 the
export succeeds, and of `x[rows, columns] = values` the columns are ignored: wrong logits.
Cause: to 0.5.6 `aten_index_put` multiplies the sizes of an index as numbers; to 0.2.2 it sees the first index alone.
To 0.5.6 none of its functions takes a tensor of booleans (`No ONNX function found` for `mask[padding] = False`).
What is done: behind the capture, `index_put` becomes a `scatter` on a tensor whose indexed axes are one. One value for
an index of booleans becomes a `where`; several are left to onnxscript. Operators that ONNX lacks are taken apart as
`torch-onnx-missing-operators` does it, which has the same place and is for later releases.
Can go: with onnxscript 0.5.6; later releases translate it at any size (read in 0.5.7 to 0.7.2, run on 0.7.2).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from exportcompat.registry import PatchingSpec

from .missing_operators import patch_decomposition_table as patch_missing_operators


def patch_decomposition_table(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the table of decompositions, made to have one of `index_put`."""
    # A place is replaced by one spec; so operators that ONNX lacks are taken apart here where `index_put` is.
    made = patch_missing_operators(original)

    def create_onnx_friendly_decomposition_table(onnx_registered_ops: Any) -> Any:
        import torch

        table = made(onnx_registered_ops)
        return {**table, torch.ops.aten.index_put.default: index_put}

    return create_onnx_friendly_decomposition_table


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Return `x` with values in place of, or added to, those at the indices.

    Args:
        x: a tensor of any shape.
        indices: for each of the first axes a tensor of integers, or None for the whole axis; they broadcast together.
        values: a tensor that broadcasts to what the indices select.
        accumulate: add the values.

    Returns:
        A tensor like `x`; `NotImplemented` where there is no index, or one of booleans for more than one value.
    """
    import torch

    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if axes == [0] and indices[0].dtype is torch.bool and not values.dim():
        mask = indices[0].reshape(*indices[0].shape, *(1 for _ in range(x.dim() - indices[0].dim())))
        return torch.where(mask, x + values if accumulate else values, x)
    if not axes or any(indices[axis].dtype in (torch.bool, torch.uint8) for axis in axes):
        return NotImplemented
    places = torch.broadcast_tensors(*(indices[axis] for axis in axes))
    others = [axis for axis in range(x.dim()) if axis not in axes]
    order, kept = [*axes, *others], [x.shape[axis] for axis in others]
    count, width = math.prod(places[0].shape), math.prod(kept)
    rows = _rows(places, [x.shape[axis] for axis in axes]).reshape(count, 1).expand(count, width)
    source = _selected(values, axes, places[0].shape, kept).reshape(count, width)
    table = x.permute(order).reshape(math.prod(x.shape[axis] for axis in axes), width)
    put = table.scatter_add(0, rows, source) if accumulate else table.scatter(0, rows, source)
    back = [order.index(axis) for axis in range(x.dim())]
    return put.reshape([x.shape[axis] for axis in order]).permute(back)


def _rows(places: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Return where each place is once the axes of these sizes are one; negative places count from the end."""
    import torch

    rows: Any = 0
    for place, size in zip(places, sizes, strict=True):
        rows = rows * size + torch.where(place < 0, place + size, place)
    return rows


def _selected(values: Any, axes: Sequence[int], shape: Sequence[Any], kept: Sequence[Any]) -> Any:
    """Return the values in the shape that the indices select, with the axes of the indices in front."""
    # Neighbours leave the axes of their result where they were; others put them in front.
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    wide = values.expand([*kept[:first], *shape, *kept[first:]])
    front = range(first, first + len(shape))
    return wide.permute([*front, *(axis for axis in range(wide.dim()) if axis not in front)])


SPECS = (
    PatchingSpec(
        id="torch-onnx-index-put",
        targets=("torch.onnx._internal.exporter._decomp:create_onnx_friendly_decomposition_table",),
        replacement=f"{__name__}:patch_decomposition_table",
        requires=("torch>=2.6", "onnxscript<0.5.7"),
        reason="index_put of a dynamic size is not translated, and of several indices wrongly: no or wrong logits.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/v0.4.0/onnxscript/function_libs/torch_lib/ops/core.py",
        ),
        proofs=("qwen3_moe", "ranking_gpt", "choosing_gpt"),
        kind="wrap",
    ),
)

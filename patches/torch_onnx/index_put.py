"""Values cannot be written to places of which the number is dynamic, the index has several axes, or is a mask.

Symptom: `unsupported operand type(s) for *: 'int' and 'SymbolicDim'` for experts of Qwen3-MoE. To onnxscript 0.2.2 the
export succeeds, and of `x[rows, columns] = values` the columns are ignored: wrong logits. Of `x[mask] = values` ONNX
Runtime refuses the file (`Could not find an implementation for Where(16)`, `bound to different types`), or stops:
`Attempting to broadcast an axis by a dimension other than 1`, for the images of Qwen3-VL and Idefics.
Cause: to 0.5.6 `aten_index_put` multiplies the sizes of an index as numbers; to 0.2.2 it sees the first index alone.
To 0.5.6 none of its functions takes a tensor of booleans (`No ONNX function found` for `mask[padding] = False`). From
then on to 0.7.1 `_aten_index_put_bool` is a `Where` of all values, which are as many as the mask has true elements.
What is done: behind the capture, `index_put` becomes a `scatter` on a tensor whose indexed axes are one. With a mask
it becomes a `where`, for which the values are spread to where the mask is true. From 0.5.7 on the latter alone is done.
Operators that ONNX lacks are taken apart as `torch-onnx-missing-operators` does it, which has the same place and is for
later releases; `//` of integers too, which goes by float32 in these, and `irfft`, `isclose(equal_nan=True)`, `prod()`,
`linear` with a weight of one axis and padding by sizes, of which these have other numbers or axes, or no function.
Can go: with onnxscript 0.7.1; 0.7.2 translates it at any size, and masks too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from exportcompat.patches.toolkit.records import variants

from .missing_operators import patch_decomposition_table as patch_missing_operators


def patch_decomposition_table(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the table of decompositions, made to have one of `index_put`."""
    return _with_index_put(original, index_put)


def patch_decomposition_table_masks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the table of decompositions, made to have one of `index_put` with a mask."""
    return _with_index_put(original, masked_put)


def _with_index_put(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    # A place is replaced by one spec; so operators that ONNX lacks are taken apart here where `index_put` is.
    made = patch_missing_operators(original)

    def create_onnx_friendly_decomposition_table(onnx_registered_ops: Any) -> Any:
        import torch

        from ._exact_division import of_integers
        from ._old_functions import corrections

        table = made(onnx_registered_ops)
        table.correct({**of_integers(), **corrections(), torch.ops.aten.index_put.default: function})
        return table

    return create_onnx_friendly_decomposition_table


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Return `x` with values in place of, or added to, those at the indices.

    Args:
        x: a tensor of any shape.
        indices: for each of the first axes a tensor of integers, or None for the whole axis; they broadcast together.
            Or one mask of the first axes.
        values: a tensor that broadcasts to what the indices select.
        accumulate: add the values.

    Returns:
        A tensor like `x`; `NotImplemented` where there is no index, or a mask beside another one.
    """
    import torch

    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if not axes or any(indices[axis].dtype in (torch.bool, torch.uint8) for axis in axes):
        return masked_put(x, indices, values, accumulate)
    places = torch.broadcast_tensors(*(indices[axis].to(torch.int64) for axis in axes))
    others = [axis for axis in range(x.dim()) if axis not in axes]
    order, kept = [*axes, *others], [x.shape[axis] for axis in others]
    count, width = math.prod(places[0].shape), math.prod(kept)
    rows = _rows(places, [x.shape[axis] for axis in axes]).reshape(count, 1).expand(count, width)
    source = _selected(values, axes, places[0].shape, kept).reshape(count, width)
    table = x.permute(order).reshape(math.prod(x.shape[axis] for axis in axes), width)
    put = table.scatter_add(0, rows, source) if accumulate else table.scatter(0, rows, source)
    back = [order.index(axis) for axis in range(x.dim())]
    return put.reshape([x.shape[axis] for axis in order]).permute(back)


def masked_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Return `x` with values in place of, or added to, those at which a mask is true.

    Args:
        x: a tensor of any shape.
        indices: one tensor of booleans, of the shape of the first axes of `x`.
        values: a tensor that broadcasts to `(true elements, ...)`, where the others are axes of `x` behind the mask.
        accumulate: add the values.

    Returns:
        A tensor like `x`; `NotImplemented` for any other index.
    """
    import torch

    if len(indices) != 1 or indices[0] is None or indices[0].dtype is not torch.bool:
        return NotImplemented
    mask, rest = indices[0], x.shape[indices[0].dim() :]
    if values.dim() > len(rest):
        values = _spread(mask, values.expand(values.shape[0], *rest))
    return torch.where(mask.reshape(*mask.shape, *(1 for _ in rest)), x + values if accumulate else values, x)


def _spread(mask: Any, values: Any) -> Any:
    """Return values, `(true elements or 1, ...)`, as `(*mask.shape, ...)`: the next one wherever the mask is true."""
    import torch

    if isinstance(values.shape[0], int) and values.shape[0] == 1:
        return values[0]
    # Nothing is in front of the first value, so that there is a row to take where there is no value at all.
    table = torch.cat([values.new_zeros(1, *values.shape[1:]), values])
    places = mask.flatten().to(torch.int64).cumsum(0)
    return table.index_select(0, places).reshape(*mask.shape, *values.shape[1:])


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


SPECS = variants(
    {
        "id": "torch-onnx-index-put",
        "targets": ("torch.onnx._internal.exporter._decomp:create_onnx_friendly_decomposition_table",),
        "kind": "wrap",
    },
    {
        ("torch>=2.6", "onnxscript<0.5.7"): {
            "replacement": f"{__name__}:patch_decomposition_table",
            "reason": "index_put of a dynamic size is not translated, and of several indices wrongly: "
            "no or wrong logits.",
            "upstream": (
                "https://github.com/microsoft/onnxscript/blob/v0.4.0/onnxscript/function_libs/torch_lib/ops/core.py",
            ),
            "proofs": ("qwen3_moe", "ranking_gpt", "choosing_gpt"),
        },
        ("torch>=2.6", "onnxscript>=0.5.7,<0.7.2"): {
            "replacement": f"{__name__}:patch_decomposition_table_masks",
            "reason": "Values for a mask are taken as if there were one for each place: a file that does not load.",
            "upstream": (
                "https://github.com/microsoft/onnxscript/blob/v0.7.1/onnxscript/function_libs/torch_lib/ops/core.py",
            ),
            "proofs": ("choosing_gpt", "ranking_gpt", "idefics3"),
        },
    },
)

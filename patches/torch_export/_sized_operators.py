"""Operators that torch makes in C++ of numbers alone, made of others for dynamic sizes."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

from ._resizing import resized

_SYMBOLIC = (torch.SymInt, torch.SymFloat)


def operator_for(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Return what stands for a function of torch in a call, or None where torch's own is right."""
    if func in _OF_TENSORS:
        return None if "out" in kwargs else _OF_TENSORS[func]
    made = _OF_SIZES.get(func)
    if made is None or kwargs.get("out") is not None:
        return None
    numbers = pytree.tree_leaves((args, dict(kwargs)))
    return made if any(isinstance(number, _SYMBOLIC) for number in numbers) else None


def _gathered(input: Any, indices: Any, dim: int | None = None) -> Any:  # noqa: A002 (as torch names it)
    """Return the elements of a tensor that indices name along an axis; the other axes are broadcast."""
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    axis = range(input.dim())[dim]
    sizes = [list(input.shape), list(indices.shape)]
    common = torch.broadcast_shapes(*([*item[:axis], 1, *item[axis + 1 :]] for item in sizes))
    source, index = ([*common[:axis], item[axis], *common[axis + 1 :]] for item in sizes)
    return input.expand(source).gather(axis, indices.expand(index))


def _with_diagonal(input: Any, fill_value: Any, wrap: bool = False) -> Any:  # noqa: A002
    """Write a value to the diagonal of a matrix; upstream does so through a view of its memory."""
    if wrap or input.dim() != 2:
        return input.fill_diagonal_(fill_value, wrap)
    rows, columns = (torch.arange(size, device=input.device) for size in input.shape)
    return input.masked_fill_(rows[:, None] == columns, fill_value)


def _largest_in_windows(
    input: Any,  # noqa: A002 (as torch names it)
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest elements of windows of sequences, which are images of one row; with their places as torch."""
    if return_indices:
        return functional.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    window, around, apart = map(_one, (kernel_size, padding, dilation))
    step = () if stride is None else _one(stride)
    rows = input.unsqueeze(-2)
    found = functional.max_pool2d(rows, (1, *window), (1, *(step or window)), (0, *around), (1, *apart), ceil_mode)
    return found.squeeze(-2)


def _one(value: Any) -> tuple[Any, ...]:
    """Return a tuple of a number, which may stand for itself."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return numbers at equal distances; from the middle on they are counted from the end, as torch does it."""
    dtype = dtype or torch.get_default_dtype()
    if not dtype.is_floating_point:
        return torch.linspace(start, end, steps, dtype=dtype, device=device, **options)
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    place = torch.arange(steps, device=device)
    step = (torch.scalar_tensor(end, dtype=exact, device=device) - start) / torch.sym_max(steps - 1, 1)
    # One step alone is the start.
    is_first_half = place < (steps + 1) // 2
    return torch.where(is_first_half, start + step * place, end - step * (steps - 1 - place)).to(dtype)


def _logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
    return base ** _linspace(start, end, steps, **options)


def _lower_count(rows: Any, columns: Any, offset: int) -> Any:
    """Return how many elements a matrix has on a diagonal and below it, as torch counts them."""
    low, high = torch.sym_min, torch.sym_max
    first = low(columns, 1 + offset) if offset > 0 else low(1, high(0, rows + offset))
    last = high(0, low(columns, rows + offset))
    steps = last - first + 1
    whole = high(0, high(0, low(rows, rows + offset)) - steps)
    return (first + last) * steps // 2 + whole * columns


def _tril_indices(
    row: Any, col: Any, offset: int = 0, *, dtype: Any = torch.int64, device: Any = None, **options: Any
) -> Any:
    counts = (torch.arange(row, device=device) + (offset + 1)).clamp(min=0).clamp(max=col)
    return _row_by_row(counts, torch.zeros_like(counts), _lower_count(row, col, offset)).to(dtype)


def _triu_indices(
    row: Any, col: Any, offset: int = 0, *, dtype: Any = torch.int64, device: Any = None, **options: Any
) -> Any:
    begins = (torch.arange(row, device=device) + offset).clamp(min=0).clamp(max=col)
    return _row_by_row(col - begins, begins, row * col - _lower_count(row, col, offset - 1)).to(dtype)


def _row_by_row(counts: Any, begins: Any, total: Any) -> Any:
    """Return rows and columns, `(2, total)`, of as many elements of each row as are counted, from its begin on."""
    before = counts.cumsum(0) - counts
    # Rows without an element begin where the next one does; the last ones of that kind, behind all elements.
    marks = counts.new_zeros(total + 1).index_add(0, before, torch.ones_like(before))
    rows = marks[:-1].cumsum(0) - 1
    return torch.stack([rows, torch.arange(total, device=counts.device) - (before - begins)[rows]])


def _affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Return a sampling grid, `(batch, *sizes, axes)`, of affine matrices, `(batch, axes, axes + 1)`."""
    lengths = list(size[2:])
    # The last axis of a map comes first in its coordinates.
    axes = [_coordinates(length, theta, bool(align_corners)) for length in reversed(lengths)]
    shape = [[length if place == axis else 1 for place in range(len(axes))] for axis, length in enumerate(lengths)]
    columns = [item.reshape(own).expand(lengths) for item, own in zip(axes, reversed(shape), strict=True)]
    points = torch.stack([*columns, torch.ones_like(columns[0])], -1)
    grid = points.reshape(1, -1, len(axes) + 1) @ theta.transpose(1, 2)
    return grid.reshape(theta.shape[0], *lengths, len(axes))


def _coordinates(length: Any, like: Any, align_corners: bool) -> Any:
    """Return the places of elements between -1 and 1; the one of an axis of one is in the middle."""
    place = torch.arange(length, device=like.device).to(like.dtype)
    if align_corners:
        return place * 2 / torch.sym_max(length - 1, 1) - torch.sym_min(length - 1, 1)
    return (place * 2 + 1) / length - 1


_OF_TENSORS: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.fill_diagonal_: _with_diagonal,
    torch.Tensor.take_along_dim: _gathered,
    functional.max_pool1d: _largest_in_windows,
    torch.max_pool1d: _largest_in_windows,
    torch.take_along_dim: _gathered,
}
"""Functions that ask tensors for their sizes."""

_OF_SIZES: Mapping[Any, Callable[..., Any]] = {
    functional.affine_grid: _affine_grid,
    functional.interpolate: resized,
    torch.affine_grid_generator: _affine_grid,
    torch.linspace: _linspace,
    torch.logspace: _logspace,
    torch.tril_indices: _tril_indices,
    torch.triu_indices: _triu_indices,
}
"""Functions whose numbers may be sizes."""

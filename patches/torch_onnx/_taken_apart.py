"""Operators that ONNX lacks, or onnxscript gets wrong, as others: the functions that torch takes them apart with."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ._antialiased import corrections as antialiased
from ._attention_ranks import corrections as attention_ranks
from ._batch_statistics import corrections as batch_statistics
from ._complex_shapes import corrections as complex_shapes
from ._error_functions import table as error_functions
from ._exact_division import table as divisions
from ._integers import table as integers
from ._losses import table as losses
from ._number_types import table as number_types
from ._order_statistics import table as order_statistics
from ._pooling import table as pooling
from ._recurrent import corrections as recurrent_layers
from ._reduced_axes import from_the_front
from ._reductions import corrections as reductions
from ._reductions import table as missing_reductions
from ._running import corrections as running
from ._running import steps
from ._running import table as running_extremes
from ._signs import table as signs
from ._stable_functions import distances
from ._stable_functions import table as stable_functions

_MEAN, _MAX = 1, 2
"""Ways of `embedding_bag`, beside the sum."""


def table() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator."""
    aten = torch.ops.aten
    return {
        **order_statistics(),
        **missing_reductions(),
        **running_extremes(),
        aten._cdist_forward.default: distances,
        aten.searchsorted.Tensor: _searchsorted,
        aten.searchsorted.Scalar: _searchsorted_of_a_number,
        # An older torch cannot name an operator of ONNX.
        **({aten._int_mm.default: _int_mm} if hasattr(torch.onnx, "ops") else {}),
    }


def corrections() -> dict[Any, Callable[..., Any]]:
    """Return a function for each operator that onnxscript translates, but not for every call."""
    aten = torch.ops.aten
    functions: dict[Any, Callable[..., Any]] = {
        **antialiased(),
        **attention_ranks(),
        **batch_statistics(),
        **number_types(),
        **divisions(),
        **error_functions(),
        **integers(),
        **complex_shapes(),
        **losses(),
        **pooling(),
        **recurrent_layers(),
        **reductions(),
        **running(),
        **signs(),
        **stable_functions(),
        aten.group_norm.default: _group_norm,
        aten.histc.default: _histc,
        aten.bucketize.Tensor: _bucketize,
        aten.embedding_bag.default: _embedding_bag,
        aten.embedding_bag.padding_idx: _embedding_bag,
        aten.split.Tensor: _split,
        aten.scatter_reduce.two: _scatter_mean,
    }
    return from_the_front(functions)


def _int_mm(left: Any, right: Any) -> Any:
    """Return the product of int8 matrices, `(rows, inner)` and `(inner, columns)`, in int32."""
    shape = (left.shape[0], right.shape[1])
    return torch.onnx.ops.symbolic("MatMulInteger", (left, right), dtype=torch.int32, shape=shape, version=10)


def _searchsorted(
    sequence: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """Return the place of each value in a sorted sequence, by halves.

    Args:
        sequence: `(..., length)`, sorted along its last axis, unless `sorter` has its order.
        values: `(..., count)`; of any shape if the sequence has one axis.
        out_int32: whether the places are int32.
        right: whether a place is behind equal elements.
        side: the same, as "left" or "right".
        sorter: `(..., length)`, or None.
    """
    ordered = sequence if sorter is None else sequence.gather(-1, sorter)
    # One more element, which is never asked for, so that there always is one.
    padded = torch.cat([ordered, ordered.new_zeros((*ordered.shape[:-1], 1))], -1)
    length = ordered.shape[-1]
    low = torch.zeros_like(values, dtype=torch.int64)
    high = low + length
    is_right = right or side == "right"
    for _ in range(steps(length) + 1):
        middle = (low + high) // 2
        found = padded[middle] if padded.dim() == 1 else padded.gather(-1, middle)
        # NaN is behind all numbers.
        is_before = ~(found > values if is_right else found >= values) & (low < high)
        low, high = torch.where(is_before, middle + 1, low), torch.where(is_before, high, middle)
    return low.to(torch.int32) if out_int32 else low


def _searchsorted_of_a_number(sequence: Any, value: Any, **options: Any) -> Any:
    return _searchsorted(sequence, torch.full((), value, device=sequence.device), **options)


def _bucketize(values: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return the place of each value among boundaries whose number is not known; torch goes by that of the sample."""
    if isinstance(boundaries.shape[0], int):
        return NotImplemented
    return _searchsorted(boundaries, values, out_int32=out_int32, right=right)


def _group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _cudnn_enabled: bool = True
) -> Any:
    """Return `(rows, channels, ...)` with each group of channels normalized, for any number of rows, 0 included."""
    rows, channels, *places = x.shape
    # Without rows a size of -1 cannot be inferred, which is what onnxscript has here.
    parts = x.reshape(rows, groups, channels // groups * math.prod(places))
    is_counted = not free_unbacked_symbols(x)
    found = (_of_instances(parts, eps) if is_counted else _of_any_rows(parts, eps)).reshape(x.shape)
    weight, bias = (None if item is None else item.reshape(-1, *(1 for _ in places)) for item in (weight, bias))
    found = found if weight is None else found * weight
    found = found if bias is None else found + bias
    # Weights may be in float32 where the rest is in half precision.
    found = found.to(x.dtype)
    # A view that was captured behind channels that come last needs them there.
    return found.contiguous(memory_format=suggest_memory_format(x)) if is_counted else found


def _of_instances(parts: Any, eps: float) -> Any:
    # The function of `torch.nn.functional` asks whether a group has more than one element.
    return torch.instance_norm(parts, None, None, None, None, True, 0.0, eps, False)


def _of_any_rows(parts: Any, eps: float) -> Any:
    """Return the same of rows whose number is data, of which `instance_norm` asks whether there is one."""
    parts = parts.to(torch.promote_types(parts.dtype, torch.float32))
    centred = parts - parts.mean(2, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(2, keepdim=True) + eps)


def _histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:  # noqa: A002 (upstream's names)
    """Return how many elements are in each of `(bins,)` equal parts; integers are counted as float64."""
    if x.is_floating_point():
        return NotImplemented
    return torch.histc(x.to(torch.float64), bins, min, max).to(x.dtype)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the sum, mean or largest row of each bag, `(bags, channels)`, and what only a gradient reads.

    Args:
        weight: `(rows, channels)`.
        indices: `(count,)`, the rows of all bags, one bag behind the other.
        offsets: `(bags,)`, where each bag begins; one more, the end, with `include_last_offset`.
        scale_grad_by_freq: nothing in a graph without gradients.
        mode: 0 for the sum, 1 for the mean, 2 for the largest.
        sparse: nothing in a graph without gradients.
        per_sample_weights: `(count,)`, factors of the rows, for sums; or None.
        include_last_offset: whether the last of the offsets is the end.
        padding_idx: a row that no bag counts, or None.
    """
    bags = offsets.shape[0] - int(include_last_offset)
    bag = _bag_of_each(indices, offsets[:bags])
    is_left_out = torch.zeros_like(indices, dtype=torch.bool)
    if padding_idx is not None:
        is_left_out = indices == (padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0])
    counts = indices.new_zeros(bags).index_add(0, bag, (~is_left_out).to(indices.dtype))
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    rows = rows.masked_fill(is_left_out.unsqueeze(1), -math.inf if mode == _MAX else 0.0)
    start = weight.new_zeros((bags, weight.shape[1]))
    if mode == _MAX:
        largest = (start - math.inf).scatter_reduce(0, bag.unsqueeze(1).expand(rows.shape), rows, "amax")
        found = largest.masked_fill(counts.unsqueeze(1) == 0, 0.0)
    else:
        found = start.index_add(0, bag, rows)
        found = found / counts.clamp(min=1).unsqueeze(1).to(found.dtype) if mode == _MEAN else found
    return found, bag, counts, counts


def _bag_of_each(indices: Any, offsets: Any) -> Any:
    """Return the bag of each index, `(count,)`: how many begin at it or before it, less one."""
    begins = indices.new_zeros(indices.shape[0] + 1).index_add(0, offsets, torch.ones_like(offsets))
    return begins[:-1].cumsum(0) - 1


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    """Return the parts of a length that is not known, as slices: of such, onnxscript does not know how many there are.

    Args:
        x: a tensor.
        size: the length of each part but the last.
        dim: the axis.
    """
    if isinstance(size, int):
        return NotImplemented
    length = x.shape[dim]
    last = int((length + size - 1) // size) - 1
    parts = [x.narrow(dim, index * size, size) for index in range(last)]
    return [*parts, x.narrow(dim, last * size, length - last * size)]


def _scatter_mean(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return `x` with the mean of what is scattered to each place; ONNX has other reductions alone.

    Args:
        x: a tensor.
        dim: the axis along which `index` names places.
        index: places, of the shape of `source`.
        source: what is scattered.
        reduce: the reduction; others than `mean` are right as they are.
        include_self: whether an element of `x` counts among those that are scattered to it.
    """
    if reduce != "mean":
        return NotImplemented
    sums = (x if include_self else torch.zeros_like(x)).scatter_add(dim, index, source)
    begun = torch.ones_like(x) if include_self else torch.zeros_like(x)
    counts = begun.scatter_add(dim, index, torch.ones_like(source))
    mean = torch.div(sums, counts.clamp(min=1), rounding_mode=None if x.is_floating_point() else "floor")
    return torch.where(counts == 0, x, mean)

"""Attention of patches within segments, made to be one product with a mask while it is traced."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.tracing import is_traced
from exportcompat.registry import Unchanged

from ._patch_coordinates import segments
from ._segment_batch import side_by_side
from ._segment_blocks import in_blocks
from ._tower_context import shared

_Divide = Callable[[Any, Any], Any]
"""Takes the ends of segments and the number of patches, and returns what attends within segments."""


def patch_segment_attention(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Keep `forward` of an attention, or what makes its mask, from looping over segments.

    Other methods stay as they are.
    """
    return _patched(original, _by_exporter)


def patch_segment_attention_without_scan(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Do the same for a torch that cannot put such a `scan` into ONNX."""
    return _patched(original, side_by_side)


def _by_exporter(ends: Any, count: Any) -> Any:
    """Divide into blocks for ONNX; OpenVINO and the TorchScript exporter have no `scan`."""
    is_onnx = torch.onnx.is_in_onnx_export() and not torch.jit.is_tracing()
    return (in_blocks if is_onnx else side_by_side)(ends, count)


def _patched(original: Callable[..., Any], divide: _Divide) -> Callable[..., Any] | Unchanged:
    if original.__name__ != "_prepare_attention_mask":
        return _attention(original, divide)

    def prepared(self: Any, inputs_tensor: Any, cu_seqlens: Any) -> Any:
        if not is_traced(inputs_tensor):
            return original(self, inputs_tensor, cu_seqlens)
        with _OneSegment(cu_seqlens, inputs_tensor.shape[0], divide):
            return original(self, inputs_tensor, _segment_ends(inputs_tensor))

    return prepared


def _attention(original: Callable[..., Any], divide: _Divide) -> Callable[..., Any] | Unchanged:
    if list(inspect.signature(original).parameters)[1:3] != ["hidden_states", "cu_seqlens"]:
        return Unchanged("it does not take hidden states and the ends of segments")

    def forward(self: Any, hidden_states: Any, cu_seqlens: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(hidden_states):
            return original(self, hidden_states, cu_seqlens, *args, **kwargs)
        with _OneSegment(cu_seqlens, hidden_states.shape[-2], divide):
            return original(self, hidden_states, _segment_ends(hidden_states), *args, **kwargs)

    return forward


def _segment_ends(rows: Any) -> Any:
    """Return what stands for 0 and the end of the only segment; `_OneSegment` knows the end."""
    return torch.zeros(2, dtype=torch.int32, device=rows.device)


class _OneSegment(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Answer that there is one segment, of all patches, and keep the real ones apart in what is computed.

    Args:
        ends: 0 and the ends of the segments, `(segments + 1,)`; they may repeat.
        count: the number of patches.
        divide: makes what attends within segments.
    """

    def __init__(self, ends: Any, count: Any, divide: _Divide) -> None:
        super().__init__()
        self._divide = divide
        self._ends = ends
        self._count = count
        self._is_split = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.tolist, torch.Tensor.item):
            # A fake tensor asks for its items one by one.
            self._is_split = True
            return [self._count] if func is torch.Tensor.tolist else self._count
        if func is torch.Tensor.__setitem__:
            return _fill(args[0], self._is_same(), args[2])
        # By name: another spec has a replacement where the function is looked up.
        if func.__name__ == "scaled_dot_product_attention":
            divided = shared(self._ends, lambda: self._divide(self._ends, self._count))
            return divided.attend(func, *args, **kwargs)
        if self._is_split and func is torch.nn.functional.softmax:
            args = (args[0].masked_fill(~self._is_same(), torch.finfo(args[0].dtype).min), *args[1:])
        return func(*args, **kwargs)

    def _is_same(self) -> Any:
        """Return which patches are of the same segment, `(patches, patches)`."""
        own = segments(self._ends, self._count)
        return own[:, None] == own


def _fill(mask: Any, is_same: Any, value: Any) -> Any:
    """Write `value` where patches are of the same segment; a mask of bools is written True."""
    # ONNX Runtime cannot pick between bools.
    return mask.logical_or_(is_same) if mask.dtype == torch.bool else mask.masked_fill_(is_same, value)

"""Attention of patches within segments, made to be one product with a mask while it is traced."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.tracing import is_traced
from exportcompat.registry import Unchanged

from ._patch_coordinates import segments
from ._segment_blocks import blocks_of


def patch_segment_attention(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Keep `forward` of an attention, or what makes its mask, from looping over segments.

    Other methods stay as they are.
    """
    if original.__name__ != "_prepare_attention_mask":
        return _attention(original)

    def prepared(self: Any, inputs_tensor: Any, cu_seqlens: Any) -> Any:
        if not is_traced(inputs_tensor):
            return original(self, inputs_tensor, cu_seqlens)
        with _OneSegment(cu_seqlens, inputs_tensor.shape[0]):
            return original(self, inputs_tensor, _segment_ends(inputs_tensor))

    return prepared


def _attention(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    if list(inspect.signature(original).parameters)[1:3] != ["hidden_states", "cu_seqlens"]:
        return Unchanged("it does not take hidden states and the ends of segments")

    def forward(self: Any, hidden_states: Any, cu_seqlens: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(hidden_states):
            return original(self, hidden_states, cu_seqlens, *args, **kwargs)
        with _OneSegment(cu_seqlens, hidden_states.shape[-2]):
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
    """

    def __init__(self, ends: Any, count: Any) -> None:
        super().__init__()
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
            return blocks_of(self._ends, self._count).attend(func, *args, **kwargs)
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

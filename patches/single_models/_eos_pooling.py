"""The state of the last end of each text, looked up in a graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.function_modes import run_under


def patch_eos_pooling_head(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look the last end of each text up in `forward` of a head while it is traced."""
    return run_under(_LastOfEach, original)


class _LastOfEach(TorchFunctionMode):  # type: ignore[misc,unused-ignore]  # torch has no types for it in every release.
    """Answer that all texts have as many ends, and give one state for each text where a mask picks states."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.unique_consecutive:
            return args[0][:1]
        if func is Tensor.__getitem__ and _is_mask(args[1]):
            return _last(args[0], args[1][0])
        return func(*args, **(kwargs or {}))


def _is_mask(index: Any) -> bool:
    """Say whether an index is `[mask, :]` with a mask `(batch, sequence)`."""
    return (
        isinstance(index, tuple)
        and len(index) == 2
        and isinstance(index[0], Tensor)
        and (index[0].dtype, index[0].ndim) == (torch.bool, 2)
    )


def _last(states: Tensor, mask: Tensor) -> Tensor:
    """Return the states where `mask` is True for the last time, `(batch, channels)`; out of range if it never is."""
    length = states.shape[1]
    last = torch.where(mask, torch.arange(length, device=mask.device), -1).amax(1)
    index = torch.where(last < 0, length, last)
    return states.gather(1, index[:, None, None].expand(-1, 1, states.shape[2]))[:, 0]

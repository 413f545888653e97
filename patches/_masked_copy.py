"""Copies by a mask, `a[mask] = b[mask]`, without rows whose number is data."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class MaskedCopy(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Copy by a mask element by element, where both masks are views of one tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and _is_mask_of(*args):
            return _Picked(*args)
        if func is Tensor.__setitem__ and isinstance(args[2], _Picked):
            return args[2].write(*args[:2])
        return func(*args, **(kwargs or {}))


class _Picked:
    """What a mask picks, until it is known what becomes of it."""

    def __init__(self, source: Any, mask: Any) -> None:
        self._source, self._mask = source, mask

    def write(self, target: Any, mask: Any) -> None:
        """Write the elements to a target whose mask is the same."""
        if _is_mask_of(target, mask) and _origin(mask) is _origin(self._mask):
            target.copy_(torch.where(mask, self._source, target))
        else:
            target[mask] = self._source.masked_select(self._mask)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # torch looks for `__torch_function__`; nothing is picked for that.
            raise AttributeError(name)
        return getattr(self._source.masked_select(self._mask), name)


def _origin(mask: Any) -> Any:
    """Return the tensor that a mask is a view of."""
    return mask if mask._base is None else mask._base


def _is_mask_of(tensor: Any, mask: Any) -> bool:
    return isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() == tensor.dim()

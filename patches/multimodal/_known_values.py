"""Compute with the values of the sample while a graph is traced, whose other tensors have none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_MADE = (torch.arange, torch.tensor, torch.linspace)
"""Functions that make tensors of numbers."""

_INDEXED = (Tensor.__getitem__, Tensor.__setitem__)


@contextmanager
def known() -> Iterator[None]:
    """Compute as if nothing were traced."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


class KnownValues(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Compute what follows from tensors with values alone with these values, and record all the rest.

    Args:
        given: what such tensors are, in the order in which they meet others; None to find them.

    Attributes:
        met: those that have met others.
    """

    def __init__(self, given: Sequence[Any] | None = None) -> None:
        super().__init__()
        self.met: list[Any] = []
        self._given = given

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        is_known = all(map(_has_values, tensors)) and not any(isinstance(leaf, torch.SymInt) for leaf in leaves)
        if is_known and (tensors or func in _MADE):
            with known():
                return func(*args, **kwargs)
        if func in _INDEXED:
            args = (args[0], _as_numbers(args[1]), *args[2:])
        args, kwargs = pytree.tree_map_only((Tensor, slice), self._taken, (args, kwargs))
        if func is Tensor.__setitem__ and _is_filled(*args):
            # What is filled with a number is a constant otherwise, which a loop does not take.
            args[0][args[1]].fill_(args[2])
            return None
        return func(*args, **kwargs)

    def _taken(self, tensor: Any) -> Any:
        """Return what a tensor is where it meets others; a number of the sample is one of the graph."""
        if isinstance(tensor, slice):
            return slice(*map(self._taken, (tensor.start, tensor.stop, tensor.step)))
        if not _has_values(tensor):
            return tensor
        if not tensor.dim():
            with known():
                return tensor.item()
        self.met.append(tensor)
        return tensor if self._given is None else self._given[len(self.met) - 1]


def _has_values(tensor: Any) -> bool:
    return type(tensor) is Tensor and not torch._is_functional_tensor(tensor)


def _as_numbers(index: Any) -> Any:
    """Return an index in which masks with values are the numbers of what they pick: how many these are is known."""
    if not isinstance(index, tuple):
        index = (index,)
    found: list[Any] = []
    for item in index:
        is_mask = isinstance(item, Tensor) and item.dtype == torch.bool and _has_values(item)
        with known():
            found += item.nonzero(as_tuple=True) if is_mask else [item]
    return tuple(found)


def _is_filled(_: Any, index: tuple[Any, ...], value: Any) -> bool:
    """Say whether a part of a tensor, which is a view, gets one number."""
    return isinstance(value, (int, float)) and all(item is None or isinstance(item, (int, slice)) for item in index)

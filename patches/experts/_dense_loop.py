"""Loops over the experts that were hit, made to go through all of them while they are traced."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.tracing import is_traced


def patch_expert_loop(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method with such a loop go through all experts while it is traced."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
        if not tensors or not is_traced(tensors[0]):
            return original(self, *args, **kwargs)
        with _AllRouted(getattr(self, "num_experts", None)):
            return original(self, *args, **kwargs)

    return method


def patch_get_interface(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ExpertsInterface.get_interface` give out the loop that a model brings along as above.

    `torch.jit.trace` gets that loop in any case: the TorchScript exporter has none of the operators of the others.
    """

    def get_interface(self: Any, experts_implementation: Any, default: Any) -> Any:
        found = original(self, experts_implementation, default)
        is_loop = found is default or torch.jit.is_tracing()
        return patch_expert_loop(default) if is_loop else found

    return get_interface


class _RoutedExpert(int):
    """The number of an expert, which stands for a tensor of one element."""

    def item(self) -> int:
        """Return the number."""
        return int(self)

    def __getitem__(self, _: Any) -> int:
        return int(self)


class _RoutedExperts:
    """All experts, in place of the tensor of those that were hit, `(experts, 1)`."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[_RoutedExpert]:
        return map(_RoutedExpert, range(self._count))

    def __getitem__(self, _: Any) -> "_RoutedExperts":
        return self

    def tolist(self) -> list[int]:
        """Return the numbers of the experts."""
        return list(range(self._count))


class _AllRouted(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Answer which experts were hit with "all", and whether a token was sent to one with "yes"."""

    def __init__(self, count: int | None) -> None:
        super().__init__()
        self._count = count
        self._places: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.nonzero, torch.nonzero):
            hits = _RoutedExperts(self._experts(int(args[0].shape[0])))
            return (hits,) if (kwargs or {}).get("as_tuple") else hits
        args = [_kept_axis(func, item) for item in args]
        result = func(*args, **(kwargs or {}))
        if func is torch.where and len(args) == 1:
            self._places += result
        return self._at_least_one(func, args, result)

    def _experts(self, classes: int) -> int:
        """Return how many experts there are; of the classes of a mask, the one behind them may stand for none."""
        return classes if self._count is None else min(classes, self._count)

    def _at_least_one(self, func: Any, args: Any, result: Any) -> Any:
        """Return the size of what a `where` has found as one that is never 0."""
        if not any(item is place for item in args[:1] for place in self._places):
            return result
        if func is torch.Tensor.numel:
            return _positive(result)
        # The getter is a new object each time it is asked for.
        is_shape = func == torch.Tensor.shape.__get__
        return tuple(map(_positive, result)) if is_shape else result


def _positive(size: Any) -> Any:
    """Return a size, or 1 for 0; `torch.jit.trace` has tensors for sizes."""
    return size.clamp(min=1) if isinstance(size, torch.Tensor) else torch.sym_max(size, 1)


def _kept_axis(func: Any, item: Any) -> Any:
    """Return an index as upstream has it: that of a tensor of one element keeps its axis."""
    if func is torch.Tensor.__getitem__ and isinstance(item, _RoutedExpert):
        return slice(int(item), int(item) + 1)
    if func is torch.Tensor.__getitem__ and isinstance(item, tuple):
        return tuple(torch.tensor([int(part)]) if isinstance(part, _RoutedExpert) else part for part in item)
    return item

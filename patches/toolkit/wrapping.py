"""Call the original unless a graph is recorded, which is what nearly every replacement does."""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.registry import Unchanged

from .tracing import is_traced


def when_traced(original: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `traced` if one of its arguments is recorded, and the original otherwise.

    Args:
        original: what was there; its signature is that of the result.
        traced: takes the same arguments.
    """
    import torch

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        tensors = (item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor))
        return (traced if any(map(is_traced, tensors)) else original)(*args, **kwargs)

    return replacement


def changed(factory: Callable[..., Callable[..., Any] | Unchanged], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a factory makes of `original`, which is `original` itself where the factory leaves it as it is."""
    made = factory(original)
    return original if isinstance(made, Unchanged) else made

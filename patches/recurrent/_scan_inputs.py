"""Tensors as torch's `scan` takes them."""

from typing import Any


def apart(tensor: Any, dtype: Any = None) -> Any:
    """Return a copy of a tensor, in another type if one is given, that shares nothing with what it was made of.

    What needs a gradient makes another operator of `scan`, and views drag the symbols of their bases along.
    """
    detached = tensor.detach()
    return (detached if dtype is None else detached.to(dtype)).clone()

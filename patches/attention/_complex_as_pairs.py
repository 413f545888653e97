"""Complex numbers as pairs of real ones, for code that turns vectors by them."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Pairs:
    """Complex numbers, of which ONNX has none, as real and imaginary parts along the last axis.

    It can do what upstream asks of what it turns vectors by: get another axis, be moved, and multiply.

    Args:
        parts: `(..., 2)`, real.
    """

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    @property
    def device(self) -> Any:
        """Where the numbers are."""
        return self.parts.device

    def to(self, device: Any) -> "Pairs":
        """Return the numbers on another device."""
        return Pairs(self.parts.to(device))

    def unsqueeze(self, dim: int) -> "Pairs":
        """Return the numbers with one axis more, counted from the first one."""
        return Pairs(self.parts.unsqueeze(dim))

    def __getitem__(self, index: Any) -> "Pairs":
        return Pairs(self.parts[index])

    def __mul__(self, other: "Pairs") -> "Pairs":
        real, imaginary = self.parts.unbind(-1)
        cosine, sine = other.parts.unbind(-1)
        return Pairs(torch.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0].parts if func is torch.view_as_real else NotImplemented


class AsPairs(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Make no complex tensor of a real one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Pairs(args[0]) if func is torch.view_as_complex else func(*args, **(kwargs or {}))

"""A table of positions that has every row: those of a module, and beyond them those that its class computes."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from exportcompat.patches.toolkit.function_modes import Override


class _EndlessSize:
    """The size of a table that is longer than any number, whatever it is compared with."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True

    __le__, __ge__ = __lt__, __gt__


class _Count(int):
    """A number of rows that is known from every other number by identity."""


class EndlessTable:
    """Stands for a tensor `(positions, features)` in a method that looks rows up, or lengthens it beforehand.

    Args:
        module: what has the table; its class computes one of any length by `get_embedding`.
        table: the rows that there are.
    """

    def __init__(self, module: Any, table: torch.Tensor) -> None:
        self._module, self._table = module, table
        self.dtype, self.device = table.dtype, table.device
        self.shape = (_EndlessSize(), table.shape[1])

    def size(self, dim: int | None = None) -> Any:
        """Return one size of the table, or both."""
        return self.shape if dim is None else self.shape[dim]

    def to(self, *args: Any, **kwargs: Any) -> "EndlessTable":
        """Return the table with the dtype and device that `torch.Tensor.to` would give its rows."""
        return EndlessTable(self._module, self._table.to(*args, **kwargs))

    def index_select(self, dim: int, positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of one-dimensional `positions`, int64; `dim` is 0, as nothing else is looked up."""
        if dim != 0:
            raise NotImplementedError(f"rows are looked up along axis 0, not {dim}")
        last = self._table.shape[0] - 1
        known = self._table.index_select(0, positions.clamp(max=last))
        return torch.where((positions > last)[:, None], self._computed(positions), known)

    def _computed(self, positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of `positions` as the class computes those of `0, 1, 2, ...`: no row rests on another."""
        count: Any = positions.shape[0]
        count = _Count(count) if isinstance(count, int) else count
        others = (
            {"padding_idx": None} if "padding_idx" in inspect.signature(self._module.get_embedding).parameters else {}
        )

        def arange(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return positions if args and args[0] is count else function(*args, **kwargs)

        with positions.device, Override({torch.arange: arange}):
            rows = self._module.get_embedding(count, self.shape[1], **others)
        return rows.to(dtype=self.dtype, device=self.device)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.nn.functional.embedding:
            return NotImplemented
        positions, table = args[0], args[1] if len(args) > 1 else (kwargs or {})["weight"]
        return table.index_select(0, positions.reshape(-1)).reshape(*positions.shape, table.shape[1])

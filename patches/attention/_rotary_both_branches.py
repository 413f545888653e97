"""Rotary embeddings to transformers 4.53: an `if` on the longest position, answered both ways while it is traced."""

import inspect
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.module_state import preserved
from exportcompat.patches.toolkit.tracing import is_traced


class LongestPosition:
    """The longest position of a call, whose comparison with a limit is answered beforehand.

    Attributes:
        value: the length, a tensor.
        is_beyond: the answer to "is it beyond the limit?".
        questions: the limits that it was compared with, in order.
    """

    def __init__(self, value: Any, is_beyond: bool, questions: list[Any]) -> None:
        self.value = value
        self.is_beyond = is_beyond
        self.questions = questions

    def __add__(self, other: Any) -> "LongestPosition":
        return LongestPosition(self.value + other, self.is_beyond, self.questions)

    def __mul__(self, other: Any) -> Any:
        return self.value * other

    __rmul__ = __mul__

    def __gt__(self, limit: Any) -> bool:
        self.questions.append(self.value > limit)
        return self.is_beyond

    def __lt__(self, limit: Any) -> bool:
        return not self.is_beyond


class _FixedBranch(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Let `torch.max(positions)` be a `LongestPosition`."""

    def __init__(self, positions: Any, is_beyond: bool) -> None:
        super().__init__()
        self._positions = positions
        self._is_beyond = is_beyond
        self.questions: list[Any] = []

    def length_of(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the length that a model hands over itself, which is asked in place of the positions."""
        import torch

        length = given.get("seq_len")
        if not isinstance(length, torch.SymInt):
            return {}
        return {"seq_len": LongestPosition(torch.scalar_tensor(length), self._is_beyond, self.questions)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import torch

        result = func(*args, **(kwargs or {}))
        is_asked = func is torch.max and len(args) == 1 and args[0] is self._positions
        return LongestPosition(result, self._is_beyond, self.questions) if is_asked else result


def patch_rotary_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run a rotary `forward(x, position_ids, ...)` for short and for long calls, and pick in the graph."""
    import torch

    signature = inspect.signature(original)

    def forward(self: Any, x: Any, position_ids: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(position_ids):
            return original(self, x, position_ids, *args, **kwargs)
        given = signature.bind(self, x, position_ids, *args, **kwargs).arguments
        results = []
        for is_beyond in (True, False):
            mode = _FixedBranch(position_ids, is_beyond)
            with preserved(self), mode:
                _forget(self)
                results.append(original(**{**given, **mode.length_of(given)}))
            if not mode.questions:
                return results[0]
        return tuple(torch.where(mode.questions[0], *pair) for pair in zip(*results, strict=True))

    return forward


def _forget(module: Any) -> None:
    """Take back what earlier calls have left on the module, a limit and frequencies; a graph has no earlier calls."""
    vars(module).pop("long_inv_freq", None)
    if hasattr(module, "original_max_seq_len"):
        module.max_seq_len_cached = module.original_max_seq_len

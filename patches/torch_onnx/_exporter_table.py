"""The table of decompositions that the exporter asks for, which is known by its class."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any


class ExporterTable(dict[Any, Any]):
    """What the exporter takes apart, and how.

    Args:
        decompositions: a function for each operator.
        functions: the operators that the exporter has a function of ONNX for.

    Attributes:
        functions: see above.
        partial: the operators of which some calls are taken apart, and the others left.
    """

    def __init__(self, decompositions: Mapping[Any, Any], functions: Iterable[Any]) -> None:
        super().__init__(decompositions)
        self.functions = frozenset(functions)
        self.partial: set[Any] = set()

    def correct(self, corrections: Mapping[Any, Callable[..., Any]]) -> None:
        """Let functions take operators apart first; what they answer by `NotImplemented` is done as before."""
        for operator, function in corrections.items():
            self[operator] = or_else(function, self.get(operator))
            self.partial.add(operator)


def or_else(function: Callable[..., Any], other: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a function that leaves the calls which are not its own to the one that is there, if any."""
    if other is None:
        return function

    def take_apart(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        return other(*args, **kwargs) if answer is NotImplemented else answer

    return take_apart

"""The table of decompositions that the exporter asks for, which is known by its class."""

from collections.abc import Iterable, Mapping
from typing import Any


class ExporterTable(dict[Any, Any]):
    """What the exporter takes apart, and how.

    Args:
        decompositions: a function for each operator.
        functions: the operators that the exporter has a function of ONNX for.
        partial: the operators of which some calls are taken apart, and the others left.
    """

    def __init__(self, decompositions: Mapping[Any, Any], functions: Iterable[Any], partial: Iterable[Any]) -> None:
        super().__init__(decompositions)
        self.functions = frozenset(functions)
        self.partial = frozenset(partial)

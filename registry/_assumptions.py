"""What a graph takes for granted of its inputs: the record, and who is told of it."""

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from ._errors import AssumptionError, AssumptionWarning

OnAssumption = Literal["warn", "error", "ignore"]
AssumptionKind = Literal["branch", "number", "operator", "shortcut"]


@dataclass(frozen=True)
class Assumption:
    """Something that the capture of a graph decided about dynamic sizes by those of the sample.

    Attributes:
        condition: where the graph is right: a Python expression on names of axes that is true for the sample, such as
            `"past_sequence + sequence <= 2048"`.
        kind: `"branch"` (one side of an `if`, a `while` or the like is in the graph), `"number"` (a size became a
            Python number), `"operator"` (an operator of torch was taken apart in one of several ways) or `"shortcut"`
            (a branch for one size alone is left out; what the graph has instead is as a rule the same, only slower).
        file: source file of the model that asked.
        line: line in it.
        function: name of the function.
        source: that line, without indentation.
        sample: the size in the sample, for each name of the condition.
    """

    condition: str
    kind: AssumptionKind
    file: str
    line: int
    function: str
    source: str
    sample: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sample.items())
        has = f" (the sample has {sizes})" if sizes else ""
        return (
            f"the graph is right only where {self.condition}{has}: "
            f"{self.file}:{self.line}, in {self.function}: {self.source}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


class Listener(Protocol):
    """An open scope.

    Attributes:
        thread: identifier of the thread that has opened it.
        on_assumption: what is to be done.
    """

    thread: int
    on_assumption: OnAssumption

    def note_assumptions(self, assumptions: Sequence[Assumption]) -> None:
        """Put them into the report."""


_LISTENERS: list[Listener] = []


def listen(listener: Listener) -> None:
    """Tell `listener` of assumptions from now on."""
    _LISTENERS.append(listener)


def forget(listener: Listener) -> None:
    """Tell `listener` no more."""
    if listener in _LISTENERS:
        _LISTENERS.remove(listener)


def tell_assumptions(assumptions: Sequence[Assumption]) -> None:
    """Put assumptions into the reports of the open scopes, and warn or raise as the innermost scope says.

    Shortcuts are in the reports alone.

    Raises:
        AssumptionError: there is one, and the scope was opened with `on_assumption="error"`.
    """
    mine = [item for item in _LISTENERS if item.thread == threading.get_ident()] or list(_LISTENERS)
    for listener in mine:
        listener.note_assumptions(assumptions)
    grave = [item for item in assumptions if item.kind != "shortcut"]
    if not grave or not mine or mine[-1].on_assumption == "ignore":
        return
    if mine[-1].on_assumption == "error":
        raise AssumptionError(grave)
    _warn(grave)


def _warn(assumptions: Sequence[Assumption]) -> None:
    """Warn once for each line of the model, as if it had given the warning itself."""
    lines: dict[tuple[str, int], list[Assumption]] = {}
    for item in assumptions:
        lines.setdefault((item.file, item.line), []).append(item)
    for (file, line), items in lines.items():
        more = f" (and {len(items) - 1} more conditions of this line)" if len(items) > 1 else ""
        warnings.warn_explicit(f"{items[0]}{more}", AssumptionWarning, file, line)

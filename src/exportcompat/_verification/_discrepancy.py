"""How far an exported file is from eager, call by call."""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, overload

from exportcompat._extras import require
from exportcompat.registry import html_table, text_table

TOLERANCE = 1e-3
"""The largest absolute difference of any element in float32, where few are larger than `_LARGE`."""

_LARGE = 100.0
"""Where elements are larger, more is allowed by as much: of one of 6,000 float32 rounds 4e-4 off at once."""

_MOST = 0.9
"""The share of the different elements that are not larger than the size that counts."""

_COARSE = {"float16": 1e-2, "bfloat16": 8e-2}
"""For smaller types: the largest difference, as a multiple of the largest element (of 1, if that is less)."""


class Share(float):
    """A tolerance that is a share of the largest element, or of 1 where that is smaller."""


WIDENED = {"float16": Share(2e-3), "bfloat16": Share(1e-2)}
"""Of a copy in float32 of such a file: numbers that stand in the file itself, such as factors, were rounded."""

_TELLING = 2
"""Where no element is larger than this multiple of the tolerance, a result of zeros would nearly pass."""

_SHOWN = 20
"""Failing calls that are printed one by one."""


class _Details:
    """What a `Discrepancy` has besides its fields; `dataclasses.asdict` and a table of pandas leave it out."""

    group: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Discrepancy(_Details):
    """The comparison of one call.

    `vars` has all attributes. `group` and the shapes are no fields of the dataclass, so that
    `pandas.DataFrame(discrepancies)` has columns that fit a screen.

    Attributes:
        call: which call it is.
        group: the sequence of calls that it belongs to.
        past: tokens before it; None where there is no cache.
        new: tokens in it.
        absolute: largest absolute difference; NaN on one side counts as infinite.
        relative: largest absolute difference of an element, divided by the element or the tolerance if that is more.
        share: share of elements over the tolerance, 0 to 1.
        same_tokens: the most likely next token is the same for every sequence; None where there are no logits.
        success: no element is over the tolerance, the tokens are the same, something was compared.
        torch_ms: milliseconds in torch.
        onnx_ms: milliseconds in ONNX Runtime.
        inputs: shapes by name.
        outputs: shapes by name.
        sizes: sizes by the name of an axis, of a call that was made up for a bound.
        error: what went wrong, if there is nothing to compare, or nothing that is large enough to tell.
    """

    call: str
    past: int | None = None
    new: int | None = None
    absolute: float = float("inf")
    relative: float = float("inf")
    share: float = 1.0
    same_tokens: bool | None = None
    success: bool = False
    torch_ms: float = 0.0
    onnx_ms: float = 0.0
    error: str = ""
    group: InitVar[str] = ""
    inputs: InitVar[Mapping[str, tuple[int, ...]] | None] = None
    outputs: InitVar[Mapping[str, tuple[int, ...]] | None] = None
    sizes: InitVar[Mapping[str, int] | None] = None

    def __post_init__(
        self,
        group: str,
        inputs: Mapping[str, tuple[int, ...]] | None,
        outputs: Mapping[str, tuple[int, ...]] | None,
        sizes: Mapping[str, int] | None,
    ) -> None:
        vars(self).update(group=group, inputs=inputs or {}, outputs=outputs or {}, sizes=sizes or {})

    def __str__(self) -> str:
        if self.error:
            return f"{self.call}: {self.error}"
        tokens = {None: "", True: ", the same next token", False: ", another next token"}[self.same_tokens]
        over = f", {self.share:.2%} over the tolerance" if self.share else ""
        return f"{self.call}: off by {self.absolute:.2g}{over}{tokens}"


class Discrepancies(Sequence[Discrepancy]):
    """A row for each call. It prints as a table, in a notebook too, and is what `pandas.DataFrame` takes.

    Args:
        rows: the comparisons.
        notes: what else there is to say: where the file refuses calls, what was too dear to compare.
    """

    def __init__(self, rows: Sequence[Discrepancy], notes: Sequence[str] = ()) -> None:
        self._rows = tuple(rows)
        self.notes = tuple(notes)

    @overload
    def __getitem__(self, index: int) -> Discrepancy: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Discrepancy]: ...
    def __getitem__(self, index: int | slice) -> Discrepancy | Sequence[Discrepancy]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def success(self) -> bool:
        """Say whether something was compared, and every call succeeded."""
        return bool(self._rows) and all(row.success for row in self._rows)

    @property
    def worst(self) -> float | None:
        """The largest absolute difference; None if nothing was compared."""
        return max((row.absolute for row in self._rows), default=None)

    def __str__(self) -> str:
        return "\n".join([*text_table(self._cells()), *self._failures(), *self.notes, self.summary])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self._cells(), title=self.summary, notes=[*self._failures(), *self.notes])

    def plot(self, ax: Any = None) -> Any:
        """Draw the largest absolute difference of each call, on a logarithmic scale; failed calls are red.

        Args:
            ax: `matplotlib.axes.Axes` to draw into; None for new ones.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from ._plot import draw

        return draw([(row.absolute, row.success) for row in self], TOLERANCE, ax)

    @property
    def summary(self) -> str:
        """One line: how many calls, how many failed, how far off."""
        if not self._rows:
            return "FAILED: nothing was compared"
        failed = sum(not row.success for row in self._rows)
        verdict = f"FAILED in {failed} of" if failed else "ok:"
        return f"{verdict} {len(self._rows)} calls, largest difference {self.worst:.2g}"

    def _cells(self) -> list[tuple[str, ...]]:
        """Return a row for each group of calls: one of its own for each that is in none."""
        groups: dict[str, list[Discrepancy]] = {}
        for row in self._rows:
            groups.setdefault(row.group or row.call, []).append(row)
        cells: list[tuple[str, ...]] = [
            ("calls", "number", "absolute", "relative", "over", "torch ms", "onnx ms", "success")
        ]
        return cells + [_cells(name, rows) for name, rows in groups.items()]

    def _failures(self) -> list[str]:
        # What refuses one call mostly refuses all: it is said once.
        groups: dict[str, list[Discrepancy]] = {}
        for row in self._rows:
            if not row.success:
                groups.setdefault(row.error or str(row), []).append(row)
        failed = [_failure(rows) for rows in groups.values()]
        more = [f"and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []
        return failed[:_SHOWN] + more


def _failure(rows: list[Discrepancy]) -> str:
    return str(rows[0]) if len(rows) == 1 else f"{rows[0].call} and {len(rows) - 1} more: {rows[0].error}"


def _cells(name: str, rows: list[Discrepancy]) -> tuple[str, ...]:
    success = "yes" if all(row.success for row in rows) else "NO"
    largest = [max(getattr(row, field) for row in rows) for field in ("absolute", "relative", "share")]
    times = [sum(getattr(row, field) for row in rows) / len(rows) for field in ("torch_ms", "onnx_ms")]
    numbers = (f"{largest[0]:.2g}", f"{largest[1]:.2g}", f"{largest[2]:.2%}", *(f"{time:.2f}" for time in times))
    return (name, str(len(rows)), *numbers, success)


def measure(
    found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float | None = None, *, types: bool = True
) -> dict[str, Any]:
    """Return the fields of a `Discrepancy` that tell how far tensors are apart, by name, and which have other types.

    Args:
        found: what ONNX Runtime gave.
        wanted: what torch gave; each must have been found.
        tolerance: largest absolute difference; None for the one of the type.
        types: whether another type is an error; not where the types of a file are looked at by themselves.
    """
    found, wanted = (
        {name: in_a_graph(item) for name, item in tensors.items() if name in wanted} for tensors in (found, wanted)
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    fields: dict[str, Any] = {"outputs": shapes}
    for name, shape in shapes.items():
        other = tuple(found[name].shape) if name in found else None
        if other != shape:
            return {**fields, "error": f"output {name!r} has the shape {other}, and {shape} in eager"}
    parts = [_part(found[name], tensor, tolerance) for name, tensor in wanted.items() if tensor.numel()]
    if not parts:
        return {**fields, "error": "nothing was compared: no output has an element"}
    absolute, relative, over, count = (list(column) for column in zip(*parts, strict=True))
    small = "" if sum(over) else too_small(wanted, tolerance)
    error = (other_types(found, wanted) if types else "") or small
    share = sum(over) / sum(count)
    return {
        **fields,
        "absolute": max(absolute),
        "relative": max(relative),
        "share": share,
        "success": not sum(over) and not error,
        **({"error": error} if error else {}),
    }


def in_a_graph(tensor: Any) -> Any:
    """Return a tensor as a graph of ONNX has it: a complex one, `(...)`, is pairs of real numbers, `(..., 2)`."""
    return require("torch", "torch").view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def other_types(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return which of the tensors, by name, have another type than is wanted; empty if none has."""
    kinds = {name: (dtype_name(found[name].dtype), dtype_name(tensor.dtype)) for name, tensor in wanted.items()}
    return said_of_types({name: pair for name, pair in kinds.items() if pair[0] != pair[1]})


def said_of_types(kinds: Mapping[str, tuple[str, str]]) -> str:
    """Return what there is to say of types that differ: those that were found and wanted, by name."""
    return "; ".join(f"output {name!r} is {found}, and {wanted} in eager" for name, (found, wanted) in kinds.items())


def dtype_name(dtype: Any) -> str:
    """Return the name of a torch dtype without its module, such as `float32`."""
    return str(dtype).rpartition(".")[2]


def too_small(wanted: Mapping[str, Any], tolerance: float | None = None) -> str:
    """Return why expected outputs cannot tell right from wrong; empty if they can.

    It is the logits that count where there are any, and else the largest of all outputs.
    """
    counted = [wanted["logits"]] if "logits" in wanted else list(wanted.values())
    filled = [tensor for tensor in counted if tensor.numel()]
    if not filled or not all(tensor.is_floating_point() for tensor in filled):
        return ""
    limit = max(allowed(tensor, tolerance) for tensor in filled)
    largest = max(float(tensor.abs().nan_to_num(nan=float("inf")).max()) for tensor in filled)
    if largest > _TELLING * limit:
        return ""
    return (
        f"too small to tell: no element of the expected output is larger than {largest:.2g}, and {limit:.2g} is "
        "allowed; give the model larger weights or inputs, or a smaller tolerance"
    )


def _part(found: Any, wanted: Any, tolerance: float | None) -> tuple[float, float, int, int]:
    torch = require("torch", "torch")
    limit, is_equal = allowed(wanted, tolerance), found.detach().cpu() == wanted.detach().cpu()
    left, right = found.detach().cpu().double(), wanted.detach().cpu().double()
    # Infinities of the same sign are equal, and their difference is not a number. Large integers may be one float64.
    apart = (left - right).abs().clamp(min=0.0 if wanted.is_floating_point() else 1.0)
    difference = torch.where(is_equal, 0.0, apart).nan_to_num(nan=float("inf"))
    relative = difference / right.abs().clamp(min=limit).nan_to_num(nan=limit)
    return difference.max().item(), relative.max().item(), int((difference > limit).sum()), difference.numel()


def allowed(wanted: Any, tolerance: float | None = None) -> float:
    """Return the tolerance for a tensor, by the size of its elements; in float32 if not only few are above 100.

    Integers and truth values are exact, whatever tolerance is given.
    """
    if not wanted.is_floating_point():
        return TOLERANCE
    if isinstance(tolerance, Share):
        return tolerance * max(1.0, float(wanted.abs().max()))
    if tolerance is not None:
        return tolerance
    name = dtype_name(wanted.dtype)
    if name not in _COARSE:
        return TOLERANCE * max(1.0, _usual(wanted) / _LARGE)
    return _COARSE[name] * max(1.0, float(wanted.abs().max()))


def _usual(tensor: Any) -> float:
    """Return the size that one of ten different elements exceeds; what a mask puts there again and again is one."""
    sizes = tensor[tensor.isfinite()].abs().unique()
    return float(sizes[int(_MOST * (len(sizes) - 1))]) if len(sizes) else 0.0

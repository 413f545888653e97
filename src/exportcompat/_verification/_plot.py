"""A picture of how far a file is from eager, call by call."""

from collections.abc import Sequence
from typing import Any

from exportcompat._extras import require

_FLOOR = 1e-9
"""Where a difference of 0 is drawn: a logarithm has no place for it."""


def draw(calls: Sequence[tuple[float, bool]], limit: float, ax: Any = None) -> Any:
    """Draw the largest absolute difference of each call, and return the axes; see `Discrepancies.plot`.

    Args:
        calls: the difference, and whether it is right.
        limit: the largest difference that is allowed.
        ax: the axes to draw into.
    """
    pyplot = require("matplotlib.pyplot", "plot")
    axes = pyplot.subplots(figsize=(8, 3), layout="constrained")[1] if ax is None else ax
    heights = [_height(absolute) for absolute, _ in calls]
    # What could not be compared stands above everything else.
    top = 10 * max([limit, *(height for height in heights if height is not None)])
    for success, color, label in ((True, "tab:blue", "right"), (False, "tab:red", "not right")):
        found = [(number, height or top) for number, height in enumerate(heights) if calls[number][1] is success]
        if found:
            axes.scatter(*zip(*found, strict=True), s=12, color=color, label=label)
    axes.axhline(limit, color="gray", linewidth=0.8, linestyle="--", label=f"{limit:g}, allowed in float32")
    axes.set(yscale="log", xlabel="call", ylabel="largest difference", xlim=(-1, max(len(calls), 1)))
    axes.legend(loc="best", fontsize="small")
    return axes


def _height(absolute: float) -> float | None:
    """Return where a difference is drawn; None for one that is infinite."""
    return None if absolute == float("inf") else max(absolute, _FLOOR)

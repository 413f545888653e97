"""May a file take more rows than the calls had? A classifier without a token for padding takes one."""

import warnings
from typing import TYPE_CHECKING, Any

from . import _export_sample
from ._compared_call import Observed, first_line
from ._dynamic_axes import BATCH, Axes
from ._eager_refusal import eager_refusal
from ._tree import build_all

if TYPE_CHECKING:
    from ._observer import InputObserver

_MORE = 3


def takes_more_rows(observer: "InputObserver") -> bool:
    """Say whether a model takes more rows than the one that it was observed with, and warn if it does not.

    The call that has most of the arguments is made with three rows, and with three times the images or sounds that
    stand in them. What was observed with several rows takes them. Where the model does not run on one row either,
    nothing is known, and the exporter has the last word.

    Args:
        observer: the calls.
    """
    observed = observer._observed(True)
    axes, aligned = observed.axes, observed.aligned
    seen = {int(call[path].shape[axis]) for call in aligned.calls for path, axis in _batch(axes) if path in call}
    if seen != {1}:
        return True
    base = max(aligned.calls, key=lambda call: len({aligned.argument(path) for path in call} - {aligned.cache}))
    error = _error(observed, base, _MORE)
    if error is None or _error(observed, base, 1) is not None:
        return True
    name = type(observed.model).__name__
    warnings.warn(f"the file takes one row: {name} refuses more ({first_line(error)})", stacklevel=3)
    return False


def _batch(axes: Axes) -> list[tuple[str, int]]:
    return [(path, axis) for path, named in axes.items() for axis, name in named.items() if name == BATCH]


def _error(observed: Observed, base: dict[str, Any], times: int) -> Exception | None:
    """Return what eager raises for a call whose rows are repeated; None if it runs."""
    aligned = observed.aligned
    tensors = {path: _repeated(tensor, observed.axes.get(path, {}), times) for path, tensor in base.items()}
    known = {**aligned.constants, **tensors}
    trees = {name: tree for name, tree in aligned.trees.items() if all(path in known for path in tree.leaves())}
    method = getattr(observed.model, observed.method)
    return eager_refusal(observed.model, lambda: method(**build_all(trees, known)))


def _repeated(tensor: Any, named: dict[int, str], times: int) -> Any:
    """Return a tensor with each row, image and sound several times; lengths stay."""
    rows = {axis: int(tensor.shape[axis]) * times for axis, name in named.items() if axis == 0 or name == BATCH}
    return _export_sample.resized(tensor, rows)

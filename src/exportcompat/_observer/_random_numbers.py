"""Random numbers that a model draws: two calls with the same arguments differ, and no file can be compared with it."""

from inspect import signature
from typing import TYPE_CHECKING, Any

from exportcompat._api import apply_patches
from exportcompat._extras import require
from exportcompat.patches.toolkit.module_state import preserved
from exportcompat.registry import ExportCompatError

from ._record import Record, take_result

if TYPE_CHECKING:
    from ._observer import InputObserver

_SAME = 1e-3
"""The largest difference of results that count as the same, absolute and of each element."""


def check_repeatable(observer: "InputObserver") -> None:
    """Refuse a model whose results are others in each call, because it draws random numbers.

    A call that has drawn some is made once more; one that has not costs nothing.

    Raises:
        ExportCompatError: the results differ.
    """
    model, method = observer._model, observer._method
    record = next((item for item in observer._records if item.has_drawn), None)
    path = None if record is None else _differing(record, _again(model, method, record))
    if path is not None:
        raise ExportCompatError(
            f"{type(model).__name__}.{method} draws random numbers: two calls with the same arguments differ in "
            f"{path or 'the result'!r}, so no file can be compared with it. Pass the argument, or set the field of "
            "the configuration, that it draws none with, such as sample=False or noise_scale=0.0; or pass verify=False "
            "to write the file without a comparison"
        )


def _again(model: Any, method: str, record: Record) -> dict[str, Any]:
    """Return the results of a call that is made once more, by path; the generators are as before afterwards."""
    torch = require("torch", "torch")
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    called = getattr(model, method)
    # What `generate` hands on as None, such as a decoder's mask, is in no record.
    wanted = [item for item in signature(called).parameters.values() if item.kind < item.VAR_KEYWORD]
    absent = {item.name: None for item in wanted if item.default is item.empty and item.kind != item.VAR_POSITIONAL}
    with torch.no_grad(), torch.random.fork_rng(devices), apply_patches(), preserved(model):
        return take_result(called(**absent | record.inputs.arguments())).tensors


def _differing(record: Record, found: dict[str, Any]) -> str | None:
    """Return the path of the first result of a call that is another one now; None if there is none."""
    both = {path: (item, found[path]) for path, item in record.outputs.tensors.items() if path in found}
    return next((path for path, (one, other) in both.items() if not _is_same(one, other)), None)


def _is_same(one: Any, other: Any) -> bool:
    torch = require("torch", "torch")
    is_alike = bool(one.shape == other.shape)
    return is_alike and bool(torch.allclose(one.double(), other.double(), rtol=_SAME, atol=_SAME, equal_nan=True))

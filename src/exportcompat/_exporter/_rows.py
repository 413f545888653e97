"""What eager says of the sample that is traced: how many rows it takes, and whether it takes it at all."""

import warnings
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import BATCH, InputObserver, first_line
from exportcompat._verification import PAST_ARGUMENT
from exportcompat.patches.toolkit.module_state import preserved
from exportcompat.registry import ExportCompatError


def explained(error: Exception, model: Any, observer: InputObserver) -> Exception:
    """Return why a model is refused, if it does not itself take what is traced; else the error of the exporter.

    Some models go on by one token alone. A trace has several, since what it answers for one holds for one alone.

    Args:
        error: what the exporter has raised.
        model: what was exported.
        observer: its calls.
    """
    found = None if isinstance(error, ExportCompatError) else _refusal(model, observer, True)
    if found is None:
        return error
    has_past = any(name.startswith(PAST_ARGUMENT) for name in observer.interface()[0])
    hint = " Pass generate=False to export it for whole texts, without a cache" if has_past else ""
    what = "several tokens behind a past" if has_past else "the sample of several rows"
    return ExportCompatError(
        f"{type(model).__name__} itself, in eager mode, does not take {what}, which a graph is traced with, so there "
        f"is nothing to be right with: {first_line(found)}.{hint}"
    )


def takes_more_rows(model: Any, observer: InputObserver) -> bool:
    """Say whether a model takes more rows than the one that it was observed with, and warn if it does not.

    What was observed with several rows takes them. Where the model does not even run on one, nothing is known, and the
    exporter has the last word.

    Args:
        model: what was observed.
        observer: the calls.
    """
    error = _refusal(model, observer, True) if _has_one_row(observer) else None
    if error is None or _refusal(model, observer, None) is not None:
        return True
    warnings.warn(f"the file takes one row: {type(model).__name__} refuses more ({first_line(error)})", stacklevel=3)
    return False


def _has_one_row(observer: InputObserver) -> bool:
    """Say whether the rows are an axis that is enlarged for the trace."""
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    axes = {name for named in observer.axes().values() for name in named.values()}
    observer.infer_dynamic_shapes()
    varied = {name for named in observer.axes().values() for name in named.values()}
    return BATCH in axes - varied


def _refusal(model: Any, observer: InputObserver, batch: bool | None) -> Exception | None:
    """Return what eager raises for the sample of an export; None if it runs."""
    torch = require("torch", "torch")
    with warnings.catch_warnings():
        # The observer says that its last sample had other rows, which is what is wanted here.
        warnings.simplefilter("ignore")
        observer.infer_dynamic_shapes(set_batch_dimension_for=batch)
        args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    try:
        with torch.no_grad(), preserved(model):
            model(*args, **kwargs)
    except Exception as error:
        # Models raise exceptions of any class for what they do not take.
        return error
    return None

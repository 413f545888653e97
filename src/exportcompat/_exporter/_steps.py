"""The steps of an export that a model of one part and an encoder-decoder share, and what comes of it."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import InputObserver, Inputs, Tell, takes_more_rows
from exportcompat._serving import Served, make_lean
from exportcompat._verification import Discrepancies, Discrepancy
from exportcompat.registry import ExportCompatError, PatchReport

from ._onnx_program import name_axes
from ._opset import check_written, default_opset
from ._refusal import explained

DTYPES = ("float32", "float16", "bfloat16")

_NOISE = (
    ".*axis name.*",
    ".*different number of inputs than the flatten dynamic_shapes.*",
    ".*LeafSpec.* is deprecated",
)
"""Warnings of torch's exporter that are none of the user's business: axes get their names afterwards."""

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `export` was asked for, for models of one part and of two alike; see there for each.

    Attributes:
        opset: version of ONNX's operators, or None.
        dtype: of the copy that is exported, or None.
        external_data: whether the weights are in a second file; None for what their size says.
        tokenizer: saved beside the file, or None.
        about: further facts for the file.
        verify: whether the file is compared with eager.
        tolerance: of that comparison, or None.
        patches: keyword arguments of `apply_patches`.
        say: gets a line for each stage.
    """

    opset: int | None
    dtype: str | None
    external_data: bool | None
    tokenizer: Any
    about: Mapping[str, str]
    verify: bool
    tolerance: float | None
    patches: Mapping[str, Any]
    say: Progress


@dataclass(frozen=True)
class Exported:
    """What `export` made; it unpacks into path, report and discrepancies.

    Attributes:
        path: the ONNX file; the decoder of an encoder-decoder.
        report: which patches were applied and used.
        discrepancies: the comparison with eager; None if it was not asked for.
        files: other files that were written.
        served: the file that was derived for a runtime, if one was asked for.
        weights: what became of quantized weights; empty for a model without any.
        no_cache: why a file of a model that generates has no cache; empty for one that has, and for other models.
    """

    path: Path
    report: PatchReport
    discrepancies: Discrepancies | None
    files: list[Path] = field(default_factory=list)
    served: Served | None = None
    weights: str = ""
    no_cache: str = ""

    def __iter__(self) -> Iterator[Any]:
        yield from (self.path, self.report, self.discrepancies)

    def __str__(self) -> str:
        table = "not verified" if self.discrepancies is None else str(self.discrepancies)
        taken = [str(item) for item in self.report.assumptions if item.kind != "shortcut"]
        return "\n".join(
            [
                f"{self.path}, with {_count(self.report.used)}",
                *taken,
                *([self.weights] if self.weights else []),
                # The comparison of a file of one part says so, too.
                *([self.no_cache] if self.no_cache and self.no_cache not in table else []),
                table,
                *([] if self.served is None else [str(self.served)]),
            ]
        )


def _count(used: Sequence[str]) -> str:
    return f"{len(used)} {'spec' if len(used) == 1 else 'specs'}" if used else "no patch"


def verified(
    observer: InputObserver, path: Path, tolerance: float | None = None, say: Progress = lambda _: None, part: str = ""
) -> Discrepancies:
    """Compare; a file that ONNX Runtime cannot run here is there all the same."""
    with stage(f"verify {part}".rstrip(), say):
        try:
            return observer.check_discrepancies(path, tolerance=tolerance, progress_bar=_telling(say))
        except ExportCompatError as error:
            return Discrepancies([Discrepancy(call="all calls", error=str(error))])


def _telling(say: Progress) -> bool | Tell:
    """Return what is told of calls that are compared, where the caller counts, as the command line does."""
    count: Callable[[str, int, int], object] | None = getattr(say, "count", None)
    return False if count is None else partial(count, "calls")


def cast(model: Any, dtype: str | None) -> Any:
    """Return the model, or a copy in another dtype; the live model stays as it is."""
    if dtype is None:
        return model
    if dtype not in DTYPES:
        raise ExportCompatError(f"dtype {dtype!r} is not known; write one of {', '.join(DTYPES)}")
    wanted = getattr(require("torch", "torch"), dtype)
    found = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return model if found == {wanted} else copy.deepcopy(model).to(wanted)


def cast_inputs(inputs: Inputs, dtype: str | None) -> Inputs:
    """Return inputs whose tensors of floats have the wanted dtype, as the copy of the model has; None for any."""
    if dtype is None:
        return inputs
    torch = require("torch", "torch")
    wanted = getattr(torch, dtype)

    def to(leaf: Any) -> Any:
        return leaf.to(wanted) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    cast_all: Inputs = torch.utils._pytree.tree_map(to, inputs)
    return cast_all


def program(
    model: Any, observer: InputObserver, opset: int | None, say: Progress = lambda _: None
) -> tuple[Any, list[str]]:
    """Return the `torch.onnx.ONNXProgram` of what was observed, and the names of its inputs.

    Where nobody has asked for an opset, and a node cannot be written in the preferred one, the default of torch is
    taken, which is said.

    Raises:
        ExportCompatError: the model itself does not take what is traced.
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    names = observer.interface()
    batch = True if takes_more_rows(observer) else None
    try:
        made = None if opset is not None else _preferred(model, observer, batch, say)
        made = made or _exported(model, observer, batch, opset)
    except Exception as error:
        reason = explained(error, model, observer)
        if reason is None:
            raise
        raise reason from error
    name_axes(made, observer.axes())
    if not make_lean(made.model):
        say("  the graph stays as torch makes it, which is slower; with onnxscript 0.3 or later it is made lean")
    return made, names[0]


def _preferred(model: Any, observer: InputObserver, batch: bool | None, say: Progress) -> Any:
    """Return the program in the preferred opset; None if there is none, or a node cannot be written in it."""
    opset = default_opset()
    errors = require("torch.onnx._internal.exporter._errors", "torch")
    try:
        return None if opset is None else _exported(model, observer, batch, opset)
    except (errors.ConversionError, ExportCompatError) as error:
        # The second try may fail for a reason that has nothing to do with the opset; then that is what is raised.
        say(f"  opset {opset} cannot be written, taking the default of torch: {error}"[:300])
        return None


def _exported(model: Any, observer: InputObserver, batch: bool | None, opset: int | None) -> Any:
    torch = require("torch", "torch")
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=batch)
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    names = observer.interface()
    with warnings.catch_warnings():
        # What torch says of its own names and calls: nobody who exports can act on it.
        for text in _NOISE:
            warnings.filterwarnings("ignore", message=text)
        made = torch.onnx.export(
            model,
            args,
            kwargs=kwargs,
            dynamic_shapes=shapes,
            input_names=names[0],
            output_names=names[1],
            opset_version=opset,
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    check_written(made, opset)
    return made


def model_facts(model: Any) -> dict[str, str]:
    """Return what a file says of the model that it was made of."""
    config = getattr(model, "config", None)
    return {"model_class": type(model).__name__, "source": str(getattr(config, "_name_or_path", "") or "")}


@contextmanager
def stage(name: str, say: Progress) -> Iterator[None]:
    """Say when a stage begins, and how long it took."""
    say(f"{name} ...")
    begin = time.perf_counter()
    yield
    say(f"{name}: {time.perf_counter() - begin:.1f} s")

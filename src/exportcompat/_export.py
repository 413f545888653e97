"""Observe, export, finish, verify: one call for the whole way from a model to a file that is right."""

import copy
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError, OnDrift, PatchReport

from ._api import apply_patches
from ._clients import write_configs
from ._discrepancy import Discrepancies, Discrepancy
from ._extras import require
from ._finish import metadata, name_axes, save
from ._observer import InputObserver

_STEPS = 4
"""Tokens that `generate` makes while it is observed: a prefill and some steps with a cache."""

DTYPES = ("float32", "float16", "bfloat16")

Inputs = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """What `export` made.

    Attributes:
        path: the ONNX file.
        report: which patches were applied and used.
        discrepancies: the comparison with eager; None if it was not asked for.
        files: other files that were written.
    """

    path: Path
    report: PatchReport
    discrepancies: Discrepancies | None
    files: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        table = "not verified" if self.discrepancies is None else str(self.discrepancies)
        return f"{self.path}, with {', '.join(self.report.used) or 'no patch'}\n{table}"


def export(
    model: Any,
    observer_or_inputs: InputObserver | Inputs,
    path: str | Path,
    *,
    opset: int | None = None,
    dtype: str | None = None,
    external_data: bool | None = None,
    generate: bool | None = None,
    tokenizer: Any = None,
    about: Mapping[str, str] | None = None,
    verify: bool = True,
    tolerance: float | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    on_drift: OnDrift = "warn",
    progress: Progress | None = None,
) -> Exported:
    """Export a model to one ONNX graph that is right at other shapes, and compare it with eager.

    Args:
        model: an `nn.Module` in evaluation mode; it is as it was afterwards.
        observer_or_inputs: an `InputObserver` that has watched the model; or keyword arguments to run it with, one
            dict or several of different lengths.
        path: an `.onnx` file, or a folder, which then gets `model.onnx` and what clients read beside it.
        opset: version of ONNX's operators; None for the default of torch.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`: export a copy of the model in it. Takes inputs, no observer.
        external_data: write the weights to a second file; None does so from 2 GB on.
        generate: run `model.generate` on the inputs, so that there is a cache; None does so if the model can and the
            inputs hold no cache.
        tokenizer: saved to the folder.
        about: further facts for the file's `metadata_props`, under `exportcompat.<key>`.
        verify: compare with eager afterwards.
        tolerance: see `InputObserver.check_discrepancies`.
        include: see `apply_patches`, as `exclude` and `on_drift`.
        exclude: see `apply_patches`.
        on_drift: see `apply_patches`.
        progress: gets a line for each stage.

    Raises:
        ExportCompatError: an argument cannot be used, the calls do not agree, or the file cannot be written.
        MissingExtraError: a package is not installed.
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    path, say = _file(path), progress or (lambda _: None)
    for package in ("torch", "onnxscript", *(["onnxruntime"] if verify else [])):
        require(package, "onnx")
    patches: dict[str, Any] = {"include": include, "exclude": exclude, "on_drift": on_drift}
    observer = observer_or_inputs
    if not isinstance(observer, InputObserver):
        model = _cast(model, dtype)
        with _stage("observe", say), apply_patches(**patches):
            observer = observe(model, observer_or_inputs, generate=generate)  # type: ignore[arg-type]
    elif dtype is not None:
        raise ExportCompatError(f"dtype={dtype!r} needs inputs: what was observed has the dtype of the observed model")
    with _stage("export", say), apply_patches(**patches) as report:
        program, names = _program(model, observer, opset)
    with _stage("write", say):
        name_axes(program, observer.axes())
        save(program, path, metadata(report, {**_model_facts(model), **(about or {})}), external_data)
        files = write_configs(model, path, names, tokenizer) if path.name == "model.onnx" else []
    if not verify:
        return Exported(path, report, None, files)
    with _stage("verify", say):
        return Exported(path, report, _verified(observer, path, tolerance), files)


def _verified(observer: InputObserver, path: Path, tolerance: float | None) -> Discrepancies:
    """Compare; a file that ONNX Runtime cannot run here (it has no bfloat16 on the CPU) is there all the same."""
    try:
        return observer.check_discrepancies(path, tolerance=tolerance)
    except ExportCompatError as error:
        return Discrepancies([Discrepancy(call="all calls", error=str(error))])


def observe(model: Any, inputs: Inputs, *, generate: bool | None = None) -> InputObserver:
    """Run a model on inputs and return the observer that has watched it.

    A model that generates is run for a few tokens. Another is run on each of the inputs; if there is only one and it
    is a text, also on that text twice over, so that its length is seen to vary.

    Raises:
        ExportCompatError: there are no inputs, or the model cannot generate.
    """
    calls = [dict(inputs)] if isinstance(inputs, Mapping) else [dict(item) for item in inputs]
    if not calls:
        raise ExportCompatError("there are no inputs; give keyword arguments of the model, as a dict or several")
    observer = InputObserver()
    torch = require("torch", "torch")
    with observer(model, store_n_calls=max(3, 2 * len(calls))), torch.no_grad():
        if _generates(model, calls, generate):
            for call in calls:
                _generate(model, call)
        else:
            for call in calls:
                model(**call)
            _run_longer(model, calls)
    return observer


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".onnx" else path / "model.onnx"


def _cast(model: Any, dtype: str | None) -> Any:
    """Return the model, or a copy in another dtype; the live model stays as it is."""
    if dtype is None:
        return model
    if dtype not in DTYPES:
        raise ExportCompatError(f"dtype {dtype!r} is not known; write one of {', '.join(DTYPES)}")
    wanted = getattr(require("torch", "torch"), dtype)
    found = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return model if found == {wanted} else copy.deepcopy(model).to(wanted)


def _generates(model: Any, calls: list[dict[str, Any]], wanted: bool | None) -> bool:
    can = callable(getattr(model, "generate", None)) and getattr(model, "can_generate", lambda: True)()
    if wanted and not can:
        raise ExportCompatError(f"{type(model).__name__} cannot generate; pass generate=False")
    is_whole = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    has_cache = any("past_key_values" in call for call in calls)
    return can and not has_cache and not is_whole if wanted is None else wanted


def _generate(model: Any, call: dict[str, Any]) -> None:
    # transformers would stop at the end-of-text token, sample, or do without a cache, if the configuration says so.
    settings = {"min_new_tokens": _STEPS, "do_sample": False, "use_cache": True}
    fixed = settings if hasattr(model, "generation_config") else {}
    model.generate(**call, max_new_tokens=_STEPS, **fixed)


def _run_longer(model: Any, calls: list[dict[str, Any]]) -> None:
    """Run a model on a text twice over, if that is all there is to see how its length varies."""
    texts = [name for name, value in calls[0].items() if _is_text(calls[0], value)]
    if len(calls) > 1 or not texts:
        return
    longer = {name: value.repeat(1, 2) if name in texts else value for name, value in calls[0].items()}
    try:
        model(**longer)
    except Exception as error:
        message = (
            f"the length of {', '.join(texts)} is fixed in the graph: the model does not take twice of it ({error})"
        )
        warnings.warn(message, stacklevel=4)


def _is_text(call: Mapping[str, Any], value: Any) -> bool:
    tokens = call.get("input_ids")
    return tokens is not None and getattr(value, "shape", None) == tokens.shape and tokens.dim() == 2


def _program(model: Any, observer: InputObserver, opset: int | None) -> tuple[Any, list[str]]:
    torch = require("torch", "torch")
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    names = observer.interface()
    with warnings.catch_warnings():
        # torch says of each further axis of one name that the first one has it already.
        warnings.filterwarnings("ignore", message=".*axis name.*")
        program = torch.onnx.export(
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
    return program, names[0]


def _model_facts(model: Any) -> dict[str, str]:
    config = getattr(model, "config", None)
    return {"model_class": type(model).__name__, "source": str(getattr(config, "_name_or_path", "") or "")}


@contextmanager
def _stage(name: str, say: Progress) -> Iterator[None]:
    say(f"{name} ...")
    begin = time.perf_counter()
    yield
    say(f"{name}: {time.perf_counter() - begin:.1f} s")

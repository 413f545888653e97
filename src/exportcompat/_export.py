"""Observe, export, finish, verify: one call for the whole way from a model to a file that is right."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError, PatchReport

from ._api import apply_patches
from ._clients import write_configs
from ._discrepancy import Discrepancies, Discrepancy
from ._extras import require
from ._finish import metadata, name_axes, save
from ._observe import Inputs, is_pair, observe
from ._observer import InputObserver

DTYPES = ("float32", "float16", "bfloat16")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """What `export` made; it unpacks into path, report and discrepancies.

    Attributes:
        path: the ONNX file; the decoder of an encoder-decoder.
        report: which patches were applied and used.
        discrepancies: the comparison with eager; None if it was not asked for.
        files: other files that were written.
    """

    path: Path
    report: PatchReport
    discrepancies: Discrepancies | None
    files: list[Path] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.path, self.report, self.discrepancies)

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
    patches: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Export a model to one ONNX graph that is right at other shapes, and compare it with eager.

    An encoder-decoder that generates is exported to two, `encoder_model.onnx` and `decoder_model_merged.onnx`, which
    holds the first call and the later ones; see `TextDecoder`.

    Args:
        model: an `nn.Module` in evaluation mode; it is as it was afterwards.
        observer_or_inputs: an `InputObserver` that has watched the model, or what `observe` takes.
        path: an `.onnx` file, or a folder, which then gets `model.onnx` and what clients read beside it. For an
            encoder-decoder it is a folder.
        opset: version of ONNX's operators; None for the default of torch.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`: export a copy of the model in it. Takes inputs, no observer.
        external_data: write the weights to a second file; None does so from 128 MB on.
        generate: see `observe`.
        tokenizer: saved to the folder.
        about: further facts for the file's `metadata_props`, under `exportcompat.<key>`.
        verify: compare with eager afterwards.
        tolerance: see `InputObserver.check_discrepancies`.
        patches: keyword arguments of `apply_patches`.
        progress: gets a line for each stage.

    Raises:
        ExportCompatError: an argument cannot be used, the calls do not agree, or the file cannot be written.
        MissingExtraError: a package is not installed.
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    say = progress or (lambda _: None)
    _require_packages(verify=verify)
    if not isinstance(observer_or_inputs, InputObserver) and is_pair(model, observer_or_inputs, generate):
        from ._export_pair import export_pair

        return export_pair(
            model,
            observer_or_inputs,
            Path(path),
            opset=opset,
            dtype=dtype,
            external_data=external_data,
            tokenizer=tokenizer,
            about=about or {},
            verify=verify,
            tolerance=tolerance,
            patches=patches or {},
            say=say,
        )
    path = _file(path)
    model, observer = _observed(model, observer_or_inputs, dtype, generate, say, patches or {})
    with stage("export", say), apply_patches(**(patches or {})) as report:
        made, names = program(model, observer, opset)
    with stage("write", say):
        save(made, path, metadata(report, {**model_facts(model), **(about or {})}), external_data)
        files = write_configs(model, path, names, tokenizer) if path.name == "model.onnx" else []
    return Exported(path, report, verified(observer, path, tolerance, say) if verify else None, files)


def _require_packages(*, verify: bool) -> None:
    """Ask for everything at once: an export that fails at its last stage has cost the others."""
    for package in ("torch", "onnxscript", *(["onnxruntime"] if verify else [])):
        require(package, "onnx")


def _observed(
    model: Any,
    given: InputObserver | Inputs,
    dtype: str | None,
    generate: bool | None,
    say: Progress,
    patches: Mapping[str, Any],
) -> tuple[Any, InputObserver]:
    """Return the model in the wanted dtype, and an observer that has watched it."""
    if isinstance(given, InputObserver):
        if dtype is not None:
            raise ExportCompatError(f"dtype={dtype!r} needs inputs: the observed calls have the dtype of the model")
        return model, given
    model = cast(model, dtype)
    with stage("observe", say), apply_patches(**patches):
        return model, observe(model, given, generate=generate)


def verified(observer: InputObserver, path: Path, tolerance: float | None, say: Progress) -> Discrepancies:
    """Compare; a file that ONNX Runtime cannot run here (it has no bfloat16 on the CPU) is there all the same."""
    with stage("verify", say):
        try:
            return observer.check_discrepancies(path, tolerance=tolerance)
        except ExportCompatError as error:
            return Discrepancies([Discrepancy(call="all calls", error=str(error))])


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".onnx" else path / "model.onnx"


def cast(model: Any, dtype: str | None) -> Any:
    """Return the model, or a copy in another dtype; the live model stays as it is."""
    if dtype is None:
        return model
    if dtype not in DTYPES:
        raise ExportCompatError(f"dtype {dtype!r} is not known; write one of {', '.join(DTYPES)}")
    wanted = getattr(require("torch", "torch"), dtype)
    found = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return model if found == {wanted} else copy.deepcopy(model).to(wanted)


def program(model: Any, observer: InputObserver, opset: int | None) -> tuple[Any, list[str]]:
    """Return the `torch.onnx.ONNXProgram` of what was observed, and the names of its inputs."""
    torch = require("torch", "torch")
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    names = observer.interface()
    with warnings.catch_warnings():
        # torch says of each further axis of one name that the first one has it already.
        warnings.filterwarnings("ignore", message=".*axis name.*")
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
    name_axes(made, observer.axes())
    return made, names[0]


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

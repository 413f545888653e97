"""Observe, export, finish, verify: one call for the whole way from a model to a file that is right."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._companions import check_companions
from exportcompat._extras import require
from exportcompat._observer import InputObserver, Inputs, inner_model, is_encoder_decoder, observe
from exportcompat.registry import ExportCompatError, OnAssumption, Registry

from ._client_configs import write_configs
from ._encoder_decoder import export_encoder_decoder
from ._onnx_program import metadata, save
from ._opset import check_opset
from ._steps import Exported, Progress, cast, cast_inputs, model_facts, program, stage, verified


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
    on_assumption: OnAssumption = "warn",
    patches: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Export a model to one ONNX graph that is right at other shapes, and compare it with eager.

    An encoder-decoder that generates is exported to two, `encoder_model.onnx` and `decoder_model_merged.onnx`, which
    holds the first call and the later ones; see `TextDecoder`.

    Args:
        model: an `nn.Module` in evaluation mode; it is as it was afterwards. Of one with PEFT's adapters in its layers,
            or one that `torch.compile` made, the model inside is exported, adapters included.
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
        on_assumption: what to do where the graph is right for some of the dynamic sizes only; see `apply_patches`. The
            file has the assumptions in its `metadata_props`, and the comparison goes to both sides of each.
        patches: keyword arguments of `apply_patches`.
        progress: gets a line for each stage.

    Raises:
        AssumptionError: there is an assumption, and `on_assumption` is `"error"`; nothing is written.
        ExportCompatError: an argument cannot be used, the calls do not agree, or it cannot be written.
        MissingExtraError: a package is not installed.
        CompanionError: packages are installed that do not go together; nothing was done then.
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    say = progress or (lambda _: None)
    patches = {"on_assumption": on_assumption, **(patches or {})}
    _require_packages(patches.get("registry"), verify=verify)
    check_opset(opset)
    model = inner_model(model)
    if not isinstance(observer_or_inputs, InputObserver) and is_encoder_decoder(model, observer_or_inputs, generate):
        return export_encoder_decoder(
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
            patches=patches,
            say=say,
        )
    path = _file(path)
    model, observer = _observed(model, observer_or_inputs, dtype, generate, say, patches)
    with stage("export", say), apply_patches(**patches) as report:
        made, names = program(model, observer, opset)
    with stage("write", say):
        save(made, path, metadata(report, {**model_facts(model), **(about or {})}), external_data)
        files = write_configs(model, path, names, tokenizer) if path.name == "model.onnx" else []
    return Exported(path, report, verified(observer, path, tolerance, say) if verify else None, files)


def _require_packages(registry: Registry | None, *, verify: bool) -> None:
    """Ask for everything at once: an export that fails at its last stage has cost the others."""
    for package in ("torch", "onnxscript", *(["onnxruntime"] if verify else [])):
        require(package, "onnx")
    check_companions(registry)


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
        return model, observe(model, cast_inputs(given, dtype), generate=generate)


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".onnx" else path / "model.onnx"

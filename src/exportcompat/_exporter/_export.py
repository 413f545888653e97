"""Observe, export, finish, verify: one call for the whole way from a model to a file that is right."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from exportcompat._api import apply_patches
from exportcompat._companions import check_companions
from exportcompat._extras import require
from exportcompat._observer import (
    InputObserver,
    Inputs,
    as_written,
    check_inputs,
    check_repeatable,
    inner_model,
    is_encoder_decoder,
    no_cache,
    observe,
    observe_whole_texts,
    with_windows,
)
from exportcompat._serving import Weights, check_parts, check_weights, find_target
from exportcompat._serving import serve as derive_served
from exportcompat.registry import ExportCompatError, NoCacheError, OnAssumption, PatchReport, Registry

from ._client_configs import write_configs
from ._encoder_decoder import export_encoder_decoder
from ._onnx_program import metadata, save
from ._opset import check_opset
from ._placement import check_placement
from ._quantized import pack_nibbles, quantized_layers, weights_line
from ._steps import Exported, Progress, Settings, cast, cast_inputs, model_facts, program, stage, verified
from ._whole_texts import has_calls, or_for_whole_texts, with_no_cache
from ._window_layers import name_windows, window_facts, window_layers

CacheKind = Literal["full", "window"]
"""What a file's cache holds of layers that slide."""


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
    registry: Registry | None = None,
    progress: Progress | None = None,
    serve: str | None = None,
    weights: Weights | None = None,
    cache: CacheKind = "full",
) -> Exported:
    """Export a model to one ONNX graph that is right at other shapes, and compare it with eager.

    An encoder-decoder that generates is exported to two, `encoder_model.onnx` and `decoder_model_merged.onnx`, which
    holds the first call and the later ones; see `TextDecoder`.

    Where no graph with the cache of a model is right, it is exported for whole texts without one, unless a cache is
    asked for: by `generate=True`, by `cache` or `serve`, by an observer, or by inputs that have one. A warning, the
    result (`Exported.no_cache`) and the file then say so, why, and what gives a file with a cache.

    Args:
        model: an `nn.Module` in evaluation mode; it is as it was afterwards. Of one with PEFT's adapters in its layers,
            or one that `torch.compile` made, the model inside is exported, adapters included.
        observer_or_inputs: an `InputObserver` that has watched the model, or what `observe` takes.
        path: an `.onnx` file, or a folder, which then gets `model.onnx` and what clients read beside it. For an
            encoder-decoder it is a folder.
        opset: version of ONNX's operators; None for 23 where the installed torch, onnxscript and onnxruntime take
            it, and the model can be written in it, else for the default of torch.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`: export a copy of the model in it. Takes inputs, no observer.
        external_data: write the weights to a second file; None does so from 128 MB on.
        generate: run `model.generate`, and refuse a model whose cache no graph can have; False for `forward` with the
            inputs as they are; None for `generate` where the model can, with what is said above.
        tokenizer: saved to the folder.
        about: further facts for the file's `metadata_props`, under `exportcompat.<key>`.
        verify: compare with eager afterwards.
        tolerance: see `InputObserver.check_discrepancies`.
        on_assumption: what to do where the graph is right for some of the dynamic sizes only; see `apply_patches`. The
            file has the assumptions in its `metadata_props`, and the comparison goes to both sides of each.
        patches: keyword arguments of `apply_patches`.
        registry: the specs, as `apply_patches` takes them; None means those of this package.
        progress: gets a line for each stage.
        serve: also derive a file for a runtime, `"cpu"`, that is right within the contract that its metadata states
            and faster than the plain one; where there is none, `Exported.served` says why.
        weights: of that file, `"int8"`, `"int4"` or `"int4-zero-points"`; what they cost is measured and written down.
        cache: `"window"` for a file whose sliding layers take and return the last `window - 1` tokens alone, as eager
            does, and not the full past; its mask is as long as the whole text. It needs transformers 4.56.

    Raises:
        AssumptionError: there is an assumption, and `on_assumption` is `"error"`; nothing is written.
        NoCacheError: a cache is asked for, and no graph with it is right.
        ExportCompatError: an argument cannot be used, the weights are not in one place, the calls do not agree, the
            model draws random numbers that its results depend on and `verify` is True, or it cannot be written.
        MissingExtraError: a package is not installed.
        CompanionError: packages are installed that do not go together; nothing was done then.
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    say = progress or (lambda _: None)
    patches = _arguments(on_assumption, registry, patches or {})
    _require_packages(patches.get("registry"), verify=verify)
    check_opset(opset)
    check_serve(serve, weights)
    check_cache(cache, serve)
    model = inner_model(model)
    check_placement(model)
    given = observer_or_inputs
    if not isinstance(given, InputObserver):
        check_inputs(given)
    make: Callable[..., Exported] = export_encoder_decoder
    if isinstance(given, InputObserver) or not is_encoder_decoder(model, given, generate):
        make = partial(_export_one, generate=generate, serve=serve, weights=weights, cache=cache)
    else:
        check_parts(weights)
        _refuse_windows(cache)
        make = partial(export_encoder_decoder, serve=serve)
    settings = Settings(
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
    is_asked = bool(generate) or cache == "window" or serve is not None or has_calls(given)
    with as_written(model):
        return or_for_whole_texts(partial(make, model, given, Path(path), settings), is_asked=is_asked)


def _export_one(
    model: Any,
    given: InputObserver | Inputs,
    path: Path,
    settings: Settings,
    refusal: NoCacheError | None,
    *,
    generate: bool | None,
    serve: str | None,
    weights: Weights | None,
    cache: CacheKind,
) -> Exported:
    """Export a model of one part; see `export`. A refusal says why it is exported without a cache."""
    path, say = _file(path), settings.say
    model, observer = _observed(model, given, settings, generate, refusal)
    observer, windows = with_windows(observer) if cache == "window" else (observer, {})
    if settings.verify:
        check_repeatable(observer)
    with stage("export", say), apply_patches(**settings.patches) as report, window_layers(model, windows):
        made, names = program(model, observer, settings.opset, say)
        name_windows(made, windows)
        pack_nibbles(made.model)
    held = weights_line(quantized_layers(model), made.model)
    with stage("write", say):
        facts = {**model_facts(model), **window_facts(windows), **_quantized_fact(held)}
        facts.update(with_no_cache(settings.about, observer))
        save(made, path, metadata(report, facts), settings.external_data)
        files = write_configs(model, path, names, settings.tokenizer, windows) if path.name == "model.onnx" else []
    found = verified(observer, path, settings.tolerance, say) if settings.verify else None
    if serve is None:
        return Exported(path, report, found, files, weights=held, no_cache=no_cache(observer))
    with stage("serve", say):
        served = derive_served(path, observer, serve, weights=weights, tolerance=settings.tolerance, say=say)
    return Exported(path, report, found, files, served, held)


def _quantized_fact(held: str) -> dict[str, str]:
    return {"quantized": held} if held else {}


def check_serve(serve: str | None, weights: str | None) -> None:
    """Refuse a target or weights before any work."""
    check_weights(weights)
    if serve is not None:
        find_target(serve)
    elif weights is not None:
        raise ExportCompatError(f"weights={weights!r} are for a derived file; name its runtime too, serve='cpu'")


def check_cache(cache: str, serve: str | None) -> None:
    """Refuse a cache that there is not, or that no file is derived with, before any work."""
    if cache not in get_args(CacheKind):
        raise ExportCompatError(f"cache={cache!r} is not known; write 'full' or 'window'")
    if cache == "window" and serve is not None:
        raise ExportCompatError(
            f"cache='window' and serve={serve!r}: files are derived of those with the full past; leave out one of them"
        )


def _refuse_windows(cache: str) -> None:
    """Refuse for an encoder-decoder a cache that is for one file alone."""
    if cache == "window":
        raise ExportCompatError("cache='window' is for decoders of one file, and this is an encoder-decoder")


def _arguments(on_assumption: OnAssumption, registry: Registry | None, patches: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keyword arguments of `apply_patches`."""
    if registry is not None and patches.get("registry", registry) is not registry:
        raise ExportCompatError("two registries are given, as registry= and in patches=; leave one out, or give a | b")
    return {"on_assumption": on_assumption, "registry": registry, **patches}


def export_plainly(model: Any, inputs: Inputs, folder: Path) -> Exported:
    """Export by torch alone, with the axes and names that `export` finds, and compare; no patch is applied.

    Args:
        model: an `nn.Module` in evaluation mode.
        inputs: what `observe` takes.
        folder: gets `model.onnx`.

    Raises:
        Exception: what `torch.onnx.export` raises for a model that does not export.
    """
    with apply_patches():
        # Caches are taken apart by what a scope registers; nothing is exported in it.
        observer = observe(model, inputs)
    path = _file(folder)
    made, _ = program(model, observer, None)
    save(made, path, {}, None)
    return Exported(path, PatchReport(), verified(observer, path))


def _require_packages(registry: Registry | None, *, verify: bool) -> None:
    """Ask for everything at once: an export that fails at its last stage has cost the others."""
    for package in ("torch", "onnxscript", *(["onnx_ir", "onnxruntime"] if verify else [])):
        require(package, "onnx")
    check_companions(registry)


def _observed(
    model: Any,
    given: InputObserver | Inputs,
    settings: Settings,
    generate: bool | None,
    refusal: NoCacheError | None,
) -> tuple[Any, InputObserver]:
    """Return the model in the wanted dtype, and an observer that has watched it."""
    dtype = settings.dtype
    if isinstance(given, InputObserver):
        if dtype is not None:
            raise ExportCompatError(f"dtype={dtype!r} needs inputs: the observed calls have the dtype of the model")
        return model, given
    model = cast(model, dtype)
    with stage("observe", settings.say), apply_patches(**settings.patches):
        calls = cast_inputs(given, dtype)
        if refusal is not None:
            return model, observe_whole_texts(model, calls, refusal)
        return model, observe(model, calls, generate=generate)


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".onnx" else path / "model.onnx"

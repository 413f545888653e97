"""Export an encoder-decoder to two files: its encoder, and its decoder for the first call and the later ones."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._observer import Inputs, Parts, check_repeatable, no_cache, observe_encoder_decoder
from exportcompat._serving import drop_parts
from exportcompat._serving import serve as derive_served
from exportcompat._verification import FIRST, Discrepancies
from exportcompat.registry import ExportCompatError, NoCacheError

from ._client_configs import write_configs
from ._onnx_program import drop_unused, metadata, save
from ._steps import (
    Exported,
    Progress,
    Settings,
    cast,
    cast_inputs,
    model_facts,
    program,
    stage,
    verified,
)
from ._whole_texts import with_no_cache

ENCODER, DECODER = "encoder", "decoder"
FILES: Mapping[str, str] = {ENCODER: "encoder_model.onnx", DECODER: "decoder_model_merged.onnx"}
"""Names of the files; optimum calls a decoder "merged" that is both for the first call and for the later ones."""
WITHOUT_CACHE = "decoder_model.onnx"
"""The name that optimum has for a decoder of whole texts."""


def export_encoder_decoder(
    model: Any,
    inputs: Inputs,
    folder: Path,
    settings: Settings,
    refusal: NoCacheError | None,
    *,
    serve: str | None = None,
) -> Exported:
    """Export both parts of an encoder-decoder; see `export`. A refusal says why the decoder has no cache.

    Raises:
        ExportCompatError: `folder` is a file.
    """
    if folder.suffix == ".onnx":
        raise ExportCompatError(f"an encoder-decoder makes {' and '.join(FILES.values())}; name a folder, not {folder}")
    model, say = cast(model, settings.dtype), settings.say
    with stage("observe", say), apply_patches(**settings.patches):
        parts = observe_encoder_decoder(model, cast_inputs(inputs, settings.dtype), refusal)
    paths = {ENCODER: folder / FILES[ENCODER], DECODER: folder / (WITHOUT_CACHE if refusal else FILES[DECODER])}
    for _, observer in parts.values() if settings.verify else ():
        check_repeatable(observer)
    programs, taken = {}, {}
    with apply_patches(**settings.patches) as report:
        for name, (part, observer) in parts.items():
            before = len(report.assumptions)
            with stage(f"export {name}", say):
                programs[name] = program(part, observer, settings.opset, say)[0]
            taken[name] = report.assumptions[before:]
    drop_unused(programs[ENCODER])
    with stage("write", say):
        drop_parts(folder)
        for name, made in programs.items():
            known = {**model_facts(model), "part": name, **with_no_cache(settings.about, parts[name][1])}
            save(made, paths[name], metadata(report, known, taken[name]), settings.external_data)
        files = write_configs(model, paths[DECODER], [], settings.tokenizer)
    found = _verified(parts, paths, settings.tolerance, say) if settings.verify else None
    said = no_cache(parts[DECODER][1])
    made = Exported(paths[DECODER], report, found, [paths[ENCODER], *files], no_cache=said)
    if serve is None:
        return made
    with stage("serve", say):
        derived = derive_served(paths[DECODER], parts[DECODER][1], serve, tolerance=settings.tolerance, say=say)
    first = [] if derived.path is None else [derived.path.with_name(FIRST)]
    return replace(made, served=derived, files=[*made.files, *first])


def _verified(parts: Parts, paths: Mapping[str, Path], tolerance: float | None, say: Progress) -> Discrepancies:
    found = {name: verified(observer, paths[name], tolerance, say, name) for name, (_, observer) in parts.items()}
    return Discrepancies([replace(row, call=f"{name}: {row.call}") for name, rows in found.items() for row in rows])

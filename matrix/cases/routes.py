"""Cases of the other families by another way: `exportcompat.export`, `torch.export` alone, and TorchScript."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ._case import COMPARE_END_TO_END, COMPARE_UNPADDED, EXPORT_END_TO_END, Case, call

_BY_EXPORT = {
    "llama": "keys and values",
    "gemma2_window": "keys and values, of which some slide",
    "phi3_longrope": "a rope that depends on the length",
    "mamba": "states alone",
    "jamba": "states, and keys and values",
    "bert": "no cache",
    "llama_embedding": "a rope, and no cache",
    "deepseek_v4": "a past that is kept compressed",
    "llava": "images, and keys and values",
    "qwen2_5_vl": "images of their own sizes, and keys and values",
    "gemma4_image": "images with the places of their patches, and keys and values",
}
"""Models that stand for what `export` has to find out of a model."""

_EVERYWHERE = ("llama", "bert")
"""Models whose way by `export` is run in every cell: what a page shows first must work wherever anything does."""

_IN_BFLOAT16 = {
    "gpt_oss": "experts are chosen by `TopK`, which has no bfloat16",
    "gemma3": "norms multiply with a scale in float32",
}
"""Models whose graphs have nodes that ONNX does not define for small types."""

_WITH_WINDOW_CACHE = {
    "mistral_window": "every layer slides",
    "gemma3": "some layers slide",
}
"""Models whose sliding layers hold their window alone, if they are asked to."""

_BY_TORCHSCRIPT = dict.fromkeys(
    (
        *("llama", "llama_dynamic", "phi3_longrope", "mistral_window"),
        *("gemma2_window", "mixtral", "deepseek_v3", "gpt_oss"),
    ),
    "the TorchScript exporter",
)
"""Models that stand for what patches do while `torch.jit.trace` records: ropes, windows, masks, experts."""

_BY_TORCH_EXPORT = dict.fromkeys(("llama", "whisper_decoder", "xlm", "flaubert"), "`torch.export`, saved and loaded")
"""Models that stand for what saving, loading and calling a program needs, and for what another try would mend."""

_BY_STRICT_EXPORT = dict.fromkeys(("llama", "mistral_window"), "`torch.export` with `strict=True`, saved and loaded")
"""Models that stand for what Dynamo needs to trace patches: of functions, and of objects that it makes itself."""


def routes(cases: Mapping[str, Case]) -> Iterator[Case]:
    """Yield the cases that go by another way than `torch.onnx.export(dynamo=True)`, made from those that go by it."""
    ways: tuple[tuple[Mapping[str, str], Callable[[Case, str], Case]], ...] = (
        (_BY_EXPORT, _by_export),
        (_IN_BFLOAT16, _in_bfloat16),
        (_WITH_WINDOW_CACHE, _with_window_cache),
        (_BY_TORCHSCRIPT, _by_torchscript),
        (_BY_TORCH_EXPORT, _by_torch_export),
        (_BY_STRICT_EXPORT, _by_strict_export),
    )
    for models, way in ways:
        for name, case in cases.items():
            if name in models:
                yield way(case, models[name])


def _by_export(case: Case, what: str) -> Case:
    """Return a case that goes by `exportcompat.export`."""
    is_unpadded = case.compare == COMPARE_UNPADDED
    compare = call("_by_export:compare_unpadded_end_to_end") if is_unpadded else COMPARE_END_TO_END
    return replace(
        case,
        name=f"{case.name}_export",
        title=f"{case.title}, by `export`: {what}",
        shown=False,
        everywhere=case.name in _EVERYWHERE,
        telling=False,
        compare=compare,
        write=EXPORT_END_TO_END,
    )


def _in_bfloat16(case: Case, what: str) -> Case:
    """Return a case that goes by `exportcompat.export` in bfloat16."""
    return replace(
        _by_export(case, what),
        name=f"{case.name}_bfloat16",
        title=f"{case.title}, in bfloat16: {what}",
        compare=call("_by_export:compare_in_bfloat16"),
        write=call("_by_export:export_in_bfloat16"),
    )


def _with_window_cache(case: Case, what: str) -> Case:
    """Return a case that goes by `exportcompat.export` with `cache="window"`."""
    return replace(
        _by_export(case, what),
        name=f"{case.name}_cache",
        title=f'{case.title}, with `cache="window"`: {what}',
        write=call("_by_export:export_window_cache"),
    )


def _by_torchscript(case: Case, what: str) -> Case:
    """Return a case that goes by the TorchScript exporter."""
    return replace(
        case,
        name=f"{case.name}_script",
        title=f"{case.title}, by {what}",
        shown=False,
        everywhere=False,
        telling=False,
        write=call("_by_torchscript:export_script"),
        is_captured=False,
    )


def _by_torch_export(case: Case, what: str) -> Case:
    """Return a case that goes by `torch.export`, saved and loaded."""
    return replace(
        case,
        name=f"{case.name}_program",
        title=f"{case.title}, by {what}",
        shown=False,
        everywhere=False,
        telling=False,
        compare=call("_by_torch_export:compare_program", compare=case.compare),
        write=call("_by_torch_export:write_program"),
    )


def _by_strict_export(case: Case, what: str) -> Case:
    """Return a case that goes by `torch.export` with `strict=True`, saved and loaded."""
    program = _by_torch_export(case, what)
    return replace(program, name=f"{case.name}_strict", write=call("_by_torch_export:write_strict_program"))

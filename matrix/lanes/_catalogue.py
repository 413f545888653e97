"""All lanes, by name."""

from exportcompat.registry import ExportCompatError, did_you_mean

from . import (
    _aot_inductor,
    _executorch,
    _litert,
    _olive,
    _openvino,
    _optimum_onnx,
    _torch_export,
    _torchscript,
    _transformers_onnx,
)
from ._lane import Lane

CASES = (
    *("llama", "mistral_window", "phi3_longrope", "llama_dynamic", "mixtral"),
    *("qwen2_5_vl_vision", "whisper_encoder", "whisper_decoder"),
)
"""The telling cases: nothing special, a window, two ropes that depend on the length, experts, images, sounds."""

_MODULES = (
    *(_torch_export, _aot_inductor, _torchscript, _transformers_onnx),
    *(_optimum_onnx, _olive, _openvino, _executorch, _litert),
)

LANES: dict[str, Lane] = {lane.name: lane for module in _MODULES for lane in module.LANES}


def find_lane(name: str) -> Lane:
    """Return a lane.

    Raises:
        ExportCompatError: there is none of that name; the message names similar ones, or all.
    """
    if name not in LANES:
        hint = did_you_mean(name, LANES) or f"; lanes: {', '.join(LANES)}"
        raise ExportCompatError(f"there is no lane {name!r}{hint}")
    return LANES[name]


def cases_of(lane: Lane) -> tuple[str, ...]:
    """Return the names of the cases that a lane is tried with."""
    return lane.cases or CASES

"""What a case is about, in the words that users have: model type, task, attention, and the way that it is exported."""

from collections.abc import Iterable, Mapping
from typing import Any

from exportcompat.matrix.cases import CASES, family_of

_COMPOSITES = ("vision_encoder_decoder", "speech_encoder_decoder", "encoder_decoder")
"""Model types that are made of two others, and whose cases are named after one of these."""

_TASKS: Mapping[str, str] = {
    "toy_gpt": "text-generation",
    "causal_lm": "text-generation",
    "encoder_decoders": "text2text-generation",
    "encoders": "feature-extraction",
    "qwen_vl": "image-text-to-text",
    "multimodal": "image-text-to-text",
}
"""The task of the cases of each family, where the tables below do not say another."""

_TASKS_OF_TYPES: Mapping[str, str] = {
    "whisper": "automatic-speech-recognition",
    "speech_to_text": "automatic-speech-recognition",
    "vision_encoder_decoder": "image-to-text",
    "qwen2_audio": "audio-text-to-text",
    "voxtral": "audio-text-to-text",
    "vits": "text-to-audio",
    "rt_detr": "object-detection",
}
_TASKS_OF_MAKERS: Mapping[str, str] = {"make_classes": "text-classification"}
_PARTS: Mapping[str, str] = {"make_text_decoder": "decoder", "make_states_encoder": "encoder"}
"""Makers of one part of a model."""

_ENDS: Mapping[str, str] = {"_export": "exportcompat.export", "_script": "torchscript", "_program": "torch.export"}
"""Ends of the names of cases that go by another way than `torch.onnx.export(dynamo=True)`."""
DYNAMO = "dynamo"


def model_type_of(case: str, loaded: Iterable[Iterable[str]]) -> str:
    """Return the model type of a case, from the modules of models that were loaded for each of its results.

    Where several were loaded, it is the longest name that the case begins with, or else the one that was always loaded.

    Args:
        case: the name of the case.
        loaded: for each result the modules, such as `transformers.models.jamba.modeling_jamba`.

    Returns:
        The type as its folder in transformers is called; empty for a model that is not of transformers.
    """
    folders = [{module.split(".")[2] for module in modules} - {"auto"} for modules in loaded]
    always = set.intersection(*folders) if folders else set()
    named = [name for name in always if f"{case}_".startswith(f"{name}_")]
    composite = [name for name in _COMPOSITES if name in always]
    # A name that is given to several must not depend on the order of a set.
    return next(iter([*composite, *sorted(named, key=len, reverse=True), *sorted(always)]), "")


def facts_of(case: str, title: str, model_type: str) -> dict[str, Any]:
    """Return what a case is about: title, task, part of the model, attention, and the way that it is exported.

    Args:
        case: its name; a case that is gone has its title alone.
        title: what it is, for people.
        model_type: see `model_type_of`.
    """
    end = next((name for name in _ENDS if case.endswith(name)), "")
    if case not in CASES:
        return {"title": title, "task": "", "part": "", "attention": "default", "route": _ENDS.get(end, DYNAMO)}
    make = CASES[case].make
    maker = make.function.rpartition(":")[2]
    task = _TASKS_OF_MAKERS.get(maker) or _TASKS_OF_TYPES.get(model_type) or _TASKS.get(family_of(case), "")
    is_tower = case.endswith("_vision") and case != model_type
    return {
        "title": title,
        "task": "feature-extraction" if is_tower else task,
        "part": "vision encoder" if is_tower else _PARTS.get(maker, ""),
        "attention": "eager" if "eager" in make.arguments else "default",
        "route": _ENDS.get(end, DYNAMO),
    }

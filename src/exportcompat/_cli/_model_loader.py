"""Load a model of transformers from a folder or the hub, and make inputs for it: what the command line needs."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import first_line
from exportcompat.registry import ExportCompatError

from ._tasks import (
    PAIRS,
    SUFFIXES,
    TASKS,
    WITH_PAST,
)

_SEED = 0
_GENERATING = ("ForConditionalGeneration", "MTModel")
_TOKENS = (2, 8)
"""Sequences and tokens of a made-up text."""


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to be observed.

    Attributes:
        model: in evaluation mode.
        tokenizer: None if there is none.
        task: what it is loaded for.
        inputs: keyword arguments to run it with.
    """

    model: Any
    tokenizer: Any
    task: str
    inputs: dict[str, Any]

    @property
    def generates(self) -> bool:
        """Say whether the task has a cache."""
        return self.task == WITH_PAST or self.task in PAIRS


def load(source: str, task: str | None = None, prompt: str | None = None) -> Loaded:
    """Load a model and make inputs for it; where the weights come from is up to transformers.

    Args:
        source: a folder, or the name of a repository of the hub.
        task: one of `TASKS`; None for the one that fits the architecture in the configuration.
        prompt: a text; None for made-up tokens.

    Raises:
        ExportCompatError: the model cannot be loaded, or there is no way to make inputs for it here.
        MissingExtraError: transformers is not installed.
    """
    transformers = require("transformers", "transformers")
    config = _loading(source, lambda: transformers.AutoConfig.from_pretrained(source))
    chosen = task or _task(config, source)
    loader = getattr(transformers, TASKS[chosen])
    model = _loading(source, lambda: loader.from_pretrained(source)).eval()
    tokenizer = _tokenizer(transformers, source)
    return Loaded(model, tokenizer, chosen, _inputs(model, tokenizer, prompt, chosen, source))


def _loading(source: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:
        # transformers, its hub client and safetensors raise exceptions of many classes for what cannot be read.
        hint = "" if Path(source).exists() else "; there is no such folder here, so it was taken for a name of the hub"
        raise ExportCompatError(f"cannot load {source!r}: {first_line(error)}{hint}") from error


def _task(config: Any, source: str) -> str:
    names = getattr(config, "architectures", None) or []
    if getattr(config, "is_encoder_decoder", False) and names and names[0].endswith(_GENERATING):
        text, sound = PAIRS
        return sound if hasattr(config, "num_mel_bins") else text
    for suffix, task in SUFFIXES.items():
        if names and names[0].endswith(suffix):
            return task
    raise ExportCompatError(
        f"{source!r} has the architectures {names}, which are of no known task; give --task, one of {', '.join(TASKS)}"
    )


def _tokenizer(transformers: Any, source: str) -> Any:
    try:
        return transformers.AutoTokenizer.from_pretrained(source)
    except Exception:
        # A model without a tokenizer is exported with made-up tokens.
        return None


def _inputs(model: Any, tokenizer: Any, prompt: str | None, task: str, source: str) -> dict[str, Any]:
    kind = model.main_input_name
    if kind == "pixel_values" and prompt is None:
        return {"pixel_values": _image(model.config)}
    if kind == "input_features" and prompt is None and hasattr(model.config, "max_source_positions"):
        return {"input_features": _features(model.config)}
    if kind != "input_ids":
        raise ExportCompatError(
            f"{source!r} takes {kind!r}, which cannot be made up here; call exportcompat.export(model, inputs, path)"
        )
    inputs = _text(model, tokenizer, prompt, source)
    return inputs if task != "text-generation" else {**inputs, "use_cache": False}


def _text(model: Any, tokenizer: Any, prompt: str | None, source: str) -> dict[str, Any]:
    torch = require("torch", "torch")
    if prompt is None:
        count = int(model.get_input_embeddings().weight.shape[0])
        generator = torch.Generator().manual_seed(_SEED)
        tokens = torch.randint(min(3, count - 1), count, _TOKENS, generator=generator)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if tokenizer is None:
        raise ExportCompatError(f"{source!r} has no tokenizer for --prompt; leave it out, and tokens are made up")
    known = inspect.signature(model.forward).parameters
    return {name: value for name, value in tokenizer(prompt, return_tensors="pt").items() if name in known}


def _features(config: Any) -> Any:
    """Return mel features of sounds that are as long as the encoder takes, `(batch, bins, frames)`, float32."""
    torch = require("torch", "torch")
    shape = (2, config.num_mel_bins, 2 * config.max_source_positions)
    return torch.randn(shape, generator=torch.Generator().manual_seed(_SEED))


def _image(config: Any) -> Any:
    torch = require("torch", "torch")
    size = config.image_size
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(config, "num_channels", 3)
    return torch.rand(2, channels, height, width, generator=torch.Generator().manual_seed(_SEED))

"""The files that clients read beside an exported decoder: transformers' configuration, and onnxruntime-genai's."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exportcompat._text_config import text_config
from exportcompat._verification import (
    LOGITS,
    PAST,
    PAST_ARGUMENT,
    PRESENT,
)

_SEARCH = {
    "do_sample": False,
    "min_length": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    # One buffer for past and present needs an operator that appends in place.
    "past_present_share_buffer": False,
}


_TYPES = (
    *("ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "nemotron", "olmo", "phi", "phi3"),
    *("phi3small", "phimoe", "qwen2", "qwen3", "smollm3"),
)
"""Model types that onnxruntime-genai 0.18 knows as plain decoders."""

_DECODER = "decoder"
"""Its type for any other one."""

_TOKENS = ("input_ids", "attention_mask", "position_ids")
"""What it gives a decoder besides keys and values."""


def write_configs(
    model: Any, path: Path, inputs: list[str], tokenizer: Any = None, windows: Mapping[str, int] | None = None
) -> list[Path]:
    """Write `config.json`, `generation_config.json`, the tokenizer and, for a decoder, `genai_config.json`.

    Args:
        model: the exported model; one without a configuration of transformers gets no files.
        path: the ONNX file.
        inputs: the names of its inputs.
        tokenizer: a tokenizer of transformers.
        windows: of inputs that hold no more; onnxruntime-genai gives every layer the full past.
    """
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "save_pretrained"):
        return []
    before = set(path.parent.iterdir())
    config.save_pretrained(path.parent)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(path.parent)
    if tokenizer is not None:
        tokenizer.save_pretrained(path.parent)
    found = _genai_config(config, path.name, inputs) if not windows and _is_for_genai(config, inputs) else None
    if found is not None:
        (path.parent / "genai_config.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return sorted(set(path.parent.iterdir()) - before)


def _is_for_genai(config: Any, inputs: list[str]) -> bool:
    """Say whether onnxruntime-genai can call a file: it knows of tokens, keys and values, and not of images or states.

    Its positions are those of a text, `(batch, sequence)`; a model with rows for time, height and width has others.
    """
    cache = [name for name in inputs if name.startswith(f"{PAST_ARGUMENT}.")]
    text = text_config(config)
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    others = [name for name in inputs if name not in cache and name not in _TOKENS]
    is_plain = all(name.endswith((".key", ".value")) for name in cache)
    return bool(cache) and is_plain and not others and "input_ids" in inputs and "mrope_section" not in rope


def _genai_config(config: Any, filename: str, inputs: list[str]) -> dict[str, Any] | None:
    """Return the configuration of onnxruntime-genai, or None, with a warning, for a model that it cannot describe."""
    try:
        return genai_config(config, filename, inputs)
    except Exception as error:
        # Some configurations have sizes for each layer (Gemma 4), others no sizes, or by other names.
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        warnings.warn(
            f"genai_config.json is not written: onnxruntime-genai wants sizes that all layers share, and the "
            f"configuration does not give them ({reason}); run the file with ONNX Runtime or optimum instead",
            stacklevel=4,
        )
        return None


def genai_config(config: Any, filename: str, inputs: list[str]) -> dict[str, Any]:
    """Return the configuration of onnxruntime-genai for a decoder with keys and values of one size."""
    text = text_config(config)
    length = int(getattr(text, "max_position_embeddings", None) or 2048)
    model = {
        "bos_token_id": _token(text, "bos_token_id", 0),
        "eos_token_id": _token(text, "eos_token_id", 0),
        "pad_token_id": _token(text, "pad_token_id", _token(text, "eos_token_id", 0)),
        "context_length": length,
        "decoder": _decoder(text, filename, inputs),
        "type": text.model_type if text.model_type in _TYPES else _DECODER,
        "vocab_size": int(text.vocab_size),
    }
    return {"model": model, "search": {**_SEARCH, "max_length": length}}


def _decoder(text: Any, filename: str, inputs: list[str]) -> dict[str, Any]:
    heads = int(text.num_attention_heads)
    tokens = {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in inputs}
    return {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": filename,
        "head_size": int(getattr(text, "head_dim", None) or text.hidden_size // heads),
        "hidden_size": int(text.hidden_size),
        "num_attention_heads": heads,
        "num_hidden_layers": int(text.num_hidden_layers),
        "num_key_value_heads": int(getattr(text, "num_key_value_heads", None) or heads),
        "inputs": {**tokens, **_patterns("past", PAST)},
        "outputs": {LOGITS: LOGITS, **_patterns("present", PRESENT)},
    }


def _patterns(which: str, pattern: str) -> dict[str, str]:
    return {f"{which}_{part}_names": pattern.format("%d", part) for part in ("key", "value")}


def _token(config: Any, name: str, default: Any) -> Any:
    value = getattr(config, name, None)
    return default if value is None else value

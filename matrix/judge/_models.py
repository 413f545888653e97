"""The models that are judged: decoders with tiny configurations and random weights, saved as a user has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.matrix.zoo import build_type

TASK = "text-generation-with-past"
_LIMIT = 16
"""Tokens up to which the ropes that depend on the length are as short ones; the calls are on both sides of it."""
_TOKENS = 256
"""Words of the tokenizer: as many as the vocabularies of the zoo have."""


@dataclass(frozen=True)
class JudgedModel:
    """A decoder that files are made of.

    Attributes:
        name: what results have.
        title: what is special about it; empty for nothing.
        model_type: as in a `config.json`; empty for its name.
        fields: of the small configuration of the zoo, to be others.
    """

    name: str
    title: str = ""
    model_type: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the model into a folder, with a tokenizer, which some exporters read.

        Raises:
            ExportCompatError: the installed transformers does not have it.
        """
        build_type(TASK, self.model_type or self.name, self.fields).save_pretrained(folder)
        _tokenizer().save_pretrained(folder)


def _tokenizer() -> Any:
    tokenizers, transformers = require("tokenizers", "transformers"), require("transformers", "transformers")
    words = {f"w{index}": index for index in range(_TOKENS)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))  # noqa: S106
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"unk_token": "w0", "pad_token": "w0", "bos_token": "w1", "eos_token": "w2"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special)


_DYNAMIC = {
    "max_position_embeddings": _LIMIT,
    "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0},
}
_LONGROPE = {
    "original_max_position_embeddings": _LIMIT,
    "rope_parameters": {
        "rope_type": "longrope",
        # The configurations that are on the hub have it, and transformers 5 keeps it.
        "type": "longrope",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0,
        "short_factor": [1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35],
        "long_factor": [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0],
    },
}
MODELS: dict[str, JudgedModel] = {
    model.name: model
    for model in (
        JudgedModel("llama"),
        JudgedModel("mistral", "window of 8"),
        JudgedModel("llama_dynamic", "dynamic NTK, limit 16", "llama", _DYNAMIC),
        JudgedModel("phi3_longrope", "longrope, limit 16", "phi3", _LONGROPE),
        JudgedModel("mixtral", "experts"),
        JudgedModel("gemma3_text", "window of 8 in some layers"),
        JudgedModel("qwen2"),
        JudgedModel("qwen3"),
        JudgedModel("gpt2"),
        JudgedModel("cohere"),
        JudgedModel("olmo2"),
        JudgedModel("qwen3_moe", "experts"),
        JudgedModel("gemma"),
        JudgedModel("gemma2", "window of 8 in some layers"),
        JudgedModel("granite"),
        JudgedModel("smollm3"),
        JudgedModel("phi"),
        JudgedModel("phi3"),
        JudgedModel("falcon"),
        JudgedModel("opt"),
        JudgedModel("gpt_neox"),
        JudgedModel("gpt_oss", "experts, sinks, window of 8 in some layers"),
    )
}
"""Twenty types, and two ropes that depend on the length, by name; what tells most is first."""

"""The models that are judged: decoders with tiny configurations and random weights, saved as a user has them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.matrix.cases import find_case
from exportcompat.matrix.zoo import build_type

TASK = "text-generation-with-past"
_TOKENS = 256
"""Words of the tokenizer: as many as the vocabularies of the zoo have."""


@dataclass(frozen=True)
class JudgedModel:
    """A decoder that files are made of.

    Attributes:
        name: the model type, or the case of the matrix that it is.
        is_case: it is a case, and not a type of the zoo.
        title: what is special about it; empty for nothing.
    """

    name: str
    is_case: bool = False
    title: str = ""

    def save(self, folder: Path) -> None:
        """Write the model into a folder, with a tokenizer, which some exporters read.

        Raises:
            ExportCompatError: the installed transformers does not have it.
        """
        model = find_case(self.name).decoder().model if self.is_case else build_type(TASK, self.name)
        model.save_pretrained(folder)
        _tokenizer().save_pretrained(folder)


def _tokenizer() -> Any:
    tokenizers, transformers = require("tokenizers", "transformers"), require("transformers", "transformers")
    words = {f"w{index}": index for index in range(_TOKENS)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))  # noqa: S106
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"unk_token": "w0", "pad_token": "w0", "bos_token": "w1", "eos_token": "w2"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special)


MODELS: dict[str, JudgedModel] = {
    model.name: model
    for model in (
        JudgedModel("llama"),
        JudgedModel("mistral", title="window of 8"),
        JudgedModel("llama_dynamic", is_case=True, title="dynamic NTK rope"),
        JudgedModel("phi3_longrope", is_case=True, title="longrope"),
        JudgedModel("mixtral", title="experts"),
        JudgedModel("gemma3_text", title="window of 8 in some layers"),
        JudgedModel("qwen2"),
        JudgedModel("qwen3"),
        JudgedModel("gpt2"),
        JudgedModel("cohere"),
        JudgedModel("olmo2"),
        JudgedModel("qwen3_moe", title="experts"),
        JudgedModel("gemma"),
        JudgedModel("gemma2", title="window of 8 in some layers"),
        JudgedModel("granite"),
        JudgedModel("smollm3"),
        JudgedModel("phi"),
        JudgedModel("phi3"),
        JudgedModel("falcon"),
        JudgedModel("opt"),
        JudgedModel("gpt_neox"),
        JudgedModel("gpt_oss", title="experts, sinks, window of 8 in some layers"),
    )
}
"""Twenty types, and two ropes that depend on the length, by name; what tells most is first."""

"""A model of our own that hands its mask back, as Qwen2-Audio does."""

from typing import Any

import torch

from ._encoder_models import TextEncoder
from ._forward import Forward

Module: Any = torch.nn.Module


class _Masked(Module):  # type: ignore[misc]  # torch has no types for it in every release.
    """Embeds a text, `(batch, sequence)`, without padding, and returns its mask too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(128, 16)

    def forward(self, input_ids: Any, attention_mask: Any) -> dict[str, Any]:
        states = self.table(input_ids) * attention_mask[..., None]
        return {"last_hidden_state": states, "attention_mask": attention_mask}


class _Returning(TextEncoder):
    """A call of it; the file is asked for the names of its inputs, and of its first output."""

    outputs = ("last_hidden_state", "output_attention_mask")

    def names(self, inputs: Any) -> tuple[list[str], list[str]]:
        return list(inputs), ["last_hidden_state"]

    def results(self, output: Any) -> list[Any]:
        return [output["last_hidden_state"], output["attention_mask"]]


def make_returned_mask() -> Forward:
    """Build the model with random weights."""
    return _Returning(_Masked())

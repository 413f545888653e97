"""The encoder of a model that puts features of images among the embeddings of its text before its encoder."""

from typing import Any

import torch
from torch import Tensor, nn


class WholeEncoder(nn.Module):  # type: ignore[misc,unused-ignore]
    """What an encoder-decoder does with its inputs up to the states of its encoder.

    The encoder itself is given embeddings, as that of Florence-2, and knows nothing of images. The model is called with
    one token for its decoder, of which a graph keeps nothing, since the states do not depend on it.

    Args:
        model: an encoder-decoder of transformers that returns `encoder_last_hidden_state`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.model.config

    def forward(self, **inputs: Any) -> dict[str, Tensor]:
        """Return the states, `(batch, encoder_sequence, channels)`, as `last_hidden_state`.

        Args:
            inputs: what `generate` of the model takes, such as `input_ids`, `attention_mask` and `pixel_values`.
        """
        tokens = torch.zeros_like(inputs["input_ids"][:, :1])
        output = self.model(**inputs, decoder_input_ids=tokens, use_cache=False)
        return {"last_hidden_state": output.encoder_last_hidden_state}

"""A wrapper as many exporters have one: pairs of tensors outside, a cache inside."""

from typing import Any

from torch import Tensor, nn


class Pairs(nn.Module):
    """Takes and returns `(key, value)` pairs, `(batch, kv_heads, length, head_dim)` each.

    Args:
        decoder: the `TransformersDecoder` to wrap.
    """

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.inner = decoder.model
        self._empty_cache = decoder.empty_cache

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return the logits and the pairs with the new keys and values."""
        cache = self._empty_cache()
        for index, (key, value) in enumerate(past_key_values):
            cache.update(key, value, index)
        output = self.inner(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache
        )
        return output.logits, [(layer.keys, layer.values) for layer in output.past_key_values.layers]

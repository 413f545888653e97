"""A wrapper as many exporters have one: pairs of tensors outside, a cache inside."""

from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


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
        cache = self._empty_cache(input_ids.shape[0])
        for index, (key, value) in enumerate(past_key_values):
            cache.update(key, value, index)
        output = self.inner(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache
        )
        return output.logits, pairs(output.past_key_values)


def pairs(cache: Any) -> list[tuple[Tensor, Tensor]]:
    """Return the keys and values of each layer, as the pytree spec takes a cache apart."""
    leaves = tree_leaves(cache)
    return list(zip(leaves[::2], leaves[1::2], strict=True))

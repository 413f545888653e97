"""The tiny GPT with the interface of a decoder, and greedy generation through it."""

import torch
from torch import Tensor, nn

from .tiny_gpt import Cache, TinyGPT


class GPTDecoder(nn.Module):
    """A model with the interface of a decoder.

    Args:
        gpt: the model.
    """

    def __init__(self, gpt: TinyGPT) -> None:
        super().__init__()
        self.gpt = gpt

    @property
    def layers(self) -> int:
        """Number of blocks."""
        return self.gpt.config.n_layers

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        """Return the logits and the cache with the new keys and values; see `TinyGPT.forward_cached`."""
        return self.gpt.forward_cached(input_ids, past_key_values, attention_mask, position_ids)

    def empty_cache(self, batch: int, past: int = 0, generator: torch.Generator | None = None) -> Cache:
        """Return random keys and values, `(batch, kv_heads, past, head_dim)`, float32, for each block."""
        shape = (batch, self.gpt.config.kv_heads, past, self.gpt.config.head_dim)
        return [
            (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
            for _ in range(self.layers)
        ]

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, max_new_tokens: int = 20) -> Tensor:
        """Return the tokens and the most likely ones after them, through `self(...)` with the cache.

        Args:
            input_ids: `(batch, sequence)`, int64, one token or more.
            attention_mask: `(batch, sequence)`, int64, 0 for padding on the left; None means that there is none.
            max_new_tokens: number of new tokens.

        Returns:
            `(batch, sequence + max_new_tokens)`, int64.

        Raises:
            ValueError: the positions do not suffice.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.gpt.check_room(int(mask.sum(1).max()) + max_new_tokens)
        caches, tokens, new = self.gpt.empty_cache(len(input_ids)), input_ids, input_ids
        with torch.no_grad():
            for _ in range(max_new_tokens):
                positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -new.shape[1] :]
                logits, caches = self(
                    input_ids=new, attention_mask=mask, position_ids=positions, past_key_values=caches
                )
                new = logits[:, -1:].argmax(-1)
                tokens, mask = torch.cat([tokens, new], dim=1), torch.cat([mask, torch.ones_like(new)], dim=1)
        return tokens

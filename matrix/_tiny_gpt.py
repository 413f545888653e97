"""A tiny GPT in plain torch: what an exporter meets where there is no transformers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]


class TinyGPT(nn.Module):
    """Two pre-norm blocks with learned positions and grouped-query attention.

    Args:
        remember: keep the positions of the last call on the module, as models with state do.
    """

    vocabulary = 128
    layers = 2

    def __init__(self, remember: bool = False) -> None:
        super().__init__()
        self.remember = remember
        self.tokens = nn.Embedding(self.vocabulary, 32)
        self.positions = nn.Embedding(256, 32)
        self.blocks = nn.ModuleList(Block(32, 4, 2) for _ in range(self.layers))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, self.vocabulary, bias=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        """Return logits, `(batch, sequence, vocabulary)`, and the cache with the new keys and values."""
        if self.remember:
            self.last_positions = position_ids + 1
        hidden = self.tokens(input_ids) + self.positions(position_ids)
        mask = _mask(attention_mask, input_ids.shape[1])
        presents = []
        for block, past in zip(self.blocks, past_key_values, strict=True):
            hidden, present = block(hidden, mask, past)
            presents.append(present)
        return self.head(self.norm(hidden)), presents

    def empty_cache(self, batch: int, past: int = 0, generator: torch.Generator | None = None) -> Cache:
        """Return random keys and values, `(batch, 2, past, 8)` each."""
        shape = (batch, 2, past, 8)
        return [
            (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
            for _ in range(self.layers)
        ]


class Block(nn.Module):
    """Attention and feed-forward layer with residual connections."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * kv_heads * self.size)
        self.output = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Tensor, mask: Tensor, past: tuple[Tensor, Tensor]) -> Any:
        """Return the hidden states and the keys and values with the past before them."""
        normed = self.attention_norm(hidden)
        key, value = self._split(self.key_value(normed), 2 * self.kv_heads).chunk(2, dim=1)
        key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        groups = self.heads // self.kv_heads
        attended = functional.scaled_dot_product_attention(
            self._split(self.query(normed), self.heads),
            key.repeat_interleave(groups, dim=1),
            value.repeat_interleave(groups, dim=1),
            attn_mask=mask,
        )
        hidden = hidden + self.output(attended.transpose(1, 2).flatten(2))
        return hidden + self.feed_forward(self.norm(hidden)), (key, value)

    def _split(self, states: Tensor, heads: int) -> Tensor:
        return states.unflatten(-1, (heads, self.size)).transpose(1, 2)


def _mask(attention_mask: Tensor, new: int) -> Tensor:
    """Return what each new token may attend to, `(batch, 1, sequence, total)`; itself always, padding never."""
    total = attention_mask.shape[1]
    keys = torch.arange(total)[None, :]
    queries = torch.arange(new)[:, None] + (total - new)
    causal = (keys <= queries) & attention_mask[:, None, None, :].bool()
    return causal | (keys == queries)

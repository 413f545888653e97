"""A small GPT in plain torch: what an exporter meets where there is no transformers.

Token and position embeddings, pre-norm blocks with one fused projection for queries, keys and values, a final norm
and an untied head without bias, on the CPU. The key-value cache is a list of pairs of tensors that goes in and comes
out.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values of each block, `(batch, kv_heads, tokens, head_dim)`, float32."""


def _require_multiple(name: str, value: int, divisor_name: str, divisor: int) -> None:
    if value % divisor:
        below = value - value % divisor
        choices = " or ".join(str(item) for item in (below, below + divisor) if item)
        raise ValueError(f"{name} is {value}, no multiple of {divisor_name}, {divisor}; write {name}={choices}")


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model; the default has 5.4 million parameters, 21.5 MB in float32.

    Attributes:
        vocab_size: number of tokens.
        d_model: width.
        n_layers: number of blocks.
        n_heads: query heads of a block.
        n_positions: the longest sequence.
        n_kv_heads: key and value heads of a block, each for an equal share of the query heads; None means `n_heads`.

    Raises:
        ValueError: a size is below 1, or one is no multiple of another that it is divided by.
    """

    vocab_size: int = 4096
    d_model: int = 256
    n_layers: int = 4
    n_heads: int = 4
    n_positions: int = 512
    n_kv_heads: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise ValueError(f"{field.name} is {value}; write 1 or more")
        _require_multiple("d_model", self.d_model, "n_heads", self.n_heads)
        _require_multiple("n_heads", self.n_heads, "n_kv_heads", self.kv_heads)

    @property
    def kv_heads(self) -> int:
        """Number of key and value heads of a block."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads


MEDIUM = GPTConfig(d_model=768, n_layers=12, n_heads=12, n_positions=1024)


class TinyGPT(nn.Module):
    """The model, with torch's own initial weights.

    Args:
        config: its sizes.
    """

    def __init__(self, config: GPTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GPTConfig()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.n_positions, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the logits of whole sequences.

        Args:
            token_ids: `(batch, sequence)`, int64.

        Returns:
            `(batch, sequence, vocab_size)`, float32.

        Raises:
            ValueError: the sequences are longer than `n_positions`.
        """
        hidden = self.tokens(token_ids) + self._embed_positions(None, 0, token_ids.shape[1])
        for block in self.blocks:
            hidden, _ = block(hidden)
        return self.head(self.norm(hidden))

    def forward_cached(
        self,
        token_ids: Tensor,
        caches: Cache,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """Return the logits of new tokens, and the cache with their keys and values behind the past ones.

        Args:
            token_ids: `(batch, sequence)`, int64.
            caches: what the last call returned, or `empty_cache(batch)`; it is not changed.
            attention_mask: `(batch, past + sequence)`, int64, 0 for padding; None means that there is none.
            position_ids: `(batch, sequence)`, int64; None means that they go on from the past.

        Returns:
            `(batch, sequence, vocab_size)`, float32, and a pair `(batch, kv_heads, past + sequence, head_dim)` for
            each block.

        Raises:
            ValueError: a position is not below `n_positions`.
        """
        past, new = caches[0][0].shape[2], token_ids.shape[1]
        hidden = self.tokens(token_ids) + self._embed_positions(position_ids, past, new)
        # One new token without padding may attend to everything: no mask is the fastest.
        mask = None if attention_mask is None and new == 1 else self.mask(attention_mask, past, new)
        presents = []
        for block, cache in zip(self.blocks, caches, strict=True):
            hidden, present = block(hidden, mask, cache)
            presents.append(present)
        return self.head(self.norm(hidden)), presents

    def mask(self, attention_mask: Tensor | None, past: int, new: int) -> Tensor:
        """Return what each new token may attend to: itself always, the future and padding never.

        Args:
            attention_mask: as for `forward_cached`.
            past: tokens in the cache.
            new: tokens of the call.

        Returns:
            `(batch or 1, 1, new, past + new)`, bool.
        """
        keys = torch.arange(past + new)[None, :]
        queries = torch.arange(past, past + new)[:, None]
        causal = (keys <= queries)[None, None]
        return (
            causal if attention_mask is None else causal & attention_mask[:, None, None, :].bool() | (keys == queries)
        )

    def empty_cache(self, batch: int) -> Cache:
        """Return keys and values of length 0, `(batch, kv_heads, 0, head_dim)`, float32, for each block."""
        shape = (batch, self.config.kv_heads, 0, self.config.head_dim)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(self.config.n_layers)]

    def sample(
        self,
        token_ids: Tensor,
        n: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return `token_ids` and `n` tokens after them, with a call on the whole sequence for each.

        Args:
            token_ids: `(batch, sequence)`, int64, one token or more, no padding.
            n: number of new tokens.
            temperature: divides the logits; 0 takes the most likely token.
            top_p: take only from the most likely tokens that have this probability together, in (0, 1].
            generator: the same seed gives the same tokens.

        Returns:
            `(batch, sequence + n)`, int64.

        Raises:
            ValueError: an argument is outside its range, or the positions do not suffice.
        """
        self._check_prompt(token_ids, n)
        choose = chooser(temperature, top_p, generator)
        with torch.no_grad():
            for _ in range(n):
                token_ids = torch.cat([token_ids, choose(self(token_ids)[:, -1])], dim=1)
        return token_ids

    def sample_cached(
        self,
        token_ids: Tensor,
        n: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return what `sample` returns, with a call on the last token for each new one."""
        self._check_prompt(token_ids, n)
        choose = chooser(temperature, top_p, generator)
        caches, tokens = self.empty_cache(len(token_ids)), [token_ids]
        with torch.no_grad():
            for _ in range(n):
                logits, caches = self.forward_cached(tokens[-1], caches)
                tokens.append(choose(logits[:, -1]))
        return torch.cat(tokens, dim=1)

    def check_room(self, length: int) -> None:
        """Raise ValueError if sequences of `length` tokens have more positions than the model."""
        if length > self.config.n_positions:
            raise ValueError(
                f"{length} tokens do not fit into {self.config.n_positions} positions; "
                f"make the sequence shorter, or the model with GPTConfig(n_positions={length})"
            )

    def _check_prompt(self, token_ids: Tensor, n: int) -> None:
        if token_ids.shape[1] < 1 or n < 0:
            raise ValueError(f"{token_ids.shape[1]} tokens and n={n}; pass one token or more, and n of 0 or more")
        self.check_room(token_ids.shape[1] + n)

    def _embed_positions(self, position_ids: Tensor | None, past: int, new: int) -> Tensor:
        if position_ids is None:
            self.check_room(past + new)
            position_ids = torch.arange(past, past + new)
        # A graph cannot raise; there, the look-up itself refuses a position that does not exist.
        elif not torch.compiler.is_compiling():
            self.check_room(int(position_ids.max()) + 1)
        return self.positions(position_ids)


class Block(nn.Module):
    """Attention and feed-forward layer, each behind its norm and beside a residual connection."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.d_model
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(config)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(
        self, hidden: Tensor, mask: Tensor | None = None, cache: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the hidden states, `(batch, sequence, d_model)`, and all keys and values; see `Attention`."""
        attended, present = self.attention(self.ln_1(hidden), mask, cache)
        hidden = hidden + attended
        return hidden + self.mlp(self.ln_2(hidden)), present


class Attention(nn.Module):
    """Attention of several heads with one projection for queries, keys and values."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = config.n_heads, config.kv_heads, config.head_dim
        self.qkv = nn.Linear(config.d_model, (self.heads + 2 * self.kv_heads) * self.size)
        self.output = nn.Linear(config.d_model, config.d_model)

    def forward(
        self, hidden: Tensor, mask: Tensor | None, cache: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the attended values and all keys and values.

        Args:
            hidden: `(batch, sequence, d_model)`.
            mask: broadcasts to `(batch, heads, sequence, past + sequence)`, bool; None means no limit on a cache.
            cache: past keys and values, `(batch, kv_heads, past, head_dim)`; None means whole sequences, causal.
        """
        states = self.qkv(hidden).unflatten(-1, (-1, self.size)).transpose(1, 2)
        query, key, value = states.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        attended = functional.scaled_dot_product_attention(
            query, self._repeat(key), self._repeat(value), attn_mask=mask, is_causal=cache is None
        )
        return self.output(attended.transpose(1, 2).flatten(2)), (key, value)

    def _repeat(self, states: Tensor) -> Tensor:
        groups = self.heads // self.kv_heads
        return states if groups == 1 else states.repeat_interleave(groups, dim=1)


def chooser(temperature: float, top_p: float, generator: torch.Generator | None) -> Callable[[Tensor], Tensor]:
    """Return a function from logits, `(batch, vocab_size)`, to tokens, `(batch, 1)`, int64.

    Raises:
        ValueError: `temperature` is negative, or `top_p` is not in (0, 1].
    """
    if temperature < 0 or not 0 < top_p <= 1:
        raise ValueError(f"temperature={temperature}, top_p={top_p}; write 0 or more, and above 0 to 1")

    def choose(logits: Tensor) -> Tensor:
        if temperature == 0:
            return logits.argmax(-1, keepdim=True)
        likely, order = (logits / temperature).softmax(-1).sort(descending=True)
        # A token stays if those before it do not yet have the share; so the first one always does.
        likely = likely.where(likely.cumsum(-1) - likely < top_p, 0.0)
        return order.gather(1, torch.multinomial(likely, 1, generator=generator))

    return choose

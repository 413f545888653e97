"""Attention of Longformer and LED: a window around each token, and tokens that see all and are seen by all."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class GlobalTokens:
    """The tokens with global attention, in slots: each text has as many slots as the text with most of them needs.

    Attributes:
        places: `(batch, slots)`, int64, where the token of a slot stands; some place for a slot that is not used.
        used: `(batch, slots)`, bool.
        slots: `(batch, tokens)`, int64, 1 for the token of the first slot, and 0 for one without global attention.
    """

    places: Tensor
    used: Tensor
    slots: Tensor

    @classmethod
    def of(cls, is_global: Tensor) -> "GlobalTokens":
        """Return those of a mask, `(batch, tokens)`, bool."""
        counts = is_global.long().cumsum(1)
        most: Any = counts[:, -1].max().item()
        # There may be none: what is computed for slots is empty then, and adds nothing.
        torch._check(most >= 0)
        slots = torch.arange(most, device=is_global.device)
        # The token of slot 2 stands behind all places up to which 2 or fewer were counted.
        places = (counts[:, None] <= slots[:, None]).sum(2).clamp(max=is_global.shape[1] - 1)
        return cls(places, slots < counts[:, -1:], counts * is_global)


@dataclass(frozen=True)
class Attention:
    """A call of `forward`, for any number of tokens and of tokens with global attention.

    Attributes:
        module: upstream's, with its projections, the number of heads and half of the window.
        hidden_states: `(batch, tokens, hidden)`.
        is_masked: `(batch, tokens)`, bool, True for what is not seen and gets zeros.
        is_global: `(batch, tokens)`, bool; what is masked is not global.
        head_mask: `(heads,)`, what the probabilities of each head are multiplied by.
    """

    module: Any
    hidden_states: Tensor
    is_masked: Tensor
    is_global: Tensor
    head_mask: Tensor | None

    @cached_property
    def tokens(self) -> GlobalTokens:
        """The tokens with global attention."""
        return GlobalTokens.of(self.is_global)

    @cached_property
    def window_probabilities(self) -> Tensor:
        """`(batch, heads, blocks, half, 3 * half + slots)`: what each token of a block sees around it and in slots."""
        module, half = self.module, self.module.one_sided_attn_window_size
        query = _blocks(_heads(module, _scaled(module, module.query(self.hidden_states))), half)
        near = query @ _surroundings(_heads(module, self._key), half).transpose(-1, -2)
        # What has a slot is not seen once more.
        is_seen = _surroundings((~(self.is_masked | self.is_global))[:, None, :, None], half).transpose(-1, -2)
        near = _with(near, is_seen & _band(half, near.device))
        far = query @ _heads(module, rows(self._key, self.tokens.places))[:, :, None].transpose(-1, -2)
        scores = torch.cat((near, _with(far, self.tokens.used[:, None, None, None])), -1)
        return self._probabilities(scores, 1)

    @cached_property
    def global_probabilities(self) -> Tensor:
        """`(batch, heads, slots, tokens)`: what the tokens in slots see, by projections of their own."""
        module = self.module
        query = _scaled(module, module.query_global(rows(self.hidden_states, self.tokens.places)))
        scores = _heads(module, query) @ _heads(module, module.key_global(self.hidden_states)).transpose(-1, -2)
        return self._probabilities(_with(scores, ~self.is_masked[:, None, None]), 0)

    def states(self) -> Tensor:
        """Return the result, `(batch, tokens, hidden)`."""
        value = self.module.value_global(self.hidden_states)
        found = _joined(self.global_probabilities @ _heads(self.module, value))
        # Slot 0 is that of tokens without global attention, whose states are those of their window.
        found = rows(functional.pad(found, (0, 0, 1, 0)), self.tokens.slots)
        return torch.where(self.is_global[..., None], found, self._window_states())

    def results(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the result with both kinds of probabilities, as upstream has them."""
        return self.states(), self._windows_by_token(), self._padded_global_probabilities()

    def _window_states(self) -> Tensor:
        module, half = self.module, self.module.one_sided_attn_window_size
        value, (near, far) = module.value(self.hidden_states), self._near_and_far()
        states = near @ _surroundings(_heads(module, value), half)
        states = states + far @ _heads(module, rows(value, self.tokens.places))[:, :, None]
        return _joined(states.flatten(2, 3))[:, : value.shape[1]].masked_fill(self.is_masked[..., None], 0)

    def _windows_by_token(self) -> Tensor:
        """Return `(batch, tokens, heads, slots + 2 * half + 1)`: slots, then distances from `-half` to `half`."""
        half, (near, far) = self.module.one_sided_attn_window_size, self._near_and_far()
        # In rows that are longer by one, each begins one further on than that before.
        distances = functional.pad(near.flatten(-2), (0, half)).unflatten(-1, (half, 3 * half + 1))
        found = torch.cat((far, distances[..., : 2 * half + 1]), -1).flatten(2, 3).transpose(1, 2)
        is_elsewhere = (self.is_masked | self.is_global)[..., None, None]
        return found[:, : self.is_masked.shape[1]].masked_fill(is_elsewhere, 0)

    def _padded_global_probabilities(self) -> Tensor:
        """Return `(batch, heads, slots, tokens)`, with padding to a window, which a slot that is not used sees, too."""
        windows, length = self.module.config.attention_window, self.hidden_states.shape[1]
        missing = -length % (windows if isinstance(windows, int) else max(windows))
        filler = self._probabilities(self.hidden_states.new_zeros(1, self.module.num_heads, 1, length + missing), 0)
        found = functional.pad(self.global_probabilities, (0, missing))
        return torch.where(self.tokens.used[:, None, :, None], found, filler)

    def _near_and_far(self) -> tuple[Tensor, Tensor]:
        near = 3 * self.module.one_sided_attn_window_size
        return self.window_probabilities[..., :near], self.window_probabilities[..., near:]

    @cached_property
    def _key(self) -> Tensor:
        return self.module.key(self.hidden_states)

    def _probabilities(self, scores: Tensor, more_axes: int) -> Tensor:
        """Return `scores`, `(batch, heads, ...)`, as probabilities."""
        probabilities = functional.softmax(scores, -1, dtype=torch.float32)
        if self.head_mask is not None:
            probabilities = probabilities * self.head_mask.view(1, -1, 1, 1, *[1] * more_axes)
        return functional.dropout(probabilities.type_as(scores), self.module.dropout, self.module.training)


def rows(states: Tensor, places: Tensor) -> Tensor:
    """Return `(batch, places, hidden)`, of `(batch, tokens, hidden)` what stands at places, `(batch, places)`."""
    firsts = torch.arange(states.shape[0], device=states.device)[:, None] * states.shape[1]
    return functional.embedding(places + firsts, states.flatten(0, 1))


def _scaled(module: Any, query: Tensor) -> Tensor:
    return query / math.sqrt(module.head_dim)


def _heads(module: Any, states: Tensor) -> Tensor:
    """Return `(batch, heads, tokens, size)` of `(batch, tokens, hidden)`."""
    return states.unflatten(-1, (module.num_heads, module.head_dim)).transpose(1, 2)


def _joined(states: Tensor) -> Tensor:
    """Return `(batch, tokens, hidden)` of `(batch, heads, tokens, size)`."""
    return states.transpose(1, 2).flatten(2)


def _blocks(states: Tensor, half: int) -> Tensor:
    """Return `(batch, heads, blocks, half, size)`, with zeros behind the tokens in the last block."""
    blocks = (states.shape[2] + half - 1) // half
    states = functional.pad(states, (0, 0, 0, blocks * half - states.shape[2]))
    return states.unflatten(2, (blocks, half))


def _surroundings(states: Tensor, half: int) -> Tensor:
    """Return `(batch, heads, blocks, 3 * half, size)`: the block before, the block itself, and the block behind it."""
    blocks = functional.pad(_blocks(states, half), (0, 0, 0, 0, 1, 1))
    return torch.cat((blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]), 3)


def _band(half: int, device: torch.device) -> Tensor:
    """Return `(half, 3 * half)`, bool: which of the surroundings of its block each token has in its window."""
    distances = torch.arange(3 * half, device=device) - torch.arange(half, device=device)[:, None]
    return (distances >= 0) & (distances <= 2 * half)


def _with(scores: Tensor, is_seen: Tensor) -> Tensor:
    return torch.where(is_seen, scores, torch.finfo(scores.dtype).min)

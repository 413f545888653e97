"""The gated delta rule, token by token, in torch's `scan`.

`scan` becomes ONNX' `Scan`, so a prompt takes as many steps as it has tokens; torch lowers it since 2.9. Chunks, as
upstream has them, need a triangular system for each, and ONNX has no operator that solves one.
Source: Gated Delta Networks, https://arxiv.org/abs/2412.06464, equation 10; with a decay for each channel, Kimi Linear,
https://arxiv.org/abs/2510.26692.
"""

from typing import Any

from ._scan_inputs import apart


def scan_delta_rule(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return `(batch, tokens, heads, value size)`, float32, and the last state of the rule that begins from `state`.

    Each step decays the state, reads it at the key, and writes back what the value differs by, times beta.

    Args:
        query: `(batch, tokens, heads, key size)`, of length 1; it is scaled here.
        key: the same shape.
        value: `(batch, tokens, heads, value size)`.
        beta: `(batch, tokens, heads)`.
        decay: factors from 0 to 1, `(batch, tokens, heads)`, or with `key size` as fourth axis.
        state: `(batch, heads, key size, value size)`; None for zeros.
    """
    import torch
    from torch._higher_order_ops.scan import scan

    if state is None:
        state = value.new_zeros(value.shape[0], value.shape[2], key.shape[-1], value.shape[-1]).float()

    def step(state: Any, token: tuple[Any, ...]) -> tuple[Any, Any]:
        query, key, value, beta, decay = token
        state = state * decay[..., None]
        change = (value - (state * key[..., None]).sum(-2)) * beta[..., None]
        state = state + key[..., None] * change[..., None, :]
        return state, (state * query[..., None]).sum(-2)

    decay = decay if decay.ndim == query.ndim else decay[..., None]
    parts = (query * query.shape[-1] ** -0.5, key, value, beta, decay)
    tokens = tuple(apart(part.transpose(0, 1), torch.float32) for part in parts)
    last, outputs = scan(step, apart(state, torch.float32), tokens)
    return outputs.transpose(0, 1), last.to(state.dtype)


def l2_normalized(part: Any) -> Any:
    """Return vectors along the last axis, made as long as 1, as upstream's `l2norm` does."""
    import torch

    return part * torch.rsqrt(part.pow(2).sum(-1, keepdim=True) + 1e-6)

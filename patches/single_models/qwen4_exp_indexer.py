"""Qwen4-Exp chooses the blocks of keys that a query attends to in a loop over rows and queries.

Symptom: `Could not guard on data-dependent expression ((u1//4)) > 0`.
Cause: for each query of each row the visible tokens are looked up, and their number is data.
What is done: while it is traced, the blocks are made once for each row, of its visible tokens in their order. A query
sees a beginning of them, so its blocks are the first ones, those that it sees whole can be chosen, and what is behind
them is always seen.
Can go: when the loop is written without looking at data.
"""

import sys
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_indexer_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `Qwen4ExpTextQSAIndexer.forward` choose for all queries at once while it is traced."""

    def forward(self: Any, hidden_states: Any, position_embeddings: Any, attention_mask: Any, cache: Any) -> Any:
        import torch

        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(hidden_states):
            return original(self, hidden_states, position_embeddings, attention_mask, cache)
        visible = attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0
        queries, keys = _projected(self, hidden_states, position_embeddings, cache)
        # The last query of a row sees whatever one of them sees.
        row = visible[:, 0, -1]
        rank = row.long().cumsum(1) - 1
        blocks = _blocks(self, keys, position_embeddings, row, rank)
        return _selected(self, queries, blocks, visible[:, 0], row, rank).unsqueeze(1)

    return forward


def _projected(indexer: Any, states: Any, tables: Any, cache: Any) -> tuple[Any, Any]:
    """Return rotated queries, `(batch, sequence, heads, channels)`, and keys, `(batch, total, channels)`."""
    batch, length = states.shape[:2]
    size = indexer.index_head_dim
    made = indexer.index_qk_proj(states)
    query, key = made.split([indexer.index_n_heads * size, indexer.index_kv_heads * size], dim=-1)
    query = indexer.q_layernorm(query.reshape(batch, length, -1, size))
    cos, sin = (table[:, -length:] for table in tables)
    key = key.reshape(batch, length, size)
    key = key if cache is None else cache.update_indexer(key, indexer.layer_idx)
    return _rotated(indexer, query, cos, sin), key


def _rotated(indexer: Any, tensor: Any, cos: Any, sin: Any) -> Any:
    return sys.modules[type(indexer).__module__].apply_rotary_pos_emb(tensor, cos=cos, sin=sin, unsqueeze_dim=2)


def _blocks(indexer: Any, keys: Any, tables: Any, row: Any, rank: Any) -> Any:
    """Return the mean keys of each block of visible tokens, rotated, `(batch, blocks, channels)`; the last is blank."""
    ratio = indexer.compress_ratio
    count = (row.shape[1] + ratio) // ratio
    ordered, cos, sin = (_ordered(item, row, rank, ratio)[:, : count * ratio] for item in (keys, *tables))
    pooled = ordered.unflatten(1, (count, ratio)).float().mean(2).to(keys.dtype)
    starts = (table.unflatten(1, (count, ratio))[:, :, 0] for table in (cos, sin))
    return _rotated(indexer, indexer.k_layernorm(pooled).unsqueeze(2), *starts).squeeze(2)


def _ordered(items: Any, row: Any, rank: Any, more: int) -> Any:
    """Return what visible tokens have, in their order, and then zeros: `(batch, total + more, channels)`."""
    length = row.shape[1] + more
    items = items.expand(row.shape[0], -1, -1)
    places = rank.where(row, length)[:, :, None].expand_as(items)
    return items.new_zeros(row.shape[0], length + 1, items.shape[2]).scatter(1, places, items)[:, :length]


def _selected(indexer: Any, queries: Any, blocks: Any, visible: Any, row: Any, rank: Any) -> Any:
    """Return which tokens each query attends to, `(batch, sequence, total)`."""
    import torch

    ratio, most = indexer.compress_ratio, indexer.block_topk
    scores = torch.einsum("bqhd,bkd->bqhk", queries.float(), blocks.float()).relu().sum(2)
    scores = torch.nn.functional.pad(scores / indexer.index_head_dim**0.5, (0, most))
    seen = visible.sum(2, keepdim=True)
    is_whole = torch.arange(scores.shape[2], device=scores.device) < seen // ratio
    best = scores.where(is_whole, float("-inf")).topk(most, dim=2).indices
    chosen = torch.zeros_like(scores).scatter(2, best, 1.0) * is_whole
    block = (rank // ratio).where(row, 0)[:, None].expand_as(visible)
    behind = rank[:, None] >= seen // ratio * ratio
    return visible & ((chosen.gather(2, block) > 0) | behind)


SPECS = (
    PatchingSpec(
        id="qwen4-exp-indexer",
        targets=("transformers.models.qwen4_exp.modeling_qwen4_exp:Qwen4ExpTextQSAIndexer.forward",),
        replacement=f"{__name__}:patch_indexer_forward",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="Blocks of keys are chosen in a loop over rows and queries that looks at data: no graph.",
        upstream=("https://github.com/huggingface/transformers/tree/v5.24.0/src/transformers/models/qwen4_exp",),
        proofs=("qwen4_exp",),
        kind="wrap",
    ),
)

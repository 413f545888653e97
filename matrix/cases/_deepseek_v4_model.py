"""DeepSeek-V4, whose cache keeps the past compressed: an entry for each window, and the tokens of an open one."""

import copy
from typing import Any

from exportcompat._observer import flatten
from exportcompat._verification import PAST_ARGUMENT

from ._decoder import SEED, TransformersDecoder
from .causal_lm import SIZES

_WINDOWS = {"compressed_sparse_attention": 2, "heavily_compressed_attention": 3}
_AXES = {"buffer": "open", "overlap": "window", "compressed": "entries"}


class CompressedDecoder(TransformersDecoder):
    """A causal language model some of whose layers keep their past compressed."""

    def cache(self, batch: int, past: int) -> Any:
        from torch.utils._pytree import tree_map

        from exportcompat import apply_patches

        cache = super().cache(batch, past or 1)
        with apply_patches():
            return cache if past else tree_map(lambda leaf: leaf.narrow(leaf.dim() - 2, 0, 0), cache)

    def cache_axes(self, cache: Any) -> Any:
        return flatten(PAST_ARGUMENT, cache)[0].shapes(self._axes)

    def _axes(self, path: str) -> dict[int, str]:
        """Return the axes of a leaf; those of layers of one kind have one name, because they are of one size."""
        index, name = path.split(".")[-2:]
        if name in ("key", "value"):
            return {0: "batch", 2: "past_sequence"}
        kind = self.model.config.layer_types[int(index)].partition("_")[0]
        what = next(axis for part, axis in _AXES.items() if name.split("_", 1)[1].startswith(part))
        return {0: "batch", 1: f"{kind}_{what}"}


def make_compressed() -> CompressedDecoder:
    """Build DeepSeek-V4 with a layer of each kind, windows of 2 and 3 tokens; what checkpoints fill is random."""
    import torch
    from transformers import AutoModelForCausalLM, DeepseekV4Config

    latent = {"head_dim": 16, "q_lora_rank": 16, "o_groups": 2, "o_lora_rank": 8}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    index = {"index_n_heads": 8, "index_head_dim": 8, "index_topk": 4}
    layers = ["sliding_attention", *_WINDOWS]
    kinds = {"layer_types": layers, "mlp_layer_types": ["hash_moe", "moe", "moe"], "compress_rates": _WINDOWS}
    sizes = {"num_hidden_layers": len(layers), "sliding_window": 8, "hc_mult": 2, "hc_sinkhorn_iters": 2}
    settings = {**copy.deepcopy({**SIZES, **latent, **experts, **index, **kinds}), **sizes}
    model = AutoModelForCausalLM.from_config(DeepseekV4Config(**{**settings, "num_key_value_heads": 1}))
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in model.named_parameters():
        if name.endswith(("position_bias", "sinks")):
            torch.nn.init.normal_(parameter, generator=generator)
    for name, buffer in model.named_buffers():
        if name.endswith("tid2eid"):
            buffer.copy_(torch.randint(4, buffer.shape, generator=generator))
    return CompressedDecoder(model)


def has_compressed() -> bool:
    """Say whether the installed transformers has DeepSeek-V4."""
    import transformers

    return hasattr(transformers, "DeepseekV4Config")

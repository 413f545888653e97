"""Causal language models, two layers or more, with the default attention and with `eager` attention."""

from collections.abc import Mapping
from typing import Any

from ._case import COMPARE_DECODER, COMPARE_END_TO_END, COMPARE_UNPADDED, EXPORT_END_TO_END, Case, call, has_model

SIZES: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    # Larger than usual, so that a wrong mask or frequency moves the logits by much more than the tolerance.
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

_FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [4.0, 3.0, 2.0, 1.5]}
_LONGROPE = {"rope_type": "longrope", **_FACTORS, "factor": 16.0, "original_max_position_embeddings": 16}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
_DYNAMIC = {"max_position_embeddings": 16, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
_ALTERNATING = {
    "head_dim": 8,
    "sliding_window": 8,
    "sliding_window_pattern": 2,
    "layer_types": ["sliding_attention", "full_attention"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}

_LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
    "head_dim": 4,
    "n_routed_experts": 4,
}
_GROUPED = {
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 16,
}
# Which of equal scores are the best is up to the implementation: with fewer heads many are 0, and with other sizes some
# of the same token at two places are equal.
_SPARSE = {"index_topk": 8, "index_n_heads": 16}
_SSD = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_d_ssm": 64,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 6,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
    "head_dim": 8,
}

SHORT = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "block_auto_adjust_ff_dim": False}

SHARED = {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 2,
    "head_dim": 8,
    "sliding_window": 8,
    "vocab_size_per_layer_input": 128,
    "hidden_size_per_layer_input": 8,
}

_PHIMOE_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [1.0, 1.5, 2.0, 2.5],
    "short_mscale": 1.1,
    "long_mscale": 1.3,
    "original_max_position_embeddings": 16,
}

_GPT_SIZES = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "n_inner": 64}

SETTINGS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "llama": ("Llama", "Llama", {}),
    "mistral_window": ("Mistral, window 8", "Mistral", {"sliding_window": 8}),
    "gemma2_window": ("Gemma2, window 8", "Gemma2", {"head_dim": 8, "sliding_window": 8}),
    "phi3_longrope": (
        "Phi3, longrope, limit 16",
        "Phi3",
        {"original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope", **_FACTORS}},
    ),
    "llama_dynamic": ("Llama, dynamic NTK, limit 16", "Llama", _DYNAMIC),
    "llama_yarn": ("Llama, yarn", "Llama", {"rope_scaling": _YARN}),
    "llama_longrope": ("Llama, longrope, limit 16", "Llama", {"rope_scaling": _LONGROPE}),
    "mistral": ("Mistral", "Mistral", {"sliding_window": None}),
    "mixtral": ("Mixtral, 4 experts", "Mixtral", {"num_local_experts": 4}),
    "phimoe_longrope": (
        "PhiMoE, longrope, limit 16",
        "Phimoe",
        {"num_local_experts": 4, "rope_parameters": _PHIMOE_ROPE},
    ),
    "mixtral_beyond": (
        "Mixtral, texts longer than its positions",
        "Mixtral",
        {"num_local_experts": 4, "max_position_embeddings": 16},
    ),
    "qwen2": ("Qwen2", "Qwen2", {}),
    "qwen2_dynamic": ("Qwen2, dynamic NTK, limit 16", "Qwen2", _DYNAMIC),
    "qwen2_moe": ("Qwen2-MoE, 4 experts", "Qwen2Moe", {**_EXPERTS, "shared_expert_intermediate_size": 16}),
    "qwen3": ("Qwen3", "Qwen3", {"head_dim": 8}),
    "qwen3_moe": ("Qwen3-MoE, 4 experts", "Qwen3Moe", {**_EXPERTS, "head_dim": 8}),
    "gemma": ("Gemma", "Gemma", {"head_dim": 8}),
    "gemma3": ("Gemma3, window 8, local and global rope", "Gemma3", {**_ALTERNATING, "query_pre_attn_scalar": 8}),
    "phi": ("Phi", "Phi", {}),
    "phi3": ("Phi3", "Phi3", {"original_max_position_embeddings": 256}),
    "gpt2": ("GPT-2", "GPT2", _GPT_SIZES),
    "gpt_neox": ("GPT-NeoX", "GPTNeoX", {}),
    "gptj": ("GPT-J", "GPTJ", {**_GPT_SIZES, "rotary_dim": 4}),
    "opt": ("OPT", "OPT", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BLOOM, alibi", "Bloom", {"n_layer": 2, "n_head": 4}),
    "falcon": ("Falcon", "Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "mpt": ("MPT, alibi", "Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 256, "use_cache": True}),
    "codegen": ("CodeGen", "CodeGen", {**_GPT_SIZES, "rotary_dim": 4}),
    "cohere": ("Cohere", "Cohere", {}),
    "cohere2": ("Cohere2, window 8", "Cohere2", _ALTERNATING),
    "olmo2": ("OLMo2", "Olmo2", {}),
    "nemotron": ("Nemotron, a weight plus an integer", "Nemotron", {}),
    "deepseek_v3": (
        "DeepSeek-V3, heads of two sizes",
        "DeepseekV3",
        {
            **_LATENT,
            "num_local_experts": 4,
            **_GROUPED,
        },
    ),
    "deepseek_v2": (
        "DeepSeek-V2, rotary embedding in complex numbers",
        "DeepseekV2",
        {
            **_LATENT,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 16,
        },
    ),
    "deepseek_v32": (
        "DeepSeek-V3.2, sparse attention to 8 keys",
        "DeepseekV32",
        {
            **_LATENT,
            **_SPARSE,
            "index_head_dim": 4,
            **_GROUPED,
        },
    ),
    "glm_moe_dsa": (
        "GLM-5, sparse attention to 8 keys",
        "GlmMoeDsa",
        {
            **_LATENT,
            **_SPARSE,
            "index_head_dim": 8,
            **_GROUPED,
            "mlp_layer_types": ["dense", "sparse"],
        },
    ),
    "llama4": (
        "Llama 4, rotary embedding in complex numbers, 4 experts",
        "Llama4",
        {
            "head_dim": 8,
            "intermediate_size_mlp": 64,
            "num_local_experts": 4,
            "interleave_moe_layer_step": 2,
            "layer_types": ["chunked_attention", "full_attention"],
            "no_rope_layers": [1, 0],
            "attention_chunk_size": 16,
        },
    ),
    "gpt_oss": (
        "gpt-oss, 4 experts with biases, window 8, attention sinks",
        "GptOss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 8},
    ),
    "mamba": ("Mamba", "Mamba", {"state_size": 4, "conv_kernel": 4, "expand": 2, "time_step_rank": 4}),
    "falcon_mamba": (
        "FalconMamba",
        "FalconMamba",
        {"state_size": 4, "conv_kernel": 4, "expand": 2, "time_step_rank": 4},
    ),
    "mamba2": (
        "Mamba2",
        "Mamba2",
        {"state_size": 4, "conv_kernel": 4, "expand": 2, "head_dim": 8, "num_heads": 8, "n_groups": 1, "chunk_size": 8},
    ),
    "bamba": ("Bamba, a Mamba2 and an attention layer, chunks of 8", "Bamba", {**_SSD, "attn_layer_indices": [1]}),
    "granite_hybrid": (
        "Granite MoE hybrid, a Mamba2 and an attention layer, 4 experts",
        "GraniteMoeHybrid",
        {
            **_SSD,
            "mamba_expand": 2,
            "layer_types": ["mamba", "attention"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
        },
    ),
    "zamba": (
        "Zamba, Mamba layers with heads, and a shared attention layer",
        "Zamba",
        {
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
            "n_mamba_heads": 2,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
        },
    ),
    "zamba2": (
        "Zamba2, a shared attention layer between two of Mamba2",
        "Zamba2",
        {
            "num_hidden_layers": 3,
            "layers_block_type": ["mamba", "hybrid", "mamba"],
            "hybrid_layer_ids": [1],
            "n_mamba_heads": 8,
            "mamba_headdim": 8,
            "mamba_ngroups": 1,
            "mamba_d_state": 4,
            "mamba_expand": 2,
            # To 5.14 the eager model without kernels sums over the wrong axis beyond one chunk.
            "chunk_size": 64,
            "num_mem_blocks": 1,
            "use_mem_rope": True,
            "adapter_rank": 4,
        },
    ),
    "nemotron_h": (
        "Nemotron-H, an attention layer between two of Mamba2",
        "NemotronH",
        {
            "num_hidden_layers": 3,
            "layers_block_type": ["mamba", "attention", "mamba"],
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "ssm_state_size": 4,
            "n_groups": 1,
            # As for Zamba2.
            "chunk_size": 64,
            "head_dim": 8,
        },
    ),
    "falcon_h1": ("Falcon-H1, attention beside Mamba2, chunks of 8", "FalconH1", {**_SSD, "head_dim": 8}),
    "lfm2": ("LFM2, short convolutions and attention", "Lfm2", SHORT),
    "lfm2_moe": (
        "LFM2-MoE, short convolutions and attention, 4 experts",
        "Lfm2Moe",
        {**SHORT, **_EXPERTS, "num_dense_layers": 1, "use_expert_bias": False},
    ),
    "qwen3_next": (
        "Qwen3-Next, gated delta net and attention, 4 experts",
        "Qwen3Next",
        {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 16},
    ),
    "qwen3_5_text": ("Qwen3.5, text, gated delta net and attention", "Qwen3_5", _DELTA),
    "qwen3_5_moe_text": ("Qwen3.5-MoE, text, gated delta net and attention", "Qwen3_5Moe", {**_DELTA, **_EXPERTS}),
    "qwen4_exp": (
        "Qwen4-Exp, text, gated delta net and attention to blocks of keys, 4 experts",
        "Qwen4Exp",
        {
            **_DELTA,
            **_EXPERTS,
            "shared_expert_intermediate_size": 16,
            "layer_types": ["linear_attention", "indexed_attention"],
            "indexer_n_heads": 32,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 4,
            "indexer_compress_ratio": 2,
            "hc_lowrank": 8,
            "ple_layer_ids": [],
        },
    ),
    "olmo_hybrid": ("OLMo-hybrid, gated delta net and attention", "OlmoHybrid", _DELTA),
    "lara_mini": (
        "Lara, gated delta net, attention with a window of 4 and without, 4 experts",
        "LaraMini",
        {
            **_DELTA,
            **_EXPERTS,
            "shared_expert_intermediate_size": 16,
            "layer_types": ["linear_attention", "sliding_attention", "full_attention"],
            "num_hidden_layers": 3,
            "sliding_window": 4,
        },
    ),
    "kimi_linear": (
        "Kimi Linear, delta attention and latent attention, 4 experts",
        "KimiLinear",
        {
            **_LATENT,
            "linear_num_heads": 4,
            "linear_head_dim": 8,
            "linear_conv_kernel_dim": 4,
            "layer_types": ["linear_attention", "full_attention"],
            "num_local_experts": 4,
            **_GROUPED,
        },
    ),
    "minimax": (
        "MiniMax-Text, lightning attention and attention, blocks of 8, 4 experts",
        "MiniMax",
        {
            # This order is that of MiniMax-Text-01. With it upstream's mask of a later call is that of an empty cache,
            # so eager is wrong there for several tokens, and for one behind padding: it is compared without a cache.
            "layer_types": ["linear_attention", "full_attention"],
            "block_size": 8,
            "head_dim": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "dbrx": (
        "DBRX, 4 experts",
        "Dbrx",
        {
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 256,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
            # As wide as the model: releases to 5.17 take the one for the other.
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
    "aria_text": (
        "Aria, text, 4 experts",
        "Aria",
        {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1},
    ),
    "longcat_flash": (
        "LongCat-Flash, 4 experts and 2 that change nothing",
        "LongcatFlash",
        {
            **_LATENT,
            "num_layers": 1,
            "head_dim": 4,
            "n_routed_experts": 4,
            "zero_expert_num": 2,
            "expert_ffn_hidden_size": 16,
            "ffn_hidden_size": 64,
            "moe_topk": 2,
        },
    ),
    "gemma4": (
        "Gemma 4, text, heads of two sizes, layers that share keys, window 8",
        "Gemma4",
        {
            **SHARED,
            "global_head_dim": 16,
        },
    ),
    "gemma3n": (
        "Gemma 3n, text, layers that share keys, window 8",
        "Gemma3n",
        {
            **SHARED,
            "intermediate_size": [64] * 6,
            "laurel_rank": 8,
            "altup_num_inputs": 3,
            # Of the first two layers most activations are cut off.
            "activation_sparsity_pattern": [0.95] * 2 + [0.0] * 4,
        },
    ),
    "inkling": (
        "Inkling, text, short convolutions, window 8, relative positions",
        "Inkling",
        {
            "head_dim": 8,
            "swa_head_dim": 8,
            "swa_num_attention_heads": 4,
            "swa_num_key_value_heads": 2,
            "sliding_window_size": 8,
            "d_rel": 4,
            "rel_extent": 16,
            "local_layer_ids": [0],
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "logits_mup_width_multiplier": 1.0,
        },
    ),
    "doge": (
        "Doge, dynamic window of 48",
        "Doge",
        {"vocab_size": 60_000, "keep_window_size": 37},
    ),
    "olmoe_window": (
        "OLMoE, 4 experts, window 8 in its cache alone",
        "Olmoe",
        {"num_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "llama_window": ("Llama, window 8 in its cache alone", "Llama", {"sliding_window": 8}),
    "stablelm_window": ("StableLM, window 8 in its cache alone", "StableLm", {"sliding_window": 8}),
    "jamba": (
        "Jamba, attention and Mamba layers, experts",
        "Jamba",
        {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "mamba_d_state": 4,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "recurrent_gemma": (
        "RecurrentGemma, two recurrent layers and one with a window of 8",
        "RecurrentGemma",
        # Its weights begin so small that states would hardly count.
        {"num_hidden_layers": 3, "attention_window_size": 8, "w_init_variance_scale": 1.0},
    ),
    "xlnet": (
        "XLNet, which keeps the states of 8 tokens",
        "XLNet",
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "mem_len": 8},
    ),
    "xlstm": (
        "xLSTM, 4 heads whose gates depend on the text",
        "xLSTM",
        {"hidden_size": 128, "embedding_dim": 128, "num_heads": 4, "num_blocks": 2},
    ),
    "rwkv": ("RWKV, a state of five tensors for all layers", "Rwkv", {}),
}
"""Title, prefix of the classes and settings of each model of transformers."""

LISTED = ("doge",)
"""Models whose cases are written down one by one."""

ON_THE_WHOLE_WAY = {
    "rwkv": "a state that is a list",
    "xlstm": "a cache of its own class",
    "recurrent_gemma": "states that upstream keeps on modules",
    "xlnet": "memories, and a mask of who sees whom",
}
"""Models whose cache is of a form that `export` finds out, with what that is: they have no other case."""

CHUNKED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen4_exp", "olmo_hybrid", "lara_mini", "kimi_linear")
"""Models with layers that go through a text in chunks of 64 tokens, which no configuration makes less."""

OWN_CACHES = (*CHUNKED, "falcon_h1", "lfm2", "lfm2_moe", "minimax", "nemotron_h", "zamba2")
"""Models that have a cache of a class of their own in some releases, of which some need to be told the batch."""

EAGER = "_eager"
"""What is added to the name of a case whose model has the attention implementation `eager`."""

_MODELS = "_causal_lm_models"
_APART = (*LISTED, *ON_THE_WHOLE_WAY)
_MAKERS = {
    "rwkv": f"{_MODELS}:make_end_to_end",
    "xlnet": f"{_MODELS}:make_unlimited",
    "xlstm": "_xlstm_model:make_gated",
}
_BEYOND = call("_comparisons:compare_beyond")
_FACTORIES = {
    "nemotron": "make_recomputed",
    "zamba": "make_zamba",
    **dict.fromkeys(OWN_CACHES, "make_own_cache"),
    **dict.fromkeys(("olmoe_window", "stablelm_window"), "make_with_last_keys"),
}
_SHOWN = ("llama", "mistral_window", "gemma2_window", "phi3_longrope", "llama_dynamic")
_REPRESENTATIVE = ("llama", "mistral_window", "phi3_longrope", "llama_dynamic", "mixtral", "gpt_oss", "jamba")
_EVERYWHERE = frozenset(
    (
        "llama",
        "mistral_window",
        "gemma2_window",
        "phi3_longrope",
        "llama_dynamic",
        "llama_yarn",
        "llama_longrope",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen2_dynamic",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "gemma",
        "gemma3",
        "phi",
        "phi3",
        "gpt2",
        "gpt_neox",
        "gptj",
        "opt",
        "bloom",
        "falcon",
        "mpt",
        "codegen",
        "cohere",
        "cohere2",
        "olmo2",
        "deepseek_v3",
        "gpt_oss",
        "mamba",
        "mamba2",
        "jamba",
    )
)
_SLOW = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen4_exp", "olmo_hybrid", "lara_mini"), ("gated-delta-rule",)),
    "kimi_linear": ("kimi-delta-chunks",),
    "gemma3n": ("gemma3n-activation-quantile", "gemma3n-altup-clip"),
    "bamba": ("bamba-cache-position",),
    "falcon_h1": ("falcon-h1-cache-position",),
}
_CHUNKS = (
    ("bamba", "bamba", "Bamba", "mamba_chunk_size"),
    ("falcon_h1", "falcon_h1", "Falcon-H1", "mamba_chunk_size"),
    ("granite_hybrid", "granitemoehybrid", "Granite MoE hybrid", "mamba_chunk_size"),
    ("mamba2", "mamba2", "Mamba2", "chunk_size"),
    ("nemotron_h", "nemotron_h", "Nemotron-H", "chunk_size"),
    ("zamba2", "zamba2", "Zamba2", "chunk_size"),
)
"""Models whose scan goes by chunks: case, package, title, and what their configuration calls the tokens of one."""


def _model(name: str, attention: str | None) -> Case:
    """Return the case of a model of `SETTINGS`; the default attention is sdpa where the release has it."""
    is_default = attention is None
    return Case(
        name if is_default else name + EAGER,
        SETTINGS[name][0] + ("" if is_default else ", eager attention"),
        call(f"{_MODELS}:{_FACTORIES.get(name, 'make_causal')}", name, attention),
        call(f"{_MODELS}:exists", name),
        shown=is_default and name in _SHOWN,
        everywhere=name in _EVERYWHERE,
        telling=is_default and name in _REPRESENTATIVE,
        slow_without=_SLOW.get(name, ()),
        compare=_BEYOND if name in CHUNKED else COMPARE_DECODER,
    )


CASES = (
    *(_model(name, attention) for attention in (None, "eager") for name in SETTINGS if name not in _APART),
    *(
        Case(
            f"{name}_export",
            f"{SETTINGS[name][0]}, by `export`: {what}",
            call(_MAKERS.get(name, f"{_MODELS}:make_recomputed"), name),
            call(f"{_MODELS}:exists", name),
            compare=COMPARE_END_TO_END,
            write=EXPORT_END_TO_END,
        )
        for name, what in ON_THE_WHOLE_WAY.items()
    ),
    Case("doge", SETTINGS["doge"][0], call("_doge_model:make_doge"), call(f"{_MODELS}:exists", "doge")),
    Case("llama_static", "Llama, cache of fixed size", call(f"{_MODELS}:make_static", "llama")),
    Case(
        "mistral_ring",
        "Mistral, cache of fixed size for a window of 64",
        call(f"{_MODELS}:make_sliding_static", "mistral", sliding_window=64),
        call("_presence:slides_without_counting"),
    ),
    Case(
        "gemma2_hybrid",
        "Gemma2, cache of fixed size, every second layer for a window of 64",
        call(f"{_MODELS}:make_hybrid_static", "gemma2_window", sliding_window=64),
        call("_presence:slides_without_counting"),
    ),
    Case(
        "mixtral_loop",
        "Mixtral, experts in a loop",
        call(f"{_MODELS}:make_looped", "mixtral"),
        call("_presence:has_experts_interface"),
    ),
    Case("llama_pairs", "Llama, cache filled by a wrapper", call(f"{_MODELS}:make_pairs", "llama")),
    Case(
        "llama_official",
        "Llama, with transformers' own registration",
        call(f"{_MODELS}:make_causal", "llama"),
        call("_registration:has_registration"),
        # Constants are lost where the whole program is traced once more.
        exclude=("dynamic-cache-pytree", "torch-onnx-repeated-trace"),
        around=call("_registration:official_registration"),
    ),
    Case(
        "lfm2_unpadded",
        "LFM2, calls without padding",
        call(f"{_MODELS}:make_own_cache", "lfm2"),
        call(f"{_MODELS}:exists", "lfm2"),
        compare=COMPARE_UNPADDED,
    ),
    Case("git", "GIT, texts alone", call("_git_model:make_git"), has_model("git")),
    Case(
        "deepseek_v4",
        "DeepSeek-V4, windows of 2 and 3 tokens, 4 experts, calls without padding",
        call("_deepseek_v4_model:make_compressed"),
        call("_deepseek_v4_model:has_compressed"),
        compare=COMPARE_UNPADDED,
    ),
    *(
        Case(
            f"{name}_chunks",
            f"{title}, chunks of 64",
            call(f"{_MODELS}:make_chunks", name, chunk),
            call(f"{_MODELS}:has_chunk_scan", name, package),
            slow_without=("mamba2-chunk-count",),
            compare=_BEYOND,
        )
        for name, package, title, chunk in _CHUNKS
    ),
    *(
        Case(
            f"{name}_old_name",
            f"{title}, its cache by the name that it had to 5.23",
            call("_old_cache_name:make_old_name", name),
            call("_old_cache_name:has_old_name"),
        )
        for name, title in (("llama", "Llama"), ("mamba", "Mamba"))
    ),
)

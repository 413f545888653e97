"""Defects of layers with a state in place of attention: scans, delta rules, convolutions and linear attention.

What lives here: a first call and a later one that are two branches of Python, loops over the tokens or chunks of the
sample, and masks that are dropped by an `if`. One graph has to do for a prompt and for one token, with a state or
without, so a layer is computed as if it always had one: no state is the same as zeros. The classes that hold the states
are in `caches`.

Helpers: `_states.traced_mixer` wraps `forward` of a mixer, `_states.read_states` and `store_states` read and put back
its two states in any release, `causal_convolution` continues a causal convolution, `without_padding` sets padding to
0; `_scan_inputs.apart` makes of a tensor what torch's `scan` takes; `_selective_scan` is that of Mamba,
`_parallel_scan` computes a linear recurrence without a loop, `_chunked_scan` goes through a text in chunks,
`_delta_chunks` is the gated delta rule by it and `_delta_blockwise` without, both of `_token_pairs`,
`_decayed_attention` and `_ssd_chunks` are Mamba2 and lightning attention by it, `_ssd_single_chunk` is the scan of
Mamba2 without. Compare on more than one chunk: within the first everything is right.

Upstream: the mixers in `modeling_*.py` of Mamba, FalconMamba, Mamba2, Bamba, Falcon-H1, Jamba, Zamba2, Nemotron-H,
Qwen3-Next, OLMo hybrid, Kimi Linear, MiniMax, LFM2, RWKV, xLSTM, RecurrentGemma and others of
their kind; `transformers/masking_utils.py` for their masks.
"""

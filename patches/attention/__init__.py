"""Defects of masks and positions: what attends to what, and where a token stands.

What lives here: masks that are made by `vmap`, left out or cut by an `if` on their values, misplaced for a sliding
window or a past, and rotary embeddings whose frequencies or tables depend on the longest position or are complex
numbers. Layers without attention are in `recurrent`, the caches that tell a mask how long the past is in `caches`, and
the positions of image patches in `vision`.

Helpers: `_rotary_both_branches` computes both answers of an `if` on a length and picks one in the graph;
`_complex_as_pairs` stands in for complex tensors; `toolkit.module_state.preserved` keeps frequencies that are computed
for one call from staying on the module; `toolkit.cache_names.cache_of` finds the cache among the arguments of a call. A
mask is made of comparisons of positions, never of lengths read in Python.

Upstream: `transformers/masking_utils.py` (from 4.53), `modeling_attn_mask_utils.py`, `modeling_rope_utils.py`, and the
`modeling_*.py` of Phi-3, Gemma 2, Gemma 3, Jamba, Zamba2, MPT, Nemotron, Llama 4, DeepSeek-V2 and Qwen2.
"""

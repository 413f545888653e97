"""Defects of key-value and state caches: not in the graph, of a constant length, or not handed back.

What lives here: the pytree nodes of cache classes, with the names and the order of leaves that decoders in files have;
layers whose empty or full past is decided by a Python counter; and caches that are asked for a length that only a graph
knows. How a recurrent layer computes its next state is in `recurrent`; the names that an argument with a cache has had
are in `toolkit.cache_names`.

Helpers: `_pytree_node.cache_node` makes a pytree node of a class from two functions, and is where leaves get their
names; `_key_value_lists` and `_state_lists` flatten classes of older releases; `_compressed_layers` those of
DeepSeek-V4; `toolkit.layer_states` reads and sets the convolution and recurrent state of a layer. A cache must come out
of `tree_unflatten` as it went in, tensors, counters and empty layers too: `tests/export/test_caches.py` says so for
each.

Upstream: `transformers/cache_utils.py`, and the caches that models bring along: Mamba, Jamba, Bamba, MiniMax, LFM2,
Qwen3-Next, Gemma 3, DeepSeek-V4, xLSTM.
"""

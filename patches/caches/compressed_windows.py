"""A cache that keeps its past compressed asks how many windows of tokens have been closed, which a graph cannot know.

Symptom: DeepSeek-V4: its cache is refused; with a node for it, torch stops at `chunk_kv.shape[1] > 0`, or the graph
takes texts alone that close as many windows as the sample's.
Cause: tokens are collected until a window is full. What is done with a window, and with the one before it, stands
behind questions of whether there is one, and the layer counts in Python.
What is done: while it is traced, two blank windows go behind those that a call closes, so that there always is one and
one before it. Their entries are behind every token, so no token sees them, and they are not kept. Keys keep the full
past, as those of other layers with a window do (`sliding-layer-full-past`).
Can go: when upstream has a static cache for these layers.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_BLANK = 2
"""Windows that are added: the first has none before it."""


def patch_compressed_layer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of such a layer take any number of windows and keep all keys while it is traced."""
    is_for, changed = _METHODS[original.__name__]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (changed if is_for(self, *args) else original)(self, *args, **kwargs)

    return method


def _update(layer: Any, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    if not layer.is_initialized:
        layer.lazy_initialization(key_states, value_states)
    layer.cumulative_length += key_states.shape[-2]
    layer.keys = layer.values = torch.cat([layer.keys, key_states], dim=-2)
    return layer.keys, layer.keys


def _store(layer: Any, name: str, kv: Any, gate: Any) -> Any:
    if name == next(iter(layer.buffer_kv)):
        _settle(layer)
    first = layer.entry_count[name] * layer.compress_rate
    kv = _closed(layer.buffer_kv, name, kv, layer.compress_rate)
    return kv, _closed(layer.buffer_gate, name, gate, layer.compress_rate), first


def _append(layer: Any, name: str, compressed: Any) -> Any:
    import torch

    before = layer.compressed_kv[name]
    entries = compressed if before is None else torch.cat([before, compressed], dim=1)
    layer.compressed_kv[name] = entries[:, :-_BLANK]
    layer.entry_count[name] = entries.shape[1] - _BLANK
    return entries


def _overlap(layer: Any, name: str, chunk_kv: Any, chunk_gate: Any, head_dim: int) -> Any:
    prior_kv = _followed(layer.overlap_kv, name, chunk_kv[..., :head_dim], 0.0)
    return prior_kv, _followed(layer.overlap_gate, name, chunk_gate[..., :head_dim], float("-inf"))


def _has_full_past(layer: Any, *_: Any) -> bool:
    from exportcompat.patches.toolkit.sliding_layers import has_full_past

    return has_full_past(layer)


def _is_traced(layer: Any, name: str, states: Any, *_: Any) -> bool:
    from exportcompat.patches.toolkit.tracing import is_traced

    return is_traced(states)


_METHODS: dict[str, tuple[Callable[..., bool], Callable[..., Any]]] = {
    "update": (_has_full_past, _update),
    "store_compression_weights": (_is_traced, _store),
    "update_compressor_states": (_is_traced, _append),
    "update_overlap_state": (_is_traced, _overlap),
}
"""By name of a method: when it is changed, and what is done then."""


def _settle(layer: Any) -> None:
    """Tell torch that all parts of a layer have as many tokens in their buffers, and as many entries.

    It would find that out where they meet, and have the sizes in other symbols up to there.
    """
    import torch

    for names in (("buffer_kv", "buffer_gate"), ("compressed_kv",), ("overlap_kv", "overlap_gate")):
        parts = [state for name in names for state in getattr(layer, name, {}).values() if state is not None]
        for state in parts[1:]:
            torch._check(state.shape[1] == parts[0].shape[1])


def _closed(buffers: Any, name: str, states: Any, rate: int) -> Any:
    """Return the tokens of windows that are full now and of the blank ones; the rest goes into the buffer."""
    import torch

    whole = states if buffers[name] is None else torch.cat([buffers[name], states], dim=1)
    length = whole.shape[1]
    count = length // rate
    buffers[name] = _taken(whole, count * rate, length % rate)
    blank = whole.new_zeros((whole.shape[0], _BLANK * rate, whole.shape[2]))
    # The first of the blank windows begins with what is in the buffer: it is not full.
    return _taken(torch.cat([whole, blank], dim=1), 0, (count + _BLANK) * rate)


def _taken(states: Any, begin: Any, count: Any) -> Any:
    """Return `count` tokens from `begin` on, by their places.

    The size of a slice is bounded by that of the whole. Such bounds do not cancel, and what follows
    (`view(batch, windows, window, -1)`) would keep torch busy for minutes.
    """
    import torch

    return states[:, torch.arange(count, device=states.device) + begin]


def _followed(overlaps: Any, name: str, windows: Any, nothing: float) -> Any:
    """Return what the last window was before, or `nothing`; the last one of `windows` takes its place, if there is one.

    Args:
        overlaps: `(batch, window or 0, head_dim)` by name.
        name: which of them.
        windows: `(batch, windows, window, head_dim)`.
        nothing: what stands for no window.

    Returns:
        `(batch, window, head_dim)`.
    """
    import torch

    rate, closed = windows.shape[2], windows[:, :-_BLANK].flatten(1, 2)
    before = closed[:, :0] if overlaps[name] is None else overlaps[name]
    known = torch.cat([torch.full_like(windows[:, 0], nothing), before, closed], dim=1)
    kept = torch.sym_min(known.shape[1] - rate, rate)
    overlaps[name] = _taken(known, known.shape[1] - kept, kept)
    return _taken(known, before.shape[1], rate)


_MODEL = "transformers.models.deepseek_v4.modeling_deepseek_v4"

SPECS = (
    PatchingSpec(
        id="compressed-windows",
        targets=(
            f"{_MODEL}:DeepseekV4HCACache.update",
            f"{_MODEL}:DeepseekV4HCACache.store_compression_weights",
            f"{_MODEL}:DeepseekV4HCACache.update_compressor_states",
            f"{_MODEL}:DeepseekV4CSACache.update_overlap_state",
        ),
        replacement=f"{__name__}:patch_compressed_layer",
        requires=("transformers>=5.8.1", "torch>=2.6"),
        reason="A compressed cache asks how many windows a call has closed: no graph, or one for the sample's lengths.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/deepseek_v4/modeling_deepseek_v4.py",
        ),
        proofs=("deepseek_v4",),
        kind="wrap",
    ),
)

"""Layers of a cache that keep a past compressed: one entry for each window of tokens, and the tokens of an open window.

DeepSeek-V4's layers have dictionaries, by `compressor` and `indexer`, of what follows; keys are the values too.

- `buffer_kv`, `buffer_gate`: `(batch, open, channels)`, of the tokens that no entry has yet.
- `compressed_kv`: `(batch, entries, head_dim)`.
- `overlap_kv`, `overlap_gate`: `(batch, window, head_dim)`, of the last window that is closed. Before there is one it
  is None; a leaf, and what a graph has, is empty then.
"""

import sys
from collections.abc import Iterator
from typing import Any

_MODULE = "transformers.models.deepseek_v4.modeling_deepseek_v4"
_CLASSES = ("DeepseekV4HCACache", "DeepseekV4CSACache")
_GROWING = ("buffer_kv", "buffer_gate", "compressed_kv")
_OVERLAP = ("overlap_kv", "overlap_gate")
_COUNT = "entry_count"
WINDOW_STATES = (*_GROWING, *_OVERLAP, _COUNT)


def is_compressed(layer: Any) -> bool:
    """Say whether a layer is one of these."""
    cls = type(layer)
    return cls.__module__ == _MODULE and cls.__name__ in _CLASSES


def window_states(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and tensor of each state, such as `indexer_buffer_kv`; what has not been filled is left out."""
    for part, entries in layer.compressed_kv.items():
        if entries is None:
            continue
        yield from ((f"{part}_{attribute}", getattr(layer, attribute)[part]) for attribute in _GROWING)
        for attribute in filter(lambda name: hasattr(layer, name), _OVERLAP):
            overlap = getattr(layer, attribute)[part]
            yield f"{part}_{attribute}", entries[:, :0] if overlap is None else overlap


def blank_layer(name: str, window: int | None) -> Any:
    """Return a layer of a class as if it were just made, but for its `compress_rate`, which is not known here.

    Args:
        name: name of the class.
        window: sliding window in tokens.
    """
    from transformers.cache_utils import DynamicSlidingWindowLayer

    cls = getattr(sys.modules[_MODULE], name)
    layer = cls.__new__(cls)
    DynamicSlidingWindowLayer.__init__(layer, sliding_window=window)
    is_overlapping = name == _CLASSES[1]
    parts = ("compressor", "indexer") if is_overlapping else ("compressor",)
    for attribute in (*_GROWING, *(_OVERLAP if is_overlapping else ())):
        setattr(layer, attribute, dict.fromkeys(parts))
    setattr(layer, _COUNT, dict.fromkeys(parts, 0))
    return layer


def set_window_state(layer: Any, name: str, state: Any) -> None:
    """Set a state by the name that `window_states` gives it; leaves of other kinds than tensors stay as they are."""
    from exportcompat.patches.toolkit.tracing import is_traced

    part, _, attribute = name.partition("_")
    is_tensor = hasattr(state, "new_empty")
    is_nothing = attribute in _OVERLAP and is_tensor and not is_traced(state) and not state.shape[1]
    getattr(layer, attribute)[part] = None if is_nothing else state
    if attribute == "compressed_kv" and is_tensor:
        getattr(layer, _COUNT)[part] = state.shape[1]

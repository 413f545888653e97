"""Masks for the last keys, where a model gives those of the first tokens to a cache that has dropped tokens.

From transformers 4.56 to 5.1 the cache of every model whose configuration has a window slides. Models that make their
masks themselves make them for all tokens of the text, and attention takes as many of their columns as there are keys,
from the first one on. The keys that are left are the last ones.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.patches.toolkit.sliding_layers import window_of

NOTE = (
    "in eager mode calls beyond the window have the mask of the first tokens for the last keys, which is a fault of "
    "this release: compared with masks for the last keys"
)

_AXES = 4
"""Of a mask: `(batch, 1, new, past + new)`."""

_OWN_MASK = "_update_causal_mask"
"""The method by which models make masks that do not let transformers make them."""


def mask_makers(model: Any, layers: Iterable[Any]) -> list[Any]:
    """Return the modules that make masks for all tokens of a text; none where not all layers of the cache slide.

    Args:
        model: an `nn.Module`.
        layers: those of its cache.
    """
    layers = list(layers)
    if not layers or not all(map(window_of, layers)):
        return []
    return [module for module in model.modules() if hasattr(type(module), _OWN_MASK)]


@contextmanager
def masks_of_last_keys(makers: Iterable[Any], cache: Any) -> Iterator[list[Any]]:
    """Leave out the columns of tokens that a cache has dropped, and give a list of the masks that had them.

    Args:
        makers: what `mask_makers` returns.
        cache: what the model is called with; None for a first call.
    """
    past, held = _lengths(cache)
    changed = [vars(maker) for maker in makers] if past > held else []
    cropped: list[Any] = []
    for maker, names in zip(makers, changed, strict=False):
        # A function of the instance hides the method of its class.
        names[_OWN_MASK] = _cropping(getattr(maker, _OWN_MASK), past, held, cropped)
    try:
        yield cropped
    finally:
        for names in changed:
            del names[_OWN_MASK]


def _lengths(cache: Any) -> tuple[int, int]:
    """Return how many tokens a cache has seen, and how many it holds."""
    layers = [layer for layer in getattr(cache, "layers", ()) if window_of(layer)]
    if not layers or layers[0].keys is None:
        return 0, 0
    return int(layers[0].cumulative_length), int(layers[0].keys.shape[-2])


def _cropping(method: Any, past: int, held: int, cropped: list[Any]) -> Any:
    def _update_causal_mask(*args: Any, **kwargs: Any) -> Any:
        mask = method(*args, **kwargs)
        # One that has no columns for all tokens was made for the keys that there are.
        if getattr(mask, "ndim", 0) != _AXES or mask.shape[-1] < past + mask.shape[-2]:
            return mask
        cropped.append(mask)
        return mask[..., past - held :]

    return _update_causal_mask

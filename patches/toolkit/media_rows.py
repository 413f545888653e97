"""Rows that a call may have none of: the images or sounds of a model whose texts can do without them."""

from collections.abc import Iterator
from typing import Any

_TEXTS = ("input_ids", "inputs_embeds")


def may_be_empty(size: Any) -> bool:
    """Say whether a size depends on an input other than the text of a model that takes a text.

    A size that is data, such as the number of images that are no padding, may be 0 too.

    Args:
        size: an `int`, or a `torch.SymInt` of a program that is being captured.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

    # While `torch.jit.trace` records, a size is a tensor, and the exporter of its graphs writes no `Attention`.
    if not isinstance(size, torch.SymInt):
        return False
    if free_unbacked_symbols(size):
        return True
    texts = set(_of_texts(size.node.shape_env))
    return bool(texts) and not free_symbols(size) <= texts


def _of_texts(env: Any) -> Iterator[Any]:
    """Yield the symbols of the sizes of texts, as they are found in expressions."""
    for symbol, sources in env.var_to_sources.items():
        if any(f"'{text}'" in _name(source) for source in sources for text in _TEXTS):
            yield from env.replacements.get(symbol, symbol).free_symbols


def _name(source: Any) -> str:
    # It is a method in some releases of torch and a property in others.
    name = source.name
    return str(name() if callable(name) else name)

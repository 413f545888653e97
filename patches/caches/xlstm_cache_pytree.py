"""`xLSTMCache` is no pytree node.

Symptom: `torch.export` refuses an `xLSTMCache` among the inputs or outputs.
What is done: inside the scope the leaves are, layer by layer, `0.cell_state`, `(batch, heads, qk_dim, v_dim)`,
`0.normalizer_state`, `(batch, heads, qk_dim)`, and `0.exponent_state`, `(batch, heads, 1)`. The counter of tokens,
which no computation reads, is kept for a round trip, and a cache that is put together in a graph counts from 0.
Can go: when xLSTM has a `DynamicCache`, as other models whose layers have states do from 5.5 on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

from ._pytree_node import cache_node

_MODULE = "transformers.models.xlstm.modeling_xlstm"
_LEAVES = ("cell_state", "normalizer_state", "exponent_state")
_COUNTER = "seqlen_offset"
_STATES = "rnn_state"


@dataclass(frozen=True)
class XLSTMLayout:
    """What such a cache is besides its tensors.

    Attributes:
        numbers: those of the layers.
        counted: tokens so far, `(1,)`, to 5.12 a number; None where they are those of a graph.
        state: the other attributes, by reference.
    """

    numbers: tuple[int, ...]
    counted: Any = field(default=None, compare=False, repr=False)
    state: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Names of the leaves of each layer."""
        return (_LEAVES,) * len(self.numbers)


def node_of_xlstm_cache(original: None) -> dict[str, Any]:
    """Return the arguments of `torch.utils._pytree.register_pytree_node` for `xLSTMCache`."""
    return cache_node("xLSTMCache", flatten, unflatten)


def flatten(cache: Any) -> tuple[list[Any], XLSTMLayout]:
    """Return the leaves and the layout."""
    import torch

    states, counter = getattr(cache, _STATES), getattr(cache, _COUNTER)
    # That of a graph is of another class, and torch cannot copy it.
    counted = counter if type(counter) in (torch.Tensor, int) else None
    others = {name: value for name, value in vars(cache).items() if name not in (_STATES, _COUNTER)}
    return [leaf for layer in states.values() for leaf in layer], XLSTMLayout(tuple(states), counted, others)


def unflatten(leaves: Iterable[Any], layout: XLSTMLayout) -> Any:
    """Return a cache with the leaves and the layout."""
    import torch
    from transformers.models.xlstm.modeling_xlstm import xLSTMCache

    cache, rest = xLSTMCache.__new__(xLSTMCache), iter(leaves)
    vars(cache).update(layout.state)
    setattr(cache, _STATES, {number: tuple(next(rest) for _ in _LEAVES) for number in layout.numbers})
    counted = torch.zeros(1, dtype=torch.int64) if layout.counted is None else layout.counted
    # Upstream counts in place where it is a tensor, and the cache that was taken apart is not to be changed.
    counted = counted.clone() if isinstance(counted, torch.Tensor) else counted
    setattr(cache, _COUNTER, counted)
    return cache


SPECS = (
    PatchingSpec(
        id="xlstm-cache-pytree",
        targets=(f"pytree({_MODULE}:xLSTMCache)",),
        replacement=f"{__name__}:node_of_xlstm_cache",
        requires=("transformers>=4.54", "torch>=2.6"),
        reason="The cache of xLSTM cannot be an input or an output of a graph.",
        upstream=(source("models/xlstm/modeling_xlstm.py", "v5.24.0"),),
        proofs=("xlstm_export",),
        defect=(r"self\.rnn_state\b",),
        kind="pytree",
    ),
)

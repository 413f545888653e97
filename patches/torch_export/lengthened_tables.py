"""A table that a module lengthens by a Python `if` is in the graph as the sample needs it.

Symptom: a file stops beyond `max_position_embeddings`, or is right for longer calls only: rotary cosines in code that
comes with a checkpoint (`if seq_len > self.max_seq_len_cached: self._set_cos_sin_cache(...)`), relative positions of
Conformers (`extend_pe`). Where the length must be equal (`_seq_len_cached` of ESM, `cached_sequence_length` of
SeamlessM4T), an earlier eager call of the sample's length fixes the length of the graph.
Cause: the `if` is answered from the sample, and from what earlier calls have left in the module.
What is done: while a graph is captured, `forward` of such a module finds no table, and so its own code computes the one
of the call's length. A module is one if it has a number, with `cached` in its name, that an `if` of its class compares
and another line sets; or a buffer `pe` and a method `extend_pe`, or others of such a pair of names.
Before torch 2.8 `torch-export-assumptions`, which has the same place, does it too.
Can go: when no code does so any more; transformers itself computes cosines from positions from 4.48 on.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_capture(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs a model for its graph, made to compute tables for the length of each call."""

    def capture(mod: Any, *args: Any, **kwargs: Any) -> Any:
        from ._lengthened_tables import computing_tables

        with computing_tables(mod):
            return original(mod, *args, **kwargs)

    return capture


SPECS = (
    PatchingSpec(
        id="torch-export-lengthened-tables",
        targets=("torch.export._trace:_non_strict_export",),
        replacement=f"{__name__}:patch_capture",
        requires=("torch>=2.8",),
        reason="A table that eager lengthens stays as the sample needs it: wrong, or no result, at other lengths.",
        upstream=("https://github.com/pytorch/pytorch/issues/153998",),
        proofs=("growing_gpt",),
        kind="wrap",
    ),
)

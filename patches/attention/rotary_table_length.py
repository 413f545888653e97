"""A table of rotary cosines is made longer by a Python `if`, and a graph keeps that of the sample.

Symptom: positions beyond `max_position_embeddings` are out of the range of the graph's table, where eager makes the
table longer.
Cause: classes of older releases keep cosines and sines as buffers, and compute them anew if a call is longer.
What is done: while it is traced, the table is computed for the length of the call at hand.
From torch 2.13 on `torch-export-lengthened-tables` does so for any class.
Can go: with transformers 4.47; later classes compute cosines from positions.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged


def patch_rotary_table(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Compute the table of `forward(x, seq_len)` in each traced call; leave other methods as they are."""
    from exportcompat.patches.toolkit.module_state import preserved
    from exportcompat.patches.toolkit.tracing import is_traced

    if original.__name__ != "forward":
        return Unchanged("it is not the `forward` that takes a length")

    def forward(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(x):
            return original(self, x, *args, **kwargs)
        with preserved(self):
            self.max_seq_len_cached = 0
            return original(self, x, *args, **kwargs)

    return forward


SPECS = (
    PatchingSpec(
        id="rotary-table-length",
        targets=("methods_using(transformers:_set_cos_sin_cache)",),
        replacement=f"{__name__}:patch_rotary_table",
        requires=("transformers>=4.44,<4.48", "torch>=2.6,<2.13"),
        reason="A table of cosines is as long as the sample needs: wrong, or no result, for longer calls.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers/models/qwen2/modeling_qwen2.py",
        ),
        proofs=("mixtral_beyond",),
        kind="wrap",
    ),
)

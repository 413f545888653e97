"""A scan in chunks has as many of them as the traced sample, which is one.

Symptom: Falcon-H1, Nemotron-H, Zamba2: the file stops in a `Split` or `Reshape` where a call has more tokens than a
chunk, which are 256 in most models. Bamba and Granite MoE hybrid have the same function; their files stop, too, if they
are made by torch 2.6 to 2.9, and do without the patch later. Falcon-H1 does without it to torch 2.8.
Cause: torch takes an axis that is 1 in the sample for 1, and does not say so where the size follows from another one.
What is done: while it is traced, all tokens are one chunk. A product in it has tokens x tokens elements for each head,
as attention has.
Can go: when sizes that follow from others are not taken for what they are in the sample.
"""

import inspect
from collections.abc import Callable
from itertools import starmap
from typing import Any

from exportcompat.registry import PatchingSpec


def in_one_chunk(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `mamba2_chunk_scan`, made to take all tokens, `(batch, tokens, heads, head_dim)`, for one chunk."""
    signature = inspect.signature(original)

    def mamba2_chunk_scan(hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(hidden_states):
            return original(hidden_states, *args, **kwargs)
        call = signature.bind(hidden_states, *args, **kwargs)
        call.arguments["chunk_size"] = hidden_states.shape[1]
        return original(*call.args, **call.kwargs)

    return mamba2_chunk_scan


_MODELS = {
    "torch>=2.6,<2.9": ("bamba", "granitemoehybrid", "nemotron_h", "zamba2"),
    "torch>=2.9,<2.10": ("bamba", "falcon_h1", "granitemoehybrid", "nemotron_h", "zamba2"),
    "torch>=2.10": ("falcon_h1", "nemotron_h", "zamba2"),
}
_PROOFS = {"granitemoehybrid": "granite_hybrid_chunks"}


def _spec(torch: str, models: tuple[str, ...]) -> PatchingSpec:
    return PatchingSpec(
        id="mamba2-chunk-count",
        targets=tuple(f"transformers.models.{name}.modeling_{name}:mamba2_chunk_scan" for name in models),
        replacement=f"{__name__}:in_one_chunk",
        requires=("transformers>=5.18", torch),
        reason="A scan has as many chunks as the traced sample: a graph that stops at longer texts.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.18.0/src/transformers/models/falcon_h1/modeling_falcon_h1.py",
        ),
        proofs=tuple(_PROOFS.get(name, f"{name}_chunks") for name in models),
        kind="wrap",
    )


SPECS = tuple(starmap(_spec, _MODELS.items()))

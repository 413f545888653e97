"""A scan in chunks has as many of them as the traced sample, which is one.

Symptom: Falcon-H1, Nemotron-H, Zamba2: the file stops in a `Split` or `Reshape` where a call has more tokens than a
chunk, which are 256 in most models. Bamba and Granite MoE hybrid have the same function; their files stop, too, if they
are made by torch 2.6 to 2.9, and do without the patch later. Falcon-H1 does without it to torch 2.8.
Cause: torch takes an axis that is 1 in the sample for 1, and does not say so where the size follows from another one.
What is done: while it is traced, chunks of 64 tokens go through torch's `scan`; see `_ssd_chunks`. Before torch 2.9,
which cannot put that into ONNX, all tokens are one chunk, which has tokens x tokens elements for each head.
Can go: when sizes that follow from others are not taken for what they are in the sample.
"""

import inspect
from collections.abc import Callable
from itertools import starmap
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_mamba2_chunk_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `mamba2_chunk_scan` go through `(batch, tokens, heads, head_dim)` in a `scan` over chunks."""
    from ._chunked_scan import unless_scripted

    return _patch_scan(
        original, unless_scripted(lambda given: _scanned(**given), lambda given: _one_chunk(original, given))
    )


def patch_mamba2_chunk_scan_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `mamba2_chunk_scan` take all tokens for one chunk."""
    return _patch_scan(original, lambda given: _one_chunk(original, given))


def _patch_scan(original: Callable[..., Any], scanned: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def mamba2_chunk_scan(hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(hidden_states):
            return original(hidden_states, *args, **kwargs)
        call = signature.bind(hidden_states, *args, **kwargs)
        call.apply_defaults()
        return scanned({**call.arguments.pop("kwargs", {}), **call.arguments})

    return mamba2_chunk_scan


def _one_chunk(original: Callable[..., Any], given: dict[str, Any]) -> Any:
    return original(**{**given, "chunk_size": given["hidden_states"].shape[1]})


def _scanned(
    *,
    hidden_states: Any,
    dt: Any,
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    D: Any,  # noqa: N803
    dt_bias: Any,
    dt_softplus: bool,
    dt_limit: tuple[float, float],
    initial_states: Any,
    return_final_states: bool,
    **_others: Any,
) -> Any:
    """Return the outputs, and the last states where they are asked for; the others say nothing that changes numbers."""
    import torch

    from ._ssd_chunks import ssd_in_chunks

    dt = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    dt = (torch.nn.functional.softplus(dt) if dt_softplus else dt).clamp(*dt_limit)
    outputs, last = ssd_in_chunks(hidden_states, dt, A, B, C, D, initial_states)
    return (outputs, last) if return_final_states else outputs


_OLD = "torch>=2.6,<2.9"
"""Torch that cannot put `scan` into ONNX."""

_MODELS = {
    _OLD: ("bamba", "granitemoehybrid", "nemotron_h", "zamba2"),
    "torch>=2.9,<2.10": ("bamba", "falcon_h1", "granitemoehybrid", "nemotron_h", "zamba2"),
    "torch>=2.10": ("falcon_h1", "nemotron_h", "zamba2"),
}
_PROOFS = {"granitemoehybrid": "granite_hybrid_chunks"}


def _spec(torch: str, models: tuple[str, ...]) -> PatchingSpec:
    return PatchingSpec(
        id="mamba2-chunk-count",
        targets=tuple(f"transformers.models.{name}.modeling_{name}:mamba2_chunk_scan" for name in models),
        replacement=f"{__name__}:patch_mamba2_chunk_scan{'_without_scan' * (torch == _OLD)}",
        requires=("transformers>=5.18", torch),
        reason="A scan has as many chunks as the traced sample: a graph that stops at longer texts.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.18.0/src/transformers/models/falcon_h1/modeling_falcon_h1.py",
        ),
        proofs=tuple(_PROOFS.get(name, f"{name}_chunks") for name in models),
        higher_order=() if torch == _OLD else ("scan",),
        kind="wrap",
    )


SPECS = tuple(starmap(_spec, _MODELS.items()))

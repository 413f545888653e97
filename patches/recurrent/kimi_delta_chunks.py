"""Kimi delta attention goes through a text in chunks of 64 tokens, as many as the sample has.

Symptom: Kimi Linear, Bailing hybrid, GLM-5-Next: the file stops, or is wrong, beyond 64 tokens; the export takes
minutes.
Cause: loops of Python over the chunks and over the rows of one.
What is done: while it is traced, `chunk_kimi_delta_attention` goes by chunks of 8 tokens through torch's `scan` (see
`_delta_chunks`), and before torch 2.9, which cannot put that into ONNX, in blocks of tokens (see `_delta_blockwise`).
Its layers continue from their states themselves.
Can go: when upstream's chunks are no loop in Python.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_kimi_delta_attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `chunk_kimi_delta_attention` take chunks of a fixed size while it is traced."""
    from ._delta_chunks import scan_delta_rule

    return _patch_attention(original, scan_delta_rule)


def patch_kimi_delta_attention_without_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a torch that cannot put `scan` into ONNX."""
    from ._delta_blockwise import chunkwise_delta_rule

    return _patch_attention(original, chunkwise_delta_rule)


def _patch_attention(original: Callable[..., Any], ruled: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def chunk_kimi_delta_attention(query: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(query):
            return original(query, *args, **kwargs)
        call = signature.bind(query, *args, **kwargs)
        call.apply_defaults()
        return _outputs(call.arguments, ruled)

    return chunk_kimi_delta_attention


def _outputs(given: dict[str, Any], ruled: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the outputs `(batch, tokens, heads, value size)`, and the last state where it is asked for."""
    from ._token_pairs import l2_normalized

    pair = (given[name].float() for name in ("query", "key"))
    query, key = (l2_normalized(part) if given["use_qk_l2norm_in_kernel"] else part for part in pair)
    outputs, last = ruled(query, key, given["value"], given["beta"], given["g"].float(), given["initial_state"])
    return outputs.to(given["query"].dtype), last if given["output_final_state"] else None


_WAYS = {
    "torch>=2.9": ("patch_kimi_delta_attention", ("scan",)),
    "torch>=2.6,<2.9": ("patch_kimi_delta_attention_without_scan", ()),
}


def _specs(releases: str, models: tuple[str, ...]) -> Iterator[PatchingSpec]:
    for torch, (replacement, operators) in _WAYS.items():
        yield PatchingSpec(
            id="kimi-delta-chunks",
            targets=tuple(f"transformers.models.{name}.modeling_{name}:chunk_kimi_delta_attention" for name in models),
            replacement=f"{__name__}:{replacement}",
            requires=(f"transformers{releases}", torch),
            reason="Kimi delta attention has as many chunks as the traced sample: wrong, or no file, beyond 64 tokens.",
            upstream=(
                "https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/models/kimi_linear/modeling_kimi_linear.py",
            ),
            proofs=("kimi_linear",),
            higher_order=operators,
            kind="wrap",
        )


# A spec with a target that does not exist is not applied at all.
SPECS = (
    *_specs(">=5.17,<5.20", ("glm5_next", "kimi_linear")),
    *_specs(">=5.20", ("bailing_hybrid", "glm5_next", "kimi_linear")),
)

"""Kimi delta attention goes through a text in chunks of 64 tokens, as many as the sample has.

Symptom: Kimi Linear, Bailing hybrid: the file stops, or is wrong, beyond 64 tokens; the export takes minutes.
Cause: loops of Python over the chunks and over the rows of one.
What is done: while it is traced, `chunk_kimi_delta_attention` applies the rule token by token; see `_delta_rule`. Its
layers continue from their states themselves.
Can go: when upstream's chunks are no loop in Python.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def by_token(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `chunk_kimi_delta_attention`, made to take token by token while it is traced."""
    signature = inspect.signature(original)

    def chunk_kimi_delta_attention(query: Any, *args: Any, **kwargs: Any) -> Any:
        from ._tracing import is_traced

        if not is_traced(query):
            return original(query, *args, **kwargs)
        call = signature.bind(query, *args, **kwargs)
        call.apply_defaults()
        return _ruled(call.arguments)

    return chunk_kimi_delta_attention


def _ruled(given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the outputs `(batch, tokens, heads, value size)`, and the last state where it is asked for."""
    from ._delta_rule import ruled, unit

    pair = (given[name].float() for name in ("query", "key"))
    query, key = (unit(part) if given["use_qk_l2norm_in_kernel"] else part for part in pair)
    outputs, last = ruled(query, key, given["value"], given["beta"], given["g"].float().exp(), given["initial_state"])
    return outputs.to(given["query"].dtype), last if given["output_final_state"] else None


def _spec(releases: str, models: tuple[str, ...]) -> PatchingSpec:
    return PatchingSpec(
        id="kimi-delta-chunks",
        targets=tuple(f"transformers.models.{name}.modeling_{name}:chunk_kimi_delta_attention" for name in models),
        replacement=f"{__name__}:by_token",
        requires=(f"transformers{releases}", "torch>=2.9"),
        reason="Kimi delta attention has as many chunks as the traced sample: wrong, or no file, beyond 64 tokens.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/models/kimi_linear/modeling_kimi_linear.py",
        ),
        proofs=("kimi_linear",),
        kind="wrap",
    )


# A spec with a target that does not exist is not applied at all.
SPECS = (
    _spec(">=5.17,<5.20", ("glm5_next", "kimi_linear")),
    _spec(">=5.20", ("bailing_hybrid", "glm5_next", "kimi_linear")),
)

"""`nn.TransformerEncoder` sets padded places to 0 in eager mode, and not in a graph.

Symptom: with `src_key_padding_mask`, padded places of the result differ from eager by whole units, and so does a mean
over all of them. Nothing says so.
Cause: in evaluation mode without gradients, and if the padding is behind the tokens, the encoder packs its input as a
nested tensor, which comes back with zeros; the norm behind the layers is applied to these. While a graph is captured it
does not do so. Before torch 2.10 it does, by operators that a graph cannot have, and there is no graph.
What is done: what is made of the padded places is replaced by what eager mode has there, if the mask of a call is one
that eager mode packs by.
Can go: when the encoder does the same in a graph.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.patches.toolkit.records import variants
from exportcompat.patches.toolkit.wrapping import when_traced

_RANK = 3
"""Of a batch, `(batch, length, channels)`."""


def patch_encoder_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give padded places of the result of an encoder, `(batch, length, channels)`, what they have in eager mode."""

    def traced(self: Any, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: Any = None) -> Any:
        output = original(self, src, mask, src_key_padding_mask, is_causal)
        if src_key_padding_mask is None or mask is not None or not _packs(self, src):
            return output
        import torch

        is_padded = src_key_padding_mask != 0
        # A token behind padding: eager mode goes the plain way.
        is_mixed = (is_padded[:, :-1] & ~is_padded[:, 1:]).any()
        nothing = torch.zeros_like(output[:1, :1])
        nothing = nothing if self.norm is None else self.norm(nothing)
        return torch.where((is_padded & ~is_mixed).unsqueeze(-1), nothing, output)

    return when_traced(original, traced)


def patch_encoder_forward_that_packs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same where a graph would pack a batch as eager mode does."""

    def unpacked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _without_packing(self):
            return original(self, *args, **kwargs)

    return patch_encoder_forward(when_traced(original, unpacked))


@contextmanager
def _without_packing(encoder: Any) -> Iterator[None]:
    packs = getattr(encoder, "use_nested_tensor", False)
    encoder.use_nested_tensor = False
    try:
        yield
    finally:
        encoder.use_nested_tensor = packs


def _packs(encoder: Any, src: Any) -> bool:
    """Say whether an encoder packs padded batches in eager mode."""
    import torch

    # With gradients eager mode does not; a graph that is exported is one without. Dynamo answers `is_exporting()` by
    # True in every graph, and looks the flag behind it up.
    is_compiled = torch.compiler.is_compiling() and not torch.compiler._is_exporting_flag
    return (
        torch.backends.mha.get_fastpath_enabled()
        and not (is_compiled and torch.is_grad_enabled())
        and getattr(encoder, "use_nested_tensor", False)
        and not encoder.layers[0].training
        and src.dim() == _RANK
        and not torch.is_autocast_enabled()
    )


_BASE = {
    "id": "torch-encoder-padding",
    "targets": ("torch.nn.modules.transformer:TransformerEncoder.forward",),
    "upstream": ("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/transformer.py",),
    "proofs": ("packing_gpt",),
    "kind": "wrap",
}

SPECS = variants(
    _BASE,
    {
        "torch>=2.7,<2.10": {
            "replacement": f"{__name__}:patch_encoder_forward_that_packs",
            "reason": "`nn.TransformerEncoder` packs padded batches, by operators that a graph cannot have: no graph.",
        },
        "torch>=2.10": {
            "replacement": f"{__name__}:patch_encoder_forward",
            "reason": "`nn.TransformerEncoder` sets padded places to 0 in eager mode, not in a graph: silently wrong.",
        },
    },
)

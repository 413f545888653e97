"""Moonshine takes every 384th element of a sound's mask, and cuts these to as many as its encoder has states.

Symptom: with torch 2.10 and later `Could not guard on data-dependent expression Eq(u0, 40)`, in the attention of the
encoder, and with transformers to 5.1 of the decoder, as soon as a mask is given, which `generate` of transformers 4
does by itself.
Cause: `attention_mask[..., ::384][..., :length]`, of which torch does not know that it has `length` elements, and
`int((samples - 127) / 64 + 1)`, a fraction of which it does not know that it is a size of the convolutions.
What is done: while it is traced, the elements are picked by their places, and the length is made of whole quotients.
Can go: when upstream cuts a mask to the states that it is for.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced

_MODULE = "transformers.models.moonshine.modeling_moonshine"


def patch_length_or_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of lengths for sizes, or `forward` with picked masks."""
    return _of_sizes(original) if original.__name__ == "_get_feat_extract_output_lengths" else _picking(original)


def _of_sizes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the number of states for a number of samples that is a size; three convolutions make them."""
    import torch

    def _get_feat_extract_output_lengths(self: Any, input_lengths: Any) -> Any:
        if not isinstance(input_lengths, torch.SymInt):
            return original(self, input_lengths)
        first = (input_lengths - 127) // 64 + 1
        second = (first - 7) // 3 + 1
        return (second - 3) // 2 + 1

    return _get_feat_extract_output_lengths


def _picking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` whose masks `(batch, samples)` are asked for the elements that are left, `(batch, states)`."""
    from torch import Tensor, arange

    from exportcompat.patches.toolkit.function_modes import Override

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        sources: dict[int, tuple[Any, Any, int]] = {}

        def pick(index: Callable[..., Any], tensor: Any, places: Any) -> Any:
            cut = places[1] if isinstance(places, tuple) and len(places) == 2 and places[0] is ... else None
            if not isinstance(cut, slice):
                return index(tensor, places)
            if id(tensor) in sources and cut.start is cut.step is None:
                _, mask, step = sources[id(tensor)]
                return mask.index_select(-1, arange(cut.stop, device=mask.device) * step)
            found = index(tensor, places)
            if cut.start is cut.stop is None and cut.step:
                sources[id(found)] = found, tensor, cut.step
            return found

        with Override({Tensor.__getitem__: pick}):
            return original(self, *args, **kwargs)

    return when_traced(original, forward)


_TARGETS = (
    f"{_MODULE}:MoonshineEncoder.forward",
    f"{_MODULE}:MoonshinePreTrainedModel._get_feat_extract_output_lengths",
)

SPECS = variants(
    {
        "id": "moonshine-mask",
        "replacement": f"{__name__}:patch_length_or_forward",
        "reason": "Moonshine cuts masks to a size that torch cannot compare: no graph of a sound with a mask.",
        "proofs": ("moonshine",),
        "defect": (r"::downsample_stride\]",),
        "kind": "wrap",
    },
    {
        ("transformers>=4.49,<5.2", "torch>=2.10"): {
            "targets": (*_TARGETS, f"{_MODULE}:MoonshineDecoder.forward"),
            "upstream": (source("models/moonshine/modeling_moonshine.py", "v4.57.6"),),
        },
        ("transformers>=5.2", "torch>=2.10"): {
            "targets": _TARGETS,
            "upstream": (source("models/moonshine/modeling_moonshine.py", "v5.24.0"),),
        },
    },
)

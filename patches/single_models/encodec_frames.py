"""EnCodec takes a sound as one frame by a `range` over its length, and reflects its ends by an `if` on the length.

Symptom: `tracing inferred a static shape` for the samples of a sound.
Cause: a model without chunks (24 kHz) steps `for offset in range(0, length, length)`, and `range` makes numbers of
sizes. `_pad1d` adds zeros before it reflects a sound that is shorter than what is added, which it asks in Python, and
which states in the middle of the model are, for a sound of some 0.1 s.
What is done: while it is traced, there is one frame, and what is reflected is picked by its places, zeros included.
A model with chunks (48 kHz) has as many frames as its length says, and keeps those of the sample.
Can go: when upstream has no loop where there are no chunks, and torch exports `reflect` of any length.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_encode_or_pad(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `encode` of one frame, or `_pad1d` that picks what it reflects."""
    return when_traced(original, _reflecting(original) if original.__name__ == "_pad1d" else _of_one_frame(original))


def _of_one_frame(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method for which `range` of a size, in steps of that size, is its beginning."""
    own = inspect.unwrap(original)
    names = {**own.__globals__, "range": _starts}
    made = FunctionType(own.__code__, names, own.__name__, own.__defaults__, own.__closure__)
    made.__kwdefaults__ = own.__kwdefaults__
    return made


def _starts(start: Any, stop: Any, step: Any) -> Any:
    import torch

    is_whole = isinstance(step, torch.SymInt) and start == 0
    return [0] if is_whole else range(start, stop, step)


def _reflecting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of `(batch, channels, length)` and what to add before and behind, for any length."""
    import torch

    def _pad1d(hidden_states: Any, paddings: Any, mode: str = "zero", value: float = 0.0) -> Any:
        if mode != "reflect":
            return original(hidden_states, paddings, mode, value)
        before, behind = paddings
        length = hidden_states.shape[-1]
        places = (torch.arange(before + length + behind, device=hidden_states.device) - before).abs()
        # A sound is reflected with zeros behind it, if it would be too short otherwise.
        last = torch.sym_max(length - 1, torch.sym_max(before, behind))
        places = torch.where(places > last, 2 * last - places, places)
        found = hidden_states.index_select(-1, places.clamp(max=length - 1))
        return torch.where(places < length, found, 0.0)

    return _pad1d


_MODULE = "transformers.models.encodec.modeling_encodec"

_RANGE = ("transformers>=4.53", "torch>=2.11")
_UPSTREAM = (source("models/encodec/modeling_encodec.py", "v5.24.0"),)

SPECS = (
    PatchingSpec(
        id="encodec-frames",
        targets=(f"{_MODULE}:EncodecModel.encode", f"{_MODULE}:EncodecConv1d._pad1d"),
        replacement=f"{__name__}:patch_encode_or_pad",
        requires=_RANGE,
        reason="EnCodec loops over frames and reflects ends by the length of a sound: no graph, or one of one length.",
        upstream=_UPSTREAM,
        proofs=("encodec",),
        kind="wrap",
    ),
    PatchingSpec(
        id="encodec-padding",
        targets=(f"{_MODULE}:EncodecConv1d.forward",),
        replacement="exportcompat.patches.single_models.codec_padding:patch_convolution_forward",
        requires=_RANGE,
        reason="Convolutions of EnCodec compute their padding of tensors, as `codec-padding` has it: no graph.",
        upstream=_UPSTREAM,
        proofs=("encodec",),
        kind="wrap",
    ),
)

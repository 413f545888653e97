"""Swin and its kin pad an image, and shift their windows, by the size that was traced alone.

Symptom: a file that stops in ONNX Runtime (`Reshape`) at a size that is no multiple of patches and windows, and
silently wrong numbers where a map of features is just as large as a window.
Cause: `if width % patch_size != 0: pad`, in each model's `maybe_pad`; `if min(size) <= window_size: shift_size = 0`,
which besides stays so in the live model.
What is done: while it is traced, padding is always added, of a length that is computed from the size and may be 0, and
always cut off. Windows are shifted or not by what the size is in the call. A map smaller than a window, which eager
refuses, is padded to one.
Can go: when torch exports an `if` on sizes as one graph.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_maybe_pad(original: Callable[..., Any]) -> Callable[..., Any]:
    """Pad patches, of `(batch, channels, height, width)`, or the maps of layers, to any size."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        states, size = _states_and_size(*args, *kwargs.values())
        if not is_traced(states) or not _is_dynamic(size):
            return original(self, *args, **kwargs)
        with _instead(self, size):
            return original(self, *args, **kwargs)

    return forward


def _states_and_size(states: Any, size: Any = (), *_: Any) -> Any:
    """Return the first argument with height and width: its own if it is an image, or those that a layer is told."""
    return states, states.shape[-2:] if states.dim() == 4 else size


def _is_dynamic(size: Any) -> bool:
    import torch

    return any(isinstance(side, torch.SymInt) for side in size)


@contextmanager
def _instead(module: Any, size: Any) -> Iterator[None]:
    """Give an instance other methods for a while, and answer `torch.roll`, by the role that it has."""
    names = vars(module)
    before = dict(names)
    try:
        if hasattr(module, "patch_size"):
            names["maybe_pad"] = partial(_padded_image, module.patch_size)
            yield
        elif not hasattr(module, "window_size"):
            names["maybe_pad"] = lambda states, height, width: _padded_map(2, states, height, width)
            yield
        elif hasattr(module, "shift_size"):
            names["maybe_pad"] = lambda *given: (_padded_map(module.window_size, *given), _CUT)
            with _shifting(module, size):
                yield
        else:
            yield
    finally:
        names.clear()
        names.update(before)


_CUT = (0, 0, 0, 1, 0, 1)
"""What says that there is padding below and on the right, to be cut off."""


def _missing(size: Any, step: int) -> Any:
    return (step - size % step) % step


def _padded_image(patch: tuple[int, int], pixels: Any, height: Any, width: Any) -> Any:
    """Return `(batch, channels, height, width)`, with zeros up to whole patches."""
    from torch.nn.functional import pad

    return pad(pixels, (0, _missing(width, patch[1]), 0, _missing(height, patch[0])))


def _padded_map(step: int, states: Any, height: Any, width: Any) -> Any:
    """Return `(batch, height, width, channels)`, with zeros up to multiples of `step`."""
    from torch.nn.functional import pad

    return pad(states, (0, 0, 0, _missing(width, step), 0, _missing(height, step)))


@contextmanager
def _shifting(layer: Any, size: Any) -> Iterator[None]:
    """Shift the windows of a layer in calls with maps larger than one, if that is what its class does."""
    import torch
    from torch.overrides import TorchFunctionMode

    fixed = [side for side in size if isinstance(side, int)]
    if not hasattr(layer, "set_shift_and_window_size") or any(side <= layer.window_size for side in fixed):
        yield
        return
    sides = torch.stack([torch.full((), side, dtype=torch.int64) for side in size])
    is_large = sides.min() > layer.window_size

    class Shifting(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return torch.where(is_large.to(result.device), result, args[0]) if func is torch.roll else result

    def get_attn_mask(*args: Any, **kwargs: Any) -> Any:
        mask = type(layer).get_attn_mask(layer, *args, **kwargs)
        return None if mask is None else mask * is_large.to(mask)

    vars(layer).update(set_shift_and_window_size=lambda _: None, get_attn_mask=get_attn_mask)
    with Shifting():
        yield


SPECS = (
    PatchingSpec(
        id="swin-window-padding",
        targets=("methods_using(transformers:maybe_pad)",),
        replacement=f"{__name__}:patch_maybe_pad",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Swin and its kin pad images, and shift windows, by the traced size: other sizes stop or are wrong.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/swin/modeling_swin.py",
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/swin/modeling_swin.py",
        ),
        proofs=("swin",),
        kind="wrap",
    ),
)

"""What `generate` goes on passing although the images or sounds that it is about came with the first call."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from exportcompat._extras import require

from ._record import Record

_MEDIA = ("pixel_values", "pixel_values_videos", "input_features", "input_values")
_ABOUT = re.compile(r"(pixel|image|video|audio|input_features|feature)_\w*mask")
"""Masks of images or sounds, which `forward` does not read without these; their sizes have an axis of their own."""


def without_passed_on(arguments: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """Return the arguments of a call without the masks of images or sounds that an earlier call had.

    Args:
        arguments: of the call.
        records: the earlier calls.
    """
    if any(arguments.get(name) is not None for name in _MEDIA):
        return dict(arguments)
    had = [record.inputs.tensors for record in records if any(name in record.inputs.tensors for name in _MEDIA)]
    return {name: value for name, value in arguments.items() if not had or not _is_same(name, value, had[-1])}


def _is_same(name: str, value: Any, before: Mapping[str, Any]) -> bool:
    if not _ABOUT.fullmatch(name) or name not in before:
        return False
    torch = require("torch", "torch")
    return isinstance(value, torch.Tensor) and torch.equal(value, before[name])

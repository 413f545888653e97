"""Which tensors of a file's cache hold a window of tokens alone, as its metadata states it."""

import json
from collections.abc import Mapping
from typing import Any

from ._onnx_file import PREFIX

WINDOWS = "windows"
"""The key of `metadata_props`, without its prefix."""


def windows_of(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the window in tokens of each input of a cache that holds no more than the last `window - 1`, by its name.

    It is empty for a file that takes and returns the full past.
    """
    found: dict[str, int] = json.loads(metadata.get(f"{PREFIX}{WINDOWS}", "{}"))
    return found


def in_window(tensor: Any, window: int) -> Any:
    """Return the last `window - 1` tokens of keys or values, `(batch, kv_heads, tokens, head_dim)`."""
    return tensor[:, :, max(0, tensor.shape[2] - (window - 1)) :]

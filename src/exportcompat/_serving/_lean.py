"""What an exported graph does not need is taken from it; it stays right for every call."""

from typing import Any

from ._grouped_heads import share_heads
from ._growing_attention import grow_within
from ._idle_reshapes import drop_idle_reshapes
from ._mask_lookups import read_masks_directly
from ._merged_heads import merge_heads
from ._tidy import tidy


def make_lean(model: Any) -> None:
    """Take from a graph what is not the work of the model.

    Args:
        model: an `onnx_ir.Model` whose axes have their names; it is changed.
    """
    share_heads(model)
    drop_idle_reshapes(model)
    grow_within(model)
    merge_heads(model)
    read_masks_directly(model)
    tidy(model)

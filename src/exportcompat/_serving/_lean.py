"""What an exported graph does not need is taken from it; it stays right for every call."""

from typing import Any

from ._grouped_heads import share_heads
from ._growing_attention import grow_within
from ._idle_reshapes import drop_idle_reshapes
from ._mask_lookups import read_masks_directly
from ._merged_heads import merge_heads
from ._tidy import tidy


def make_lean(model: Any) -> bool:
    """Take from a graph what is not the work of the model.

    Args:
        model: an `onnx_ir.Model` whose axes have their names; it is changed.

    Returns:
        Whether it was done. It is not where the model is of onnxscript before 0.3, which has such classes of its own.
    """
    if type(model).__module__.partition(".")[0] != "onnx_ir":
        return False
    share_heads(model)
    drop_idle_reshapes(model)
    grow_within(model)
    merge_heads(model)
    read_masks_directly(model)
    tidy(model)
    return True

"""MobileViT resizes a map whose sides are no multiples of its patches, if it does so for the size that was traced.

Symptom: a file that stops in ONNX Runtime (`Reshape`) at other sizes than the traced one.
Cause: `int(math.ceil(orig_height / patch_height) * patch_height)` makes a constant of the size, and
`if new_width != orig_width or ...: interpolate` asks it.
What is done: while it is traced, a map is always resized to the next multiples, which are computed from the size, and
back. To resize to the same size changes nothing.
Can go: when upstream computes the sizes without `math`, and resizes always.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def resized(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `unfolding` of `features`, `(batch, channels, height, width)`, made for a map of any size.

    It gives patches, `(batch * patch_area, patches, channels)`, and what `folding` wants to know.
    """

    def unfolding(self: Any, features: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(features):
            return original(self, features)
        return _patches(features, self.patch_height, self.patch_width)

    return unfolding


def _patches(features: Any, high: int, wide: int) -> tuple[Any, dict[str, Any]]:
    from torch.nn.functional import interpolate

    batch, channels, height, width = features.shape
    rows, columns = (height + high - 1) // high, (width + wide - 1) // wide
    whole = interpolate(features, size=(rows * high, columns * wide), mode="bilinear", align_corners=False)
    parts = whole.reshape(batch, channels, rows, high, columns, wide).permute(0, 3, 5, 2, 4, 1)
    facts = {
        "orig_size": (height, width),
        "batch_size": batch,
        "channels": channels,
        "interpolate": True,
        "num_patches": rows * columns,
        "num_patches_width": columns,
        "num_patches_height": rows,
    }
    return parts.reshape(batch * high * wide, rows * columns, channels), facts


SPECS = (
    PatchingSpec(
        id="mobilevit-resize",
        targets=("transformers.models.mobilevit.modeling_mobilevit:MobileViTLayer.unfolding",),
        replacement=f"{__name__}:resized",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="MobileViT resizes maps by the size that was traced alone: files that stop at other sizes.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mobilevit/modeling_mobilevit.py",
        ),
        proofs=("mobilevit",),
        defect=(r"math\.ceil\(orig_height / patch_height\)",),
        kind="wrap",
    ),
)

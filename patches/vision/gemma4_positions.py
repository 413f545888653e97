"""A file of Gemma 4 stops in a call without images, in the embeddings of their patches.

Symptom: ONNX Runtime to 1.31: `Non-zero status code returned while running MatMul node: left operand cannot broadcast
on dim 0`, in each call behind the first one, since those have no images.
Cause: the positions of patches, one-hot as `(images, 2, patches, positions)`, are multiplied with a table for height
and width, `(2, positions, hidden)`, that the images share. ONNX Runtime takes an axis of size 0 for one that does not
broadcast.
What is done: while it is traced, the patches of all images are rows of the product with each of the two tables.
Can go: with transformers 5.9, as 5.10 looks the rows up; ONNX Runtime 1.32 multiplies no images too.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_position_embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_position_embeddings` multiply the patches of all images at once while it is traced."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override
    from exportcompat.patches.toolkit.wrapping import when_traced

    products = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)

    def traced(self: Any, pixel_position_ids: Any, padding_positions: Any) -> Any:
        with Override(dict.fromkeys(products, _product)):
            return original(self, pixel_position_ids, padding_positions)

    return when_traced(original, traced)


def _product(function: Callable[..., Any], rows: Any, tables: Any) -> Any:
    """Return `rows @ tables`, `(images, tables, rows, out)`, of `(images, tables, rows, inner)` and of all tables."""
    images, count = rows.shape[0], rows.shape[2]
    joined = rows.transpose(0, 1).flatten(1, 2)
    return function(joined, tables).unflatten(1, (images, count)).transpose(0, 1)


SPECS = (
    PatchingSpec(
        id="gemma4-positions",
        targets=("transformers.models.gemma4.modeling_gemma4:Gemma4VisionPatchEmbedder._position_embeddings",),
        replacement=f"{__name__}:patch_position_embeddings",
        requires=("transformers>=5.5,<5.10", "torch>=2.6"),
        reason="A table that images share is multiplied with those of no image: the file stops at the next token.",
        upstream=(source("models/gemma4/modeling_gemma4.py", "v5.6.0"),),
        proofs=("gemma4_image",),
        kind="wrap",
    ),
)

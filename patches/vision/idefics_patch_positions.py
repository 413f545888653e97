"""The positions of the patches of an image are made in a loop over images, of as many numbers as data says.

Symptom: `GuardOnDataDependentSymNode`, or a graph for one number of images. Idefics2, Idefics3, SmolVLM and
Phi-4-multimodal to 4.57.
Cause: `for batch_idx, p_attn_mask in enumerate(patch_attention_mask)`, with `torch.arange(p_attn_mask[:, 0].sum())`.
What is done: while it is traced, upstream's own code makes the positions of images of every height and of every width
beforehand, and the graph picks from these tables by the height and width of each image. The formula, which differs
from release to release, is upstream's.
Can go: with transformers 4.57; from 5.0 on there is no loop.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_idefics_embeddings(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look positions up in `forward` of the embeddings of patches while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    def forward(self: Any, pixel_values: Any, patch_attention_mask: Any) -> Any:
        if not is_traced(pixel_values):
            return original(self, pixel_values, patch_attention_mask)
        patches = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        return patches + self.position_embedding(_positions(self, original, patch_attention_mask))

    return forward


def _positions(embeddings: Any, original: Callable[..., Any], mask: Any) -> Any:
    """Return the positions of patches, `(images, rows * columns)`, int64, given a mask `(images, rows, columns)`."""
    import torch

    side = embeddings.num_patches_per_side
    tables = [torch.tensor(table, device=mask.device) for table in _tables(embeddings, original, *mask.shape[1:])]
    heights, widths = mask[:, :, 0].sum(1), mask[:, 0, :].sum(1)
    # Images that are of padding alone have no rows; their positions are masked.
    rows, columns = (table[(size - 1).clamp(min=0)] for table, size in zip(tables, (heights, widths), strict=True))
    positions = rows[:, :, None] * side + columns[:, None, :]
    return torch.where(mask, positions, 0).flatten(1)


def _tables(embeddings: Any, original: Callable[..., Any], rows: int, columns: int) -> tuple[Any, Any]:
    """Return the place of each row of an image by its number of rows less 1, and the same for columns."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    side = embeddings.num_patches_per_side
    with unset_fake_temporarily(), disable_proxy_modes_tracing(), torch._C.DisableTorchFunction():
        full = torch.ones(rows, columns, dtype=torch.bool)
        by_rows = torch.stack([full & (torch.arange(rows)[:, None] <= last) for last in range(rows)])
        by_columns = torch.stack([full & (torch.arange(columns) <= last) for last in range(columns)])
        found = [_run(embeddings, original, masks).unflatten(1, (rows, columns)) for masks in (by_rows, by_columns)]
        return (found[0][:, :, 0] // side).tolist(), (found[1][:, 0, :] % side).tolist()


def _run(embeddings: Any, original: Callable[..., Any], masks: Any) -> Any:
    """Return the positions that upstream makes for masks, `(images, rows, columns)`."""
    import torch

    found = []

    def keep(positions: Any) -> Any:
        found.append(positions)
        return 0

    size = embeddings.patch_size
    shape = (len(masks), 1, masks.shape[1] * size, masks.shape[2] * size)
    stand_in = SimpleNamespace(
        patch_size=size,
        num_patches_per_side=embeddings.num_patches_per_side,
        patch_embedding=lambda pixels: torch.zeros(len(pixels), 1, *masks.shape[1:]),
        position_embedding=keep,
    )
    keep.weight = masks  # type: ignore[attr-defined]
    original(stand_in, pixel_values=torch.zeros(shape), patch_attention_mask=masks)
    return found[0]


SPECS = (
    PatchingSpec(
        id="idefics-patch-positions",
        targets=("methods_using(transformers:bucket_coords_h)",),
        replacement=f"{__name__}:patch_idefics_embeddings",
        requires=("transformers>=4.44,<5.0", "torch>=2.6"),
        reason="The positions of patches are made in a loop over images, of sizes that are data: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/idefics3/modeling_idefics3.py",
        ),
        proofs=("idefics3", "idefics2"),
        defect=(r"\bfor .+ in enumerate\(",),
        kind="wrap",
    ),
)

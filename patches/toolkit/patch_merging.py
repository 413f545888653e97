"""Which patches of an image are merged into one feature, from the sizes of all images at once."""

from typing import Any

import torch


def merged_patches(sizes: Any, side: int, patches: Any) -> Any:
    """Return the numbers of the patches of each cell, `(cells, side * side)`; what fills no cell is left out.

    Args:
        sizes: rows and columns of each image in patches, `(images, 2)`, int64.
        side: rows and columns of a cell.
        patches: number of patches of all images.
    """
    # Not with `prod`, which has another answer while the images of Qwen-VL are traced.
    cells = sizes // side
    areas, counts = sizes[:, 0] * sizes[:, 1], cells[:, 0] * cells[:, 1]
    ends, last = areas.cumsum(0), counts.cumsum(0)
    # Of `patches // side**2`, torch 2.8 and before cannot say whether it is one.
    number = (torch.arange(patches, device=sizes.device) < counts.sum()).nonzero().squeeze(1)
    image = (number[:, None] >= last).sum(1)
    within, columns = number - (last - counts)[image], sizes[image, 1]
    row, column = within // cells[image, 1] * side, within % cells[image, 1] * side
    corner = (ends - areas)[image] + row * columns + column
    steps = torch.arange(side, device=sizes.device)
    return (corner[:, None, None] + steps[:, None] * columns[:, None, None] + steps).flatten(1)

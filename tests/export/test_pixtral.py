"""The parts of Pixtral's patches, without an export: which patches are within their images, and which make a square."""

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the patches compute with tensors")

from exportcompat.patches.toolkit.patch_merging import merged_patches
from exportcompat.patches.vision._pixtral import _inside, _unless_elsewhere

SIZES = ((4, 6), (2, 2), (6, 4))


def squares(features: Any, sizes: Sequence[tuple[int, int]], side: int) -> Any:
    """Return the patches of each square, `(squares, channels * side * side)`, image by image."""
    parts = []
    for part, (rows, columns) in zip(features.split([rows * columns for rows, columns in sizes]), sizes, strict=True):
        grid = part.reshape(1, rows, columns, -1).permute(0, 3, 1, 2)
        parts.append(torch.nn.functional.unfold(grid, side, stride=side)[0].t())
    return torch.cat(parts)


@pytest.mark.parametrize("sizes", [SIZES, SIZES[1:2], SIZES[::-1]])
def test_squares_are_those_of_each_image(sizes: Any) -> None:
    features = torch.randn(sum(rows * columns for rows, columns in sizes), 3)
    cells = merged_patches(torch.tensor(sizes), 2, len(features))
    assert torch.equal(features[cells].transpose(1, 2).flatten(1), squares(features, sizes, 2))


def test_no_image_has_no_squares() -> None:
    assert merged_patches(torch.zeros(0, 2, dtype=torch.int64), 2, 0).shape == (0, 4)


def test_patches_are_picked_row_by_row_with_blanks_behind() -> None:
    grid = torch.arange(2 * 4.0).reshape(2, 1, 2, 2) + 1
    patches, places = _inside(grid, torch.tensor([[1, 2], [2, 1]]))
    assert patches.flatten().tolist() == [1, 2, 5, 7, 0, 0]
    assert places.image.tolist() == [0, 0, 1, 1, -1, -1]
    assert places.kept.tolist() == [0, 1, 2, 3]
    assert (places.row.tolist(), places.column.tolist()) == ([0, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0])


def test_without_images_there_are_blanks_alone() -> None:
    patches, places = _inside(torch.zeros(0, 1, 2, 2), torch.zeros(0, 2, dtype=torch.int64))
    assert (patches.shape, places.image.tolist(), places.kept.tolist()) == ((1, 1, 1, 2), [-1, -1], [])


def test_a_call_of_another_thread_is_left_alone() -> None:
    assert _unless_elsewhere(lambda *_: pytest.fail("called"))(None, ()) is None

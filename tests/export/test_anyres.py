"""Images in tiles are packed as upstream packs them, without an export; tiles are those of real models."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the features are tensors")
pytest.importorskip("transformers", reason="what is compared is upstream's method")

from transformers.image_processing_utils import select_best_resolution
from transformers.models.llava_next.modeling_llava_next import LlavaNextModel, unpad_image
from transformers.models.llava_onevision.modeling_llava_onevision import LlavaOnevisionModel

from exportcompat.patches.multimodal._anyres_features import (
    _after_each_other,
    _every,
    _is_tiled,
    _layout,
    _longest,
    _Whole,
    patch_pack_image_features,
)
from exportcompat.patches.multimodal._anyres_layout import crop, pack, resolutions, shrunk

NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
ONEVISION = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]
DRAW = random.Random(0)
SIZES = [(DRAW.randint(1, 3000), DRAW.randint(1, 3000)) for _ in range(300)] + [(336, 336), (500, 500), (1, 3000)]


def model(pixels: int, patch: int, options: list[list[int]]) -> Any:
    vision = SimpleNamespace(image_size=pixels, patch_size=patch)
    return SimpleNamespace(config=SimpleNamespace(vision_config=vision, image_grid_pinpoints=options))


@pytest.mark.parametrize("options", [NEXT, ONEVISION], ids=["next", "onevision"])
def test_the_resolution_is_that_of_upstream(options: list[list[int]]) -> None:
    found = resolutions(torch.tensor(SIZES), torch.tensor(options))
    assert found.tolist() == [list(select_best_resolution(size, options)) for size in SIZES]


def test_what_is_left_without_padding_is_that_of_upstream() -> None:
    grids = torch.tensor([[DRAW.randint(1, 6) * 24, DRAW.randint(1, 6) * 24] for _ in SIZES])
    corners, sizes = crop(torch.tensor(SIZES), grids)
    for size, grid, corner, shown in zip(SIZES, grids.tolist(), corners.tolist(), sizes.tolist(), strict=True):
        whole = torch.arange(grid[0] * grid[1]).reshape(1, *grid)
        part = whole[:, corner[0] : corner[0] + shown[0], corner[1] : corner[1] + shown[1]]
        assert torch.equal(part, unpad_image(whole, size)), (size, grid)


def tiles_of(owner: Any, sizes: Any) -> list[int]:
    pixels = owner.config.vision_config.image_size
    grids = resolutions(sizes, torch.tensor(owner.config.image_grid_pinpoints)) // pixels
    return [1 + rows * columns for rows, columns in grids.tolist()]


@pytest.mark.parametrize("has_newline", [True, False])
@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize("size", [(700, 500), (300, 1200), (2000, 90), (336, 336)], ids=str)
def test_next_packs_as_upstream(size: tuple[int, int], is_padded: bool, has_newline: bool) -> None:
    owner, newline = model(336, 14, NEXT), torch.randn(3) if has_newline else None
    sizes = torch.tensor([size, (600, 640)])
    counts = tiles_of(owner, sizes)
    images = [torch.randn(count, 24**2, 3) for count in counts]
    wanted, lengths = LlavaNextModel.pack_image_features(owner, images, sizes, "default", image_newline=newline)
    blank = [torch.nn.functional.pad(image, (0, 0, 0, 0, 0, 5 - len(image))) for image in images]
    first = _every(5) if is_padded else _after_each_other
    whole = _Whole(torch.cat(blank if is_padded else images), sizes, first, torch.tensor([True, True]))
    (found,), many = patch_pack_image_features(LlavaNextModel.pack_image_features)(
        owner, whole, sizes, "default", image_newline=newline
    )
    assert torch.equal(found, torch.cat(list(wanted)))
    assert torch.equal(many, lengths)


@pytest.mark.parametrize("size", [(700, 500), (300, 1200), (2000, 2300), (2304, 2304), (384, 384)], ids=str)
def test_onevision_resizes_as_upstream(size: tuple[int, int]) -> None:
    owner, newline, sizes = model(384, 14, ONEVISION), torch.randn(3), torch.tensor([size])
    features = torch.randn(tiles_of(owner, sizes)[0], 27**2, 3)
    (wanted,), lengths = LlavaOnevisionModel.pack_image_features(owner, [features], sizes, image_newline=newline)
    whole = _Whole(features, sizes, _after_each_other, torch.tensor([True]))
    (found,), many = patch_pack_image_features(LlavaOnevisionModel.pack_image_features)(
        owner, whole, sizes, image_newline=newline
    )
    assert torch.equal(many, torch.as_tensor(lengths))
    # Places up to 160 are computed in float32, so the parts of a mixture are known to 1.5e-5.
    torch.testing.assert_close(found, wanted, atol=5e-5, rtol=0)


def test_what_is_small_is_not_resized() -> None:
    sizes = torch.tensor([[54, 54], [162, 162], [27, 27]])
    assert shrunk(sizes, 27, 9).tolist() == [[54, 54], [81, 81], [27, 27]]


def test_one_of_several_images_is_its_small_self_and_a_newline() -> None:
    owner, sizes = model(336, 14, NEXT), torch.tensor([(700, 500)] * 3)
    is_tiled = _is_tiled(sizes, torch.tensor([2, 0, 1]))
    assert is_tiled.tolist() == [False, False, True]
    features, newline = torch.randn(2 + tiles_of(owner, sizes)[0], 24**2, 3), torch.randn(3)
    whole = _Whole(features, sizes, _after_each_other, is_tiled)
    packed, lengths = pack(features, newline, _layout(owner.config, whole, None), _longest(owner.config))
    assert lengths[:2].tolist() == [577, 577]
    assert torch.equal(packed[:1154], torch.cat([features[0], newline[None], features[1], newline[None]]))


def test_no_image_has_no_features() -> None:
    owner, sizes = model(336, 14, NEXT), torch.zeros(0, 2, dtype=torch.int64)
    features = torch.zeros(0, 24**2, 3)
    layout = _layout(owner.config, _Whole(features, sizes, _every(5), _is_tiled(sizes, None)), None)
    packed, lengths = pack(features, torch.zeros(3), layout, _longest(owner.config))
    assert (packed.shape, lengths.shape) == ((0, 3), (0,))

"""The positions of SigLIP 2 in a graph: the numbers, and sizes that do not fit."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="what is resized is a tensor")
modeling: Any = pytest.importorskip(
    "transformers.models.siglip2.modeling_siglip2", reason="transformers has the model from 4.50 on"
)

from exportcompat import apply_patches, plan
from exportcompat.patches.vision.siglip2_positions import _resized

Module: Any = torch.nn.Module
LENGTH = 64


class Positions(Module):  # type: ignore[misc,unused-ignore]
    """The learnt positions, resized for each image."""

    def __init__(self) -> None:
        super().__init__()
        self.learnt = torch.nn.Parameter(torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(1)))

    def forward(self, sizes: Any) -> Any:
        """Return the positions, `(images, LENGTH, 8)`."""
        resize = modeling.Siglip2VisionEmbeddings.resize_positional_embeddings
        return resize(self.learnt, sizes, max_length=LENGTH)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("onnxruntime", reason="the file is run")
    from exportcompat._verification._onnx_file import OnnxFile

    path = tmp_path_factory.mktemp("siglip2") / "model.onnx"
    sizes, shapes = torch.tensor([[2, 3], [3, 5]]), {"sizes": {0: "images"}}
    with apply_patches():
        torch.onnx.export(Positions(), (sizes,), str(path), dynamic_shapes=shapes, dynamo=True)
    return OnnxFile(path)


def run(file: Any, *sizes: tuple[int, int]) -> Any:
    (found,) = file.run({"sizes": torch.tensor(sizes)}).values()
    return found


def test_the_numbers_are_those_of_eager(file: Any) -> None:
    sizes = [(1, 1), (4, 4), (1, 64), (8, 8), (32, 2), (3, 2), (5, 12)]
    found = run(file, *sizes)
    with torch.no_grad():
        assert torch.allclose(found, Positions()(torch.tensor(sizes)), atol=1e-5)


@pytest.mark.parametrize("size", [(1, 65), (9, 8), (0, 3), (3, 0), (-2, -2)])
def test_a_size_that_does_not_fit_fails(file: Any, size: tuple[int, int]) -> None:
    if not any(item.applies and item.spec.id == "siglip2-positions" for item in plan()):
        pytest.skip(
            "from 5.24 on upstream resizes the positions in a graph, and its check of the sizes is in eager alone"
        )
    with pytest.raises(Exception, match=r"(?i)indices|index|out of"):
        run(file, (2, 2), size)


@pytest.mark.parametrize("height", [1, 3, 9, 64])
def test_a_column_of_patches_is_resized_along_one_axis_and_then_the_other(height: int) -> None:
    learnt = Positions().learnt.detach()
    options = {"mode": "bilinear", "align_corners": False, "antialias": True}
    rows = torch.nn.functional.interpolate(learnt.permute(2, 0, 1)[None], size=(height, 4), **options)
    wanted = torch.nn.functional.interpolate(rows, size=(height, 1), **options)[0, ..., 0].T
    found = _resized(learnt, torch.tensor([[height, 1]]), LENGTH)[0, :height]
    assert torch.allclose(found, wanted, atol=1e-5)

"""What older releases of onnxscript get wrong about numbers is said otherwise before it is translated."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from exportcompat.patches.torch_onnx.full_types import patch_full, patch_full_and_scatter
from exportcompat.patches.torch_onnx.resize_to_one import patch_upsample_align_corners_mode


class Filled(nn.Module):  # type: ignore[misc,unused-ignore]
    """Makes tensors of a number, with and without a type."""

    def forward(self, x: Any) -> tuple[Any, ...]:
        return (
            torch.full(x.shape, 0),
            torch.full(x.shape, False),
            torch.full(x.shape, 0.5),
            torch.full(x.shape, 1, dtype=torch.int32),
        )


def test_the_type_of_a_filled_tensor_is_written_to_its_node() -> None:
    program = torch.export.export(Filled(), (torch.randn(2, 3),))
    handle = patch_full(lambda model, node: node.kwargs.get("dtype"))
    nodes = [node for node in program.graph.nodes if node.target is torch.ops.aten.full.default]
    assert [handle(None, node) for node in nodes] == [torch.int64, torch.bool, torch.float32, torch.int32]


class Chosen(nn.Module):  # type: ignore[misc,unused-ignore]
    """Marks the largest of each row, in the type of its own tensor."""

    def forward(self, x: Any) -> Any:
        return torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_a_number_that_is_scattered_is_a_tensor_of_the_type(dtype: Any) -> None:
    program = torch.export.export(Chosen(), (torch.zeros(2, 3, dtype=dtype),))
    translated: list[Any] = []
    handle = patch_full_and_scatter(lambda model, node: translated.append(node))
    scatter = next(node for node in program.graph.nodes if node.target is torch.ops.aten.scatter.value)
    handle(None, scatter)
    made, last = translated
    assert last is scatter
    assert scatter.args[3] is made
    assert (made.args, made.kwargs, made.meta["val"].dtype) == ((1,), {"dtype": dtype}, dtype)
    program.graph.lint()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("pytorch_half_pixel", "half_pixel"), ("half_pixel", "half_pixel"), ("align_corners", "align_corners")],
)
def test_maps_of_one_row_take_the_middle(given: str, wanted: str) -> None:
    assert patch_upsample_align_corners_mode(lambda align_corners: given)(False) == wanted

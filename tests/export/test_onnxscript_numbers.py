"""What older releases of onnxscript get wrong about numbers is said otherwise before it is translated."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from exportcompat.patches.torch_onnx._old_functions import corrections
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


_aten = torch.ops.aten
_NAN = float("nan")


def _said_otherwise(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what stands for an operator; no call of it is to be left as it was."""
    found = corrections()[operator](*args, **kwargs)
    assert found is not NotImplemented
    torch.testing.assert_close(found, operator(*args, **kwargs), equal_nan=True, rtol=1e-6, atol=1e-5)
    return found


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize("axes", [[0], [1], [2], [1, 0], [0, 2]])
@pytest.mark.parametrize("count", [6, 7])
def test_a_spectrum_has_its_other_half(normalization: int, axes: list[int], count: int) -> None:
    shape = [count if axis == axes[-1] else 4 for axis in range(3)]
    spectrum = torch.fft.rfftn(torch.arange(1.0, 1 + 16 * count).reshape(shape).sqrt(), dim=axes)
    found = _said_otherwise(_aten._fft_c2r.default, spectrum, axes, normalization, count)
    assert list(found.shape) == shape


def test_a_conjugate_is_made_of_its_parts() -> None:
    x = torch.complex(torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]))
    found = corrections()[_aten._conj.default](x)
    assert torch.equal(found, x.conj().resolve_conj())
    real = torch.ones(2)
    assert corrections()[_aten._conj.default](real) is real


def test_nan_is_close_to_nan_where_that_is_asked_for() -> None:
    x, y = torch.tensor([1.0, _NAN, _NAN, float("inf")]), torch.tensor([1.0, _NAN, 1.0, float("inf")])
    assert _said_otherwise(_aten.isclose.default, x, y, equal_nan=True).tolist() == [True, True, False, True]
    assert corrections()[_aten.isclose.default](x, y) is NotImplemented


def test_a_weight_of_one_axis_leaves_none() -> None:
    x, weight = torch.arange(12.0).reshape(2, 2, 3), torch.tensor([1.0, -1.0, 0.5])
    assert _said_otherwise(_aten.linear.default, x, weight).shape == (2, 2)
    assert corrections()[_aten.linear.default](x, weight[None]) is NotImplemented


@pytest.mark.parametrize("x", [torch.arange(1.0, 7).reshape(2, 3), torch.arange(4), torch.tensor([[True, False]])])
def test_a_product_of_all_has_no_axes(x: Any) -> None:
    assert _said_otherwise(_aten.prod.default, x).shape == ()
    _said_otherwise(_aten.prod.default, x, dtype=torch.float64)


@pytest.mark.parametrize(
    ("x", "value"),
    [(torch.rand(2, 3, 4), None), (torch.arange(24).reshape(2, 3, 4), -100), (torch.rand(2, 3, 4) > 0.5, True)],
)
def test_places_around_a_tensor_are_as_many_as_sizes_say(x: Any, value: float | None) -> None:
    class Padded(nn.Module):  # type: ignore[misc,unused-ignore]
        def forward(self, x: Any) -> Any:
            pad = corrections()[_aten.pad.default]
            return pad(x, [x.shape[0], -(x.shape[1] // 3), 0, x.shape[1]], "constant", value)

    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    module = torch.export.export(Padded(), (x,), dynamic_shapes=(sizes,)).module()
    for other in (x, x[:1].repeat(3, 3, 1)):
        counts = [other.shape[0], -(other.shape[1] // 3), 0, other.shape[1]]
        assert torch.equal(module(other), _aten.pad.default(other, counts, "constant", value))
    assert corrections()[_aten.pad.default](x, [1, 1]) is NotImplemented


@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("is_masked", [False, True])
def test_heads_of_keys_are_as_many_as_those_of_queries(heads: int, is_masked: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 3, 8, generator=generator)
    key, value = torch.randn(2, 2, heads, 5, 8, generator=generator)
    mask = torch.tensor([True, False, True, True, False]).expand(3, 5) if is_masked else None
    attention = _aten.scaled_dot_product_attention.default
    _said_otherwise(attention, query, key, value, mask, scale=0.25, enable_gqa=True)
    assert corrections()[attention](query, query, query, mask) is NotImplemented

"""What torch's operators are taken apart into gives eager's numbers, for NaN, signed zeros and large numbers too."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the numbers are those of torch")
onnxruntime = pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import apply_patches
from exportcompat.patches.torch_onnx import (
    _error_functions,
    _integers,
    _losses,
    _number_types,
    _order_statistics,
    _pooling,
    _reduced_axes,
    _reductions,
    _running,
    _signs,
    _stable_functions,
)

functional = torch.nn.functional
Module: Any = torch.nn.Module
INF, NAN = float("inf"), float("nan")
TYPES = (torch.float32, torch.float64, torch.float16)


def numbers(dtype: Any = torch.float32) -> Any:
    """Return numbers of all sizes, of both signs, and those that are none."""
    sizes = torch.logspace(-8, 4, 97, dtype=torch.float64)
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0], dtype=torch.float64)
    return torch.cat([special, sizes, -sizes]).to(dtype)


def pairs(dtype: Any = torch.float32) -> tuple[Any, Any]:
    """Return each number with some others."""
    chosen = numbers(dtype)[::5]
    chosen = torch.cat([numbers(dtype)[:7], chosen])
    return chosen[:, None].expand(-1, len(chosen)).contiguous(), chosen[None].expand(len(chosen), -1).contiguous()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["log1p", "expm1", "sign"])
def test_functions_of_one_number(name: str, dtype: Any) -> None:
    found = {**_stable_functions.table(), **_signs.table()}[getattr(torch.ops.aten, name).default]
    wanted = getattr(torch, name)(numbers(dtype))
    torch.testing.assert_close(found(numbers(dtype)), wanted, equal_nan=True, atol=0, rtol=_few_roundings(dtype))
    zero = torch.tensor([-0.0], dtype=dtype)
    assert torch.equal(torch.signbit(found(zero)), torch.signbit(getattr(torch, name)(zero)))


def _few_roundings(dtype: Any) -> float:
    return float(torch.finfo(dtype).eps * 4)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("name", "overload"),
    [("hypot", "default"), ("fmax", "default"), ("fmin", "default"), ("copysign", "Tensor"), ("xlogy", "Tensor")],
)
def test_functions_of_two_numbers(name: str, overload: str, dtype: Any) -> None:
    table = {**_stable_functions.table(), **_signs.table()}
    found, (x, y) = table[getattr(getattr(torch.ops.aten, name), overload)], pairs(dtype)
    wanted = getattr(torch, name)(x, y)
    torch.testing.assert_close(found(x, y), wanted, equal_nan=True, atol=0, rtol=_few_roundings(dtype))


def test_angles_of_what_is_infinite() -> None:
    x, y = pairs()
    found = _stable_functions.table()[torch.ops.aten.atan2.default](x, y)
    torch.testing.assert_close(found, torch.atan2(x, y), equal_nan=True)


def test_inverse_and_scaled_error_function() -> None:
    table = _error_functions.table()
    x = torch.cat([torch.linspace(-1.1, 1.1, 1001), torch.tensor([1.0, -1.0, 1e-6, NAN])])
    inverse = table[torch.ops.aten.erfinv.default]
    torch.testing.assert_close(inverse(x), torch.erfinv(x), equal_nan=True, atol=1e-6, rtol=3e-5)
    torch.testing.assert_close(inverse(x.double()), torch.erfinv(x.double()), equal_nan=True, atol=1e-9, rtol=1e-9)
    wide = torch.linspace(-5, 40, 901)
    scaled = table[torch.ops.aten.special_erfcx.default](wide)
    torch.testing.assert_close(scaled, torch.special.erfcx(wide), atol=0, rtol=2e-6)


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_elements_by_their_rank(length: int, dim: int) -> None:
    table, aten = _order_statistics.table(), torch.ops.aten
    whole = torch.randint(-3, 4, (length, 4, length), generator=torch.Generator().manual_seed(length))
    unknown = torch.where(whole == 3, NAN, whole.float())
    for x in (whole, whole.float(), unknown, whole.int()):
        for name in ("median", "nanmedian"):
            wanted, (values, places) = getattr(torch, name)(x, dim), table[getattr(aten, name).dim](x, dim)
            torch.testing.assert_close(values, wanted.values, equal_nan=True)
            torch.testing.assert_close(x.gather(dim, places.unsqueeze(dim)).squeeze(dim), values, equal_nan=True)
            of_all = table[getattr(aten, name).default](x)
            torch.testing.assert_close(of_all, getattr(torch, name)(x), equal_nan=True)
    for keepdim in (False, True):
        assert torch.equal(table[aten.mode.default](whole, dim, keepdim)[0], torch.mode(whole, dim, keepdim).values)
        found = table[aten.kthvalue.default](whole, 1, dim, keepdim)[0]
        assert torch.equal(found, torch.kthvalue(whole, 1, dim, keepdim).values)


@pytest.mark.parametrize("length", [1, 2, 7, 20])
def test_running_products_and_sums_of_exponentials(length: int) -> None:
    table, aten = _running.corrections(), torch.ops.aten
    x = torch.randn(length, 3, generator=torch.Generator().manual_seed(0)) * 60
    torch.testing.assert_close(table[aten.logcumsumexp.default](x, 0), torch.logcumsumexp(x, 0))
    for factors in (x / 60, (x / 60).half(), x.sign().long(), x.sign().int(), x > 0):
        torch.testing.assert_close(table[aten.cumprod.default](factors, 0), torch.cumprod(factors, 0))


def test_divisors() -> None:
    table, generator = _integers.table(), torch.Generator().manual_seed(0)
    for dtype, most in ((torch.int64, 2**60), (torch.int32, 2**30)):
        x, y = (torch.randint(-most, most, (200,), generator=generator).to(dtype) for _ in range(2))
        x[:3], y[1:5] = 0, 0
        assert torch.equal(table[torch.ops.aten.gcd.default](x, y), torch.gcd(x, y))
    x, y = x % 1000, y % 1000
    assert torch.equal(table[torch.ops.aten.lcm.default](x, y), torch.lcm(x, y))


@pytest.mark.parametrize("sizes", [(3, 4), (5, 2), (1, 3), (7, 9)])
def test_windows_of_any_size(sizes: tuple[int, int]) -> None:
    x = torch.randint(-9, 9, (2, 3, 7, 10), generator=torch.Generator().manual_seed(0)).float()
    values, places = _pooling._largest(x, sizes)
    wanted, at = functional.adaptive_max_pool2d(x, sizes, return_indices=True)
    assert torch.equal(values, wanted) and torch.equal(places, at)
    for axis, count in ((2, sizes[0]), (3, sizes[1])):
        windows = _pooling._windows(x.shape[axis], count, x.device).float()
        x = (x.movedim(axis, -1) @ (windows / windows.sum(1, keepdim=True)).T).movedim(-1, axis)
    x0 = torch.randint(-9, 9, (2, 3, 7, 10), generator=torch.Generator().manual_seed(0)).float()
    torch.testing.assert_close(x, functional.adaptive_avg_pool2d(x0, sizes))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 2, 1), (3, 5, 1), (2, 3, 0), ((2, 3), (1, 2), (1, 0)), (4, 4, 2)]
)
def test_sums_of_windows_over_a_divisor(kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> None:
    for height in range(4, 12):
        x = torch.randn(2, 3, height, height + 1, generator=torch.Generator().manual_seed(height))
        wanted = functional.avg_pool2d(x, kernel, stride, padding, ceil_mode, divisor_override=7)
        found = _pooling._average_by(2, x, kernel, stride, padding, ceil_mode, True, 7)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("shape", [(3, 6, 5, 8), (2, 3, 7, 4, 5)])
def test_sums_of_windows_of_volumes_over_a_divisor(shape: Any, ceil_mode: bool) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    wanted = functional.avg_pool3d(x, 3, 2, 1, ceil_mode, divisor_override=7)
    torch.testing.assert_close(_pooling._average_by(3, x, [3], [2], [1], ceil_mode, True, 7), wanted)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighed", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(reduction: str, weighed: bool, smoothing: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((6, 5), (2, 5, 3), (5,)):
        x = torch.randn(shape, generator=generator)
        classes = torch.randint(0, 5, (*shape[:1], *shape[2:]) if len(shape) > 1 else (), generator=generator)
        for target in (classes, x.softmax(min(len(shape) - 1, 1))):
            weight = torch.arange(1.0, 6.0) if weighed else None
            ignored = -100 if target.is_floating_point() else 2
            options = {"ignore_index": ignored, "reduction": reduction, "label_smoothing": smoothing}
            wanted = functional.cross_entropy(x, target, weight, **options)
            way = {"none": 0, "mean": 1, "sum": 2}[reduction]
            found = _losses._cross_entropy(x, target, weight, way, ignored, smoothing)
            if found is not NotImplemented:
                torch.testing.assert_close(found, wanted, equal_nan=True)


class Typed(Module):  # type: ignore[misc,unused-ignore]
    """Sums, means and choices whose types ONNX does not take as they are."""

    def forward(self, x: Any, whole: Any, truth: Any) -> tuple[Any, ...]:
        return (
            whole.mean(0, dtype=torch.float32),
            truth.mean(0, dtype=torch.float32),
            truth + truth.flip(0),
            truth.max(-1).values,
            truth[:, :0].any(-1),
            x.masked_select(truth),
            functional.adaptive_avg_pool1d(x.T, 3),
            functional.cross_entropy(x, whole[:, 0], label_smoothing=0.1),
            torch.stack([x, x.double()]),
            x.half().amax(0),
            torch.bucketize(whole, torch.arange(whole.shape[0])),
        )


def _call(rows: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 6, generator=generator)
    return x, torch.randint(0, 6, (rows, 6), generator=generator), x > 0


def test_types_and_sizes_of_a_file(tmp_path: Path) -> None:
    model: Any = Typed()
    with apply_patches():
        made = torch.onnx.export(model, _call(5), dynamic_shapes=({0: "rows"},) * 3, dynamo=True, verbose=False)
    made.save(str(tmp_path / "model.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for rows in (5, 9, 40):
        call = _call(rows)
        fed = {value.name: item.numpy() for value, item in zip(session.get_inputs(), call, strict=True)}
        for found, wanted in zip(session.run(None, fed), model(*call), strict=True):
            torch.testing.assert_close(torch.from_numpy(found), wanted)


def test_what_others_do_is_left_to_them() -> None:
    left: list[Any] = [
        lambda: _signs._sign(torch.tensor([1])),
        lambda: _losses._cross_entropy(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)),
        lambda: _pooling._average(torch.zeros(1, 2, 6, 6), (3, 3)),
        lambda: _number_types._add(torch.zeros(2), torch.zeros(2)),
        lambda: _reductions._roll(torch.zeros(2, 3), [1], [0]),
        lambda: _reduced_axes._counted(torch.ops.aten.argmax.default)(torch.zeros(0, 3)),
        lambda: _reduced_axes._counted(torch.ops.aten.amax.default)(torch.zeros(2, 3), [-1]),
        lambda: _reduced_axes._counted(torch.ops.aten.mean.dim)(torch.zeros(0, 3), [-1], True),
    ]
    assert all(call() is NotImplemented for call in left)


class Reduced(Module):  # type: ignore[misc,unused-ignore]
    """Reductions of the rows of `(rows, 3, 4)` that a mask chooses, which may be none; the last one is a norm's."""

    def forward(self, x: Any, mask: Any) -> Any:
        y = x[mask]
        sums, products = y.sum(-1), y.prod(-2, keepdim=True)
        least, largest = y.amin((-1, -2)), y.max(-1)
        truths = (y > 0).all(-2)
        return (
            sums,
            products,
            least,
            *largest,
            y.argmin(-1),
            truths,
            y.norm(dim=-1),
            y.mean(-2),
            y.mean(-1, keepdim=True),
        )


def test_axes_of_what_may_be_empty_count_from_the_front(tmp_path: Path) -> None:
    x = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([True, False, True, True, False])
    model: Any = Reduced()
    with apply_patches():
        program = torch.onnx.export(model, (x, mask), dynamic_shapes=({0: "rows"},) * 2, dynamo=True, verbose=False)
    reductions = [node for node in program.model.graph if node.op_type.startswith(("Reduce", "Arg"))]
    axes = [int(axis) for node in reductions for axis in _axes_of(node)]
    assert len(reductions) == 10 and [axis for axis in axes if axis < 0] == [-1]
    program.save(str(tmp_path / "model.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    found = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
    for item, wanted in zip(found, model(x, mask), strict=True):
        torch.testing.assert_close(torch.from_numpy(item), wanted)


def _axes_of(node: Any) -> Any:
    """Return the axes of a node of ONNX, from its attribute or its constant."""
    if "axis" in node.attributes:
        return [node.attributes["axis"].as_int()]
    return node.inputs[1].const_value.numpy().tolist()


class Resized(Module):  # type: ignore[misc,unused-ignore]
    """Maps `(batch, channels, height, width)` in the size of others, with corners that are kept, and without edges."""

    def forward(self, x: Any, like: Any) -> Any:
        sizes = {"bilinear": like.shape[2:], "bicubic": (5, 9)}
        return [
            functional.interpolate(x, size=size, mode=mode, antialias=True, align_corners=True)
            for mode, size in sizes.items()
        ]


def test_a_file_resizes_with_antialias_and_kept_corners(tmp_path: Path) -> None:
    given, axes = (torch.randn(2, 3, 10, 20), torch.randn(1, 1, 6, 30)), {2: "height", 3: "width"}
    with apply_patches():
        torch.onnx.export(
            Resized(),
            given,
            str(tmp_path / "model.onnx"),
            dynamic_shapes=({0: "batch", **axes}, {2: "rows", 3: "columns"}),
            dynamo=True,
            verbose=False,
        )
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for shape, size in (((2, 3, 10, 20), (6, 30)), ((1, 3, 7, 4), (19, 2)), ((3, 3, 33, 5), (8, 2))):
        x, like = torch.randn(shape), torch.randn(1, 1, *size)
        found = session.run(None, {"x": x.numpy(), "like": like.numpy()})
        for got, wanted in zip(found, Resized()(x, like), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted, atol=1e-4, rtol=0)

"""Operators that ONNX lacks give eager's numbers at any length, for equal elements and NaN too."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
onnxruntime = pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import apply_patches, export, plan
from exportcompat.patches.torch_onnx._running import _running
from exportcompat.patches.torch_onnx._taken_apart import _group_norm, _histc, _searchsorted

Module: Any = torch.nn.Module
NAN = float("nan")


def rows(*shape: int) -> Any:
    """Return numbers of which many are equal."""
    return torch.randint(-4, 4, shape, generator=torch.Generator().manual_seed(0)).float()


@pytest.mark.parametrize("length", [1, 2, 7, 64, 100])
@pytest.mark.parametrize(("name", "is_better"), [("cummax", torch.ge), ("cummin", torch.le)])
def test_running_extremes(name: str, is_better: Any, length: int) -> None:
    for x in (rows(3, length, 2), rows(3, length, 2).long(), rows(3, length, 2).where(rows(3, length, 2) != 1, NAN)):
        for dim in (1, -2, 0):
            wanted, found = getattr(torch, name)(x, dim), _running(x, dim, is_better)
            torch.testing.assert_close(tuple(wanted), found, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("right", [False, True])
def test_places_in_a_sorted_sequence(length: int, right: bool) -> None:
    values = rows(3, 5)
    values[0, 0] = NAN
    for sequence in (rows(length).sort().values, rows(3, length).sort(-1).values):
        wanted = torch.searchsorted(sequence, values, right=right)
        assert torch.equal(_searchsorted(sequence, values, right=right), wanted)
    order = rows(3, length).argsort(-1)
    wanted = torch.searchsorted(rows(3, length), values, sorter=order, out_int32=True)
    found = _searchsorted(rows(3, length), values, sorter=order, out_int32=True)
    assert torch.equal(found, wanted) and found.dtype == torch.int32


@pytest.mark.parametrize("is_scaled", [True, False])
@pytest.mark.parametrize("shape", [(2, 12, 5), (1, 12, 3, 4), (0, 12, 3, 4)])
def test_groups_of_channels_are_normalized(shape: tuple[int, ...], is_scaled: bool) -> None:
    norm, x = torch.nn.GroupNorm(4, 12, affine=is_scaled), torch.randn(shape)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    torch.testing.assert_close(_group_norm(x, 4, norm.weight, norm.bias, norm.eps), norm(x))


def session_of(model: Any, inputs: tuple[Any, ...], folder: Path, axes: Any, **scope: Any) -> Any:
    """Return ONNX Runtime with the file of a model, exported in a scope."""
    path = folder / "model.onnx"
    with apply_patches(**scope):
        torch.onnx.export(model.eval(), inputs, str(path), dynamic_shapes=axes, dynamo=True, verbose=False)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


class Quantized(Module):  # type: ignore[misc,unused-ignore]
    """A product of int8, of `(rows, 32)` numbers, each row with a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("weight", torch.randint(-127, 128, (32, 24), dtype=torch.int8, generator=generator))

    def forward(self, x: Any) -> Any:
        scale = x.abs().amax(1, keepdim=True) / 127
        return torch._int_mm((x / scale).round().to(torch.int8), self.weight) * scale


@pytest.mark.skipif(not hasattr(torch.onnx, "ops"), reason="torch cannot name an operator of ONNX before 2.8")
def test_products_of_int8_are_those_of_onnx(tmp_path: Path) -> None:
    model = Quantized().eval()
    rows = torch.randn(40, 32, generator=torch.Generator().manual_seed(1))
    with apply_patches():
        made = torch.onnx.export(model, (rows[:20],), dynamic_shapes=({0: "rows"},), dynamo=True, verbose=False)
    made.save(str(tmp_path / "model.onnx"))
    assert "MatMulInteger" in {node.op_type for node in made.model.graph}
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for count in (18, 33, 40):
        (found,) = session.run(None, {session.get_inputs()[0].name: rows[:count].numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(rows[:count]))


class Ranked(Module):  # type: ignore[misc,unused-ignore]
    """All of them, on `(batch, length)` numbers."""

    def forward(self, x: Any) -> Any:
        largest, place = torch.cummax(x, 1)
        low = torch.cummin(x, -1).values
        spots = torch.searchsorted(x[0].sort().values, x)
        return largest + 2 * place + 3 * low + 5 * spots + torch.isin(x, torch.arange(-2.0, 40.0)) * 7


needs_the_spec = pytest.mark.skipif(
    not any(item.spec.id == "torch-onnx-missing-operators" and item.applies for item in plan()),
    reason="the spec is for torch 2.6 and later",
)


@needs_the_spec
def test_a_file_has_them_at_any_length(tmp_path: Path) -> None:
    axes = ({0: "batch", 1: "length"},)
    session = session_of(Ranked(), (rows(3, 7),), tmp_path, axes, on_assumption="error")
    for shape in ((3, 7), (1, 1), (2, 130)):
        (found,) = session.run(None, {"x": rows(*shape).numpy()})
        assert torch.equal(torch.from_numpy(found), Ranked()(rows(*shape)))


class Ordered(Module):  # type: ignore[misc,unused-ignore]
    """Orders in which equal elements stay as they were, of `(batch, length)` numbers."""

    def forward(self, x: Any) -> Any:
        kinds = (x % 3).to(torch.int64)
        values, order = torch.sort(x > 0, dim=0, stable=True, descending=True)
        return kinds.argsort(dim=-1, stable=True), kinds.argsort(descending=True, stable=True), values, order


@needs_the_spec
def test_a_file_keeps_the_order_of_equal_elements(tmp_path: Path) -> None:
    axes = ({0: "batch", 1: "length"},)
    session = session_of(Ordered(), (rows(3, 7),), tmp_path, axes, on_assumption="error")
    for shape in ((3, 7), (1, 1), (40, 130), (0, 5)):
        for found, wanted in zip(session.run(None, {"x": rows(*shape).numpy()}), Ordered()(rows(*shape)), strict=True):
            assert torch.equal(torch.from_numpy(found), wanted)


@needs_the_spec
def test_a_file_normalizes_groups_of_no_images(tmp_path: Path) -> None:
    norm, axes = torch.nn.GroupNorm(4, 8).eval(), ({0: "images", 2: "height", 3: "width"},)
    session = session_of(norm, (rows(3, 8, 4, 6),), tmp_path, axes, on_assumption="error")
    for shape in ((3, 8, 4, 6), (0, 8, 4, 6), (1, 8, 3, 5)):
        (found,) = session.run(None, {session.get_inputs()[0].name: rows(*shape).numpy()})
        torch.testing.assert_close(torch.from_numpy(found), norm(rows(*shape)), atol=1e-5, rtol=0)


class Normalized(Module):  # type: ignore[misc,unused-ignore]
    """Chosen images `(images, 8, height, width)`, normalized by groups; and those of all, `(places, 8)`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, 8)

    def forward(self, x: Any, is_chosen: Any) -> Any:
        return self.norm(x.contiguous()[is_chosen]), self.norm(x).permute(0, 2, 3, 1).contiguous().view(-1, 8)


@needs_the_spec
def test_a_file_normalizes_groups_of_chosen_images_and_keeps_channels_last(tmp_path: Path) -> None:
    def images(*shape: int) -> Any:
        return rows(*shape).to(memory_format=torch.channels_last)

    model, given = Normalized().eval(), (images(3, 8, 4, 6), torch.tensor([True, False, True]))
    session = session_of(model, given, tmp_path, ({0: "images", 2: "height", 3: "width"}, {0: "images"}))
    for chosen in ([True, True, True], [False, False], [False, True, False, True, True]):
        x, is_chosen = images(len(chosen), 8, 5, 3), torch.tensor(chosen)
        found = session.run(None, {"x": x.numpy(), "is_chosen": is_chosen.numpy()})
        for got, wanted in zip(found, model(x, is_chosen), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted, atol=1e-5, rtol=0)


class Counted(Module):  # type: ignore[misc,unused-ignore]
    """The rows of each of 5 experts, as they are counted on a GPU."""

    def forward(self, x: Any) -> Any:
        return torch.histc(x.int(), 5, 0, 4)


@needs_the_spec
def test_a_file_counts_integers(tmp_path: Path) -> None:
    """The CPU cannot count them in eager, so the graph is captured on a device without numbers."""
    given = torch.empty(7, dtype=torch.int64, device="meta")
    session = session_of(Counted(), (given,), tmp_path, ({0: "rows"},), on_assumption="error")
    for chosen in (torch.arange(5), torch.tensor([4, 0, 4, 4, 1, 1, -1, 7]), torch.zeros(0, dtype=torch.int64)):
        (found,) = session.run(None, {"x": chosen.numpy()})
        assert found.dtype == "int32"
        assert torch.equal(torch.from_numpy(found), torch.histc(chosen.double(), 5, 0, 4).int())


class Bags(Module):  # type: ignore[misc,unused-ignore]
    """Sums, means and largest rows of bags, without the row 3 and with it."""

    def forward(self, indices: Any, offsets: Any, weight: Any) -> Any:
        bag = torch.nn.functional.embedding_bag
        factors = torch.arange(indices.shape[0]) / 7.0
        return (
            bag(indices, weight, offsets, mode="sum", per_sample_weights=factors, padding_idx=3),
            bag(indices, weight, offsets, mode="mean", padding_idx=-2),
            bag(indices, weight, offsets, mode="max", padding_idx=3),
            bag(indices, weight, offsets, mode="mean"),
            bag(
                indices,
                weight,
                torch.cat([offsets, offsets.new_full((1,), indices.shape[0])]),
                include_last_offset=True,
            ),
            bag(indices[: indices.shape[0] // 2 * 2].reshape(-1, 2), weight, mode="max"),
        )


@needs_the_spec
def test_a_file_sums_bags_without_a_loop(tmp_path: Path) -> None:
    path, weight = tmp_path / "model.onnx", rows(9, 5)
    made = ((12, [0, 3, 4]), (20, [0, 3, 3, 10, 11]), (3, [0]), (5, [0, 0, 5]))
    calls = [(torch.arange(count) % 4 + count % 6, torch.tensor(offsets), weight) for count, offsets in made]
    axes: Any = ({0: "count"}, {0: "bags"}, {})
    with apply_patches(on_assumption="error"):
        program = torch.onnx.export(Bags().eval(), calls[0], dynamic_shapes=axes, dynamo=True, verbose=False)
    assert not {"Loop", "SequenceInsert"} & {node.op_type for node in program.model.graph}
    program.save(str(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for call in calls:
        feeds = {item.name: tensor.numpy() for item, tensor in zip(session.get_inputs(), call, strict=True)}
        for found, wanted in zip(session.run(None, feeds), Bags()(*call), strict=True):
            torch.testing.assert_close(torch.from_numpy(found), wanted)


class Parted(Module):  # type: ignore[misc,unused-ignore]
    """Halves and thirds of a length, of which the last may be shorter."""

    def forward(self, x: Any) -> Any:
        left, right = x.chunk(2, dim=1)
        return (left, right, *x.chunk(3, dim=-2))


@needs_the_spec
def test_a_file_parts_any_length(tmp_path: Path) -> None:
    session = session_of(Parted(), (rows(2, 6, 3),), tmp_path, ({1: "length"},))
    for length in (6, 7, 12, 20):
        x = rows(2, length, 3)
        for found, wanted in zip(session.run(None, {"x": x.numpy()}), Parted()(x), strict=True):
            assert torch.equal(torch.from_numpy(found), wanted)


class Divided(Module):  # type: ignore[misc,unused-ignore]
    """Quotients and remainders of floats, of half precision, of large integers, and of numbers and sizes."""

    def forward(self, x: Any, y: Any, i: Any) -> Any:
        div, share = torch.div, i.shape[0] / 7
        floats = (x // y, x // 0.1, x % y, x % 0.1, torch.remainder(5.0, y), div(x, y, rounding_mode="floor"))
        integers = [part for other in (3, -7, i.flip(0) | 1) for part in (i // other, i % other, *_rounded(i, other))]
        mixed = (i // 0.3, i % 0.3, i % i.shape[0], i % share, (x.half() // 0.1).float())
        return (*floats, div(x, y, rounding_mode="trunc"), *integers, *mixed, *_rounded(i.int(), 3))


def _rounded(x: Any, y: Any) -> tuple[Any, ...]:
    return tuple(torch.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc"))


@needs_the_spec
def test_a_file_rounds_quotients_as_torch_does(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)

    def numbers(count: int) -> tuple[Any, ...]:
        x = torch.arange(count) / 10
        y = (torch.randint(1, 30, (2 * count,), generator=generator) / 10) * (1 - 2 * (torch.arange(2 * count) % 2))
        large = torch.randint(-(2**40), 2**40, (count,), generator=generator)
        return torch.cat([x, -x]), y, torch.cat([large, torch.arange(count)])

    session = session_of(Divided(), numbers(20), tmp_path, ({0: "count"},) * 3)
    for count in (20, 300):
        given = numbers(count)
        found = session.run(None, {name: part.numpy() for name, part in zip("xyi", given, strict=True)})
        for index, (one, wanted) in enumerate(zip(found, Divided()(*given), strict=True)):
            assert torch.equal(torch.from_numpy(one), wanted), index


class Stable(Module):  # type: ignore[misc,unused-ignore]
    """Functions of numbers that overflow, cancel, are 0, or infinite."""

    def forward(self, x: Any, y: Any) -> Any:
        least = torch.full_like(x, -float("inf"))
        sums = [torch.logaddexp(*pair) for pair in ((x * 40, y * 40), (least, y), (least, least))]
        distances = [torch.cdist(*pair) for pair in ((x, y), (x[:20], y[:20]))]
        # Rounding gives zeros of either sign.
        return (torch.nn.functional.logsigmoid(x * 40), torch.atan2(x.round(), y.round()), *sums, *distances)


@needs_the_spec
def test_a_file_keeps_large_numbers_and_sides(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    calls = [tuple(torch.randn(2, count, 6, generator=generator) * 2) for count in (30, 64)]
    session = session_of(Stable(), calls[0], tmp_path, ({0: "rows"},) * 2)
    for x, y in calls:
        found = session.run(None, {"x": x.numpy(), "y": y.numpy()})
        for one, wanted in zip(found, Stable()(x, y), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), wanted, atol=1e-5, rtol=1e-5)


class Pooled(Module):  # type: ignore[misc,unused-ignore]
    """Sums of windows over a divisor, of which the last ones go beyond the end."""

    def forward(self, x: Any) -> Any:
        pool = torch.nn.functional.avg_pool2d
        return tuple(pool(x, 3, step, 1, ceil_mode=True, divisor_override=5) for step in (2, 5))


@needs_the_spec
def test_a_file_pools_over_a_divisor(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    session = session_of(Pooled(), (torch.randn(2, 3, 8, 8),), tmp_path, ({2: "height", 3: "width"},))
    for shape in ((8, 8), (9, 13), (6, 11)):
        x = torch.randn(2, 3, *shape, generator=generator)
        for one, wanted in zip(session.run(None, {"x": x.numpy()}), Pooled()(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), wanted, atol=1e-5, rtol=1e-5)


class Trained(Module):  # type: ignore[misc,unused-ignore]
    """Normalizes a batch as in training, and has other means from before."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Conv1d(4, 4, 3)
        self.register_buffer("mean", torch.ones(4))
        self.register_buffer("var", torch.full((4,), 3.0))

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.batch_norm(self.layer(x), self.mean, self.var, training=True)


@needs_the_spec
def test_a_file_normalizes_a_batch_in_training_by_its_own_means(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    session = session_of(Trained(), (torch.randn(3, 4, 9),), tmp_path, ({0: "batch", 2: "length"},))
    for shape in ((3, 4, 9), (5, 4, 14)):
        x = torch.randn(shape, generator=generator) * 3 + 2
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), Trained()(x).detach(), atol=1e-5, rtol=1e-5)


class Averaged(Module):  # type: ignore[misc,unused-ignore]
    """Means of what is scattered to each place."""

    def forward(self, x: Any, index: Any) -> Any:
        means = [x.scatter_reduce(1, index, x * 3, "mean", include_self=include_self) for include_self in (True, False)]
        return (*means, x.long().scatter_reduce(0, index, x.long() * 5, "mean", include_self=False))


@needs_the_spec
def test_a_file_scatters_means(tmp_path: Path) -> None:
    calls = [(rows(count, 4), rows(count, 4).long().abs() % min(count, 3)) for count in (3, 5)]
    session = session_of(Averaged(), calls[0], tmp_path, ({0: "rows"},) * 2)
    for x, index in calls:
        found = session.run(None, {"x": x.numpy(), "index": index.numpy()})
        for one, wanted in zip(found, Averaged()(x, index), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), wanted)


def test_parts_of_a_count() -> None:
    x = torch.randint(0, 99, (400,), generator=torch.Generator().manual_seed(0))
    for bins in (1, 7, 98, 128):
        wanted = torch.histc(x.double(), bins, 3, 90).long()
        assert torch.equal(_histc(x, bins, 3, 90), wanted)
    assert _histc(x.double(), 7, 3, 90) is NotImplemented


class NarrowPlaces(Module):  # type: ignore[misc,unused-ignore]
    """Angles and norms in half precision, and rows named by int32."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 4)

    def forward(self, x: Any, places: Any) -> Any:
        zeros = torch.zeros_like(x)
        angles = torch.atan2(x, x.flip(0))
        norms = torch.nn.functional.group_norm(x, 2, self.norm.weight.float(), self.norm.bias.float())
        rows = x[places], zeros.index_add(0, places, x), zeros.index_put((places,), x, accumulate=True)
        loss = torch.nn.functional.soft_margin_loss(x, x.sign().float())
        return loss, angles, norms, *rows, torch.repeat_interleave(places), x.repeat_interleave(places, 0)


@needs_the_spec
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_file_keeps_the_types_of_angles_norms_and_repetitions(dtype: Any, tmp_path: Path) -> None:
    calls = [{"x": rows(count, 4).to(dtype), "places": torch.arange(count).int() % 3} for count in (5, 7, 9)]
    result = export(NarrowPlaces().eval(), calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)

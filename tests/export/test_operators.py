"""What torch does in eager mode and its exporter gets wrong, operator by operator, at sizes that were not traced."""

from pathlib import Path
from typing import Any

import pytest

numpy = pytest.importorskip("numpy", reason="sizes are numbers of numpy too")
torch = pytest.importorskip("torch", reason="an export needs torch")
onnxruntime = pytest.importorskip("onnxruntime", reason="the file is run")

from torch import nn

from exportcompat import apply_patches, plan
from exportcompat._exporter._opset import default_opset


class Squeezing(nn.Module):  # type: ignore[misc,unused-ignore]
    """Squeezes axes that are 1, axes that are not, and both."""

    def forward(self, rows: Any) -> Any:
        one = rows[:, None]
        return (
            rows.squeeze(0),
            rows.squeeze(-1),
            one.squeeze(1),
            one.squeeze((0, 1)),
            one.squeeze(),
            rows[0, 0].squeeze(0),
        )


class Subtracting(nn.Module):  # type: ignore[misc,unused-ignore]
    """Subtracts integers and other tensors from numbers."""

    def forward(self, rows: Any) -> Any:
        return 1.0 - rows, 2 - rows, 1.5 - rows.to(torch.int32), 1.0 - rows.half(), 3 - rows.float()


class Converting(nn.Module):  # type: ignore[misc,unused-ignore]
    """Converts a module in `forward` to the type that it has, as routers do."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(3, 2)

    def forward(self, rows: Any) -> Any:
        self.router = self.router.to(torch.float32)
        return self.router(rows)


class Attending(nn.Module):  # type: ignore[misc,unused-ignore]
    """Attends with a mask that all queries share, of bools and of numbers."""

    def forward(self, rows: Any) -> Any:
        heads = rows.float()[:, None, :, None].expand(-1, 2, -1, 4)
        mask = (rows % 3 != 1)[:, None, None]
        attention = nn.functional.scaled_dot_product_attention
        return attention(heads, heads, heads, mask), attention(heads, heads, heads, mask.float())


@pytest.mark.parametrize("module", [Squeezing, Subtracting, Attending])
def test_a_graph_does_what_eager_does(module: Any, tmp_path: Path) -> None:
    model, path = module().eval(), tmp_path / "model.onnx"
    axes = ({0: torch.export.Dim.DYNAMIC},)
    with apply_patches():
        torch.onnx.export(
            model,
            (torch.arange(6).reshape(2, 3),),
            str(path),
            dynamic_shapes=axes,
            opset_version=default_opset(),
            dynamo=True,
            verbose=False,
        )
    rows = torch.arange(15).reshape(5, 3)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: rows.numpy()})
    for result, expected in zip(found, model(rows), strict=True):
        torch.testing.assert_close(torch.from_numpy(result), expected.detach())


def test_a_module_that_forward_converts_is_traced() -> None:
    model, rows = Converting(), torch.ones(5, 3)
    with apply_patches():
        # Not strict, as the first attempt of the exporter is; a later one may succeed without.
        program = torch.export.export(
            model, (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False
        )
    torch.testing.assert_close(program.module()(rows), model(rows))


@pytest.mark.parametrize("options", [{"dtype": torch.float64}, {"device": "meta"}])
def test_a_module_is_still_converted(options: Any) -> None:
    with apply_patches():
        weight = nn.Linear(3, 2).to(**options).weight
    assert (weight.dtype, weight.device.type) == (options.get("dtype", torch.float32), options.get("device", "cpu"))


def test_a_module_is_still_converted_to_a_memory_format() -> None:
    with apply_patches():
        layer = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


class Rows(nn.Module):  # type: ignore[misc,unused-ignore]
    """Squeezes what gets an axis again, and rows of a dynamic axis, of which torch knows a false shape."""

    def forward(self, x: Any) -> Any:
        flat = x.sum(2, keepdim=True).squeeze()
        return flat.unsqueeze(0) + 1, flat.unsqueeze(-1) * 2, torch.stack([row.squeeze() for row in x[None].mT[0, :1]])


def assert_like_eager(model: Any, traced: Any, axes: Any, shapes: Any, path: Path) -> None:
    """Export a model of one tensor in a scope, and compare its results with eager at other shapes."""
    with apply_patches():
        torch.onnx.export(model, (torch.randn(traced),), str(path), dynamic_shapes=(axes,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in shapes:
        x = torch.randn(shape)
        for result, expected in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(result), expected)


@pytest.mark.skipif(not hasattr(torch.export.Dim, "DYNAMIC"), reason="this torch has no such dimension")
def test_a_squeeze_of_all_axes_is_that_of_a_call(tmp_path: Path) -> None:
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    assert_like_eager(Rows(), (2, 5, 4), axes, ((2, 5, 4), (1, 3, 4), (3, 9, 4)), tmp_path / "model.onnx")


class Joined(nn.Module):  # type: ignore[misc,unused-ignore]
    """Squeezes an axis by its number, and all axes by a product along two of them."""

    def forward(self, x: Any) -> Any:
        return x.squeeze(-1) * 2, torch.tensordot(x, x.transpose(0, 2), dims=([0, 1], [2, 1])), x.squeeze().softmax(0)


class Spreading(nn.Module):  # type: ignore[misc,unused-ignore]
    """Squeezes an axis before all others, of what is broadcast along it."""

    def forward(self, x: Any) -> Any:
        return (x + x.squeeze(0),)


@pytest.mark.skipif(not hasattr(torch.export.Dim, "AUTO"), reason="this torch has no such dimension")
@pytest.mark.parametrize("hint", ["AUTO", "DYNAMIC"])
def test_an_axis_that_is_one_in_the_sample_is_squeezed_there(hint: str, tmp_path: Path) -> None:
    axes = dict.fromkeys(range(3), getattr(torch.export.Dim, hint))
    assert_like_eager(Joined(), (5, 4, 1), axes, ((5, 4, 1), (7, 4, 1)), tmp_path / "model.onnx")
    assert_like_eager(Spreading(), (1, 4, 3), axes, ((1, 4, 3), (2, 7, 3)), tmp_path / "model.onnx")


LENGTHS = ((5, 3), (5,), (5, 1, 2))
"""Of texts of several batches."""


class Packing(nn.Module):  # type: ignore[misc,unused-ignore]
    """Has an encoder that takes padding to be behind the tokens without a look."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, mask_check=False)

    def forward(self, x: Any, is_padding: Any) -> Any:
        return self.encoder(x, src_key_padding_mask=is_padding)


@pytest.mark.skipif(not hasattr(torch.backends.mha, "get_fastpath_enabled"), reason="this torch cannot say it")
@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def test_an_encoder_that_checks_no_mask_has_zeros_for_padding() -> None:
    model, axes = Packing().eval(), {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    calls = [
        (torch.randn(len(lengths), 5, 8), torch.arange(5) >= torch.tensor(lengths)[:, None]) for lengths in LENGTHS
    ]
    with apply_patches() as report:
        program = torch.export.export(model, calls[0], dynamic_shapes=(axes, axes))
    if "torch-encoder-padding" not in report.applied:
        pytest.skip("not for this torch")
    for call in calls:
        torch.testing.assert_close(program.module()(*call), model(*call))


def test_a_compiled_encoder_with_gradients_is_left_alone() -> None:
    model, is_padding = Packing().eval(), torch.tensor([[False, False, True], [False, False, False]])
    x = torch.randn(2, 3, 8)
    with apply_patches():
        found = torch.compile(model, backend="aot_eager")(x, is_padding)
    torch.testing.assert_close(found, model(x, is_padding))


class Pooling(nn.Module):  # type: ignore[misc,unused-ignore]
    """Takes the largest of windows of a sequence: by torch, by a module, by functions and numbers of numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool1d(4, ceil_mode=True)

    def forward(self, x: Any) -> Any:
        functional = nn.functional.max_pool1d(x, numpy.int64(3), numpy.int64(2))
        places = nn.functional.max_pool1d(x[..., :8], 2, return_indices=True)[1]
        return self.pool(x), functional, torch.max_pool1d(x[0], 3, 1, 1, 2), places


@pytest.mark.skipif(
    not any(item.spec.id == "torch-export-taken-along" and item.applies for item in plan()),
    reason="to torch 2.10 the sizes of such sequences are not mended",
)
def test_sequences_of_any_length_are_pooled(tmp_path: Path) -> None:
    axes = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    assert_like_eager(Pooling(), (2, 3, 16), axes, ((1, 3, 11), (2, 3, 16), (4, 3, 24)), tmp_path / "model.onnx")


def test_a_layer_that_pools_is_scripted() -> None:
    with apply_patches():
        assert torch.jit.script(nn.MaxPool1d(3))(torch.arange(6.0)[None]).tolist() == [[2.0, 5.0]]


def test_a_plain_recurrent_layer_of_float64_runs(tmp_path: Path) -> None:
    layer, x = nn.RNN(5, 7).double(), torch.randn(4, 2, 5, dtype=torch.float64)
    with apply_patches():
        torch.onnx.export(layer, (x,), str(tmp_path / "model.onnx"), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found), layer(x)[0].detach())


class Counting(nn.Module):  # type: ignore[misc,unused-ignore]
    """Returns numbers alone."""

    def forward(self, x: Any) -> Any:
        return len(x.shape), 3


def test_a_program_of_constants_alone_is_refused_as_without_patches() -> None:
    with apply_patches(), pytest.raises(torch.onnx.OnnxExporterError):
        torch.onnx.export(Counting(), (torch.randn(2, 3),), dynamo=True, verbose=False)

"""`index_put` as a scatter is right for every form of an index, in torch and at sizes that an export did not see."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from exportcompat.patches.torch_onnx.index_put import (
    index_put,
    masked_put,
    patch_decomposition_table,
    patch_decomposition_table_masks,
)


def positions(*shape: int, below: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-below, below, shape, generator=generator)


def unique(*values: int) -> Any:
    return torch.tensor(values)


FORMS = {
    "first axis": ((4, 5), [unique(0, -1, 2)], (3, 5)),
    "of several axes": ((7, 5), [unique(0, 6, -2, 3).reshape(2, 2)], (2, 2, 5)),
    "two neighbours": ((4, 5, 6), [unique(0, 1, 3), unique(-1, 2, 4)], (3, 6)),
    "two that broadcast": ((4, 5, 6), [unique(0, 3).reshape(2, 1), unique(-1, 2, 1)], (2, 3, 6)),
    "behind a whole axis": ((4, 5, 6), [None, unique(-1, 2)], (4, 2, 6)),
    "neighbours behind a whole axis": ((2, 4, 5, 3), [None, unique(0, 3), unique(-1, 2)], (2, 2, 3)),
    "neighbours of several axes": ((2, 4, 5, 3), [None, unique(0, 1, 2, 3).reshape(2, 2), unique(0, 4)], (2, 2, 2, 3)),
    "apart": ((4, 5, 6), [unique(0, 3), None, unique(-1, 2)], (2, 5)),
    "every axis": ((4, 5), [unique(0, 3), unique(-1, 2)], (2,)),
    "a number": ((4, 5), [torch.tensor(2)], (5,)),
    "values that broadcast": ((4, 5, 6), [None, unique(-1, 2)], (1, 6)),
    "one value": ((4, 5), [unique(1, 2)], ()),
    "nothing": ((4, 5), [torch.zeros(0, dtype=torch.int64)], (0, 5)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("accumulate", [False, True])
def test_it_is_what_torch_does(form: str, accumulate: bool) -> None:
    shape, indices, size = FORMS[form]
    x, values = torch.randn(shape), torch.randn(size)
    wanted = torch.ops.aten.index_put(x, indices, values, accumulate)
    assert torch.equal(index_put(x, indices, values, accumulate), wanted)
    assert not torch.equal(wanted, x) or form == "nothing"


def test_places_that_are_met_twice_are_added_up() -> None:
    x, indices = torch.zeros(3, 4), [positions(50, below=3), positions(50, below=4, seed=1)]
    values = torch.randint(1, 9, (50,)).float()
    assert torch.equal(index_put(x, indices, values, accumulate=True), x.index_put(indices, values, accumulate=True))


MASKS = {
    "every element": ((4, 5), (4, 5), (3,)),
    "rows": ((4, 5), (4,), (3, 5)),
    "one row": ((4, 5), (4,), (1, 5)),
    "columns that are shared": ((4, 5, 6), (4, 5), (3, 1)),
    "one value": ((4, 5), (4,), ()),
    "a row for all": ((4, 5), (4,), (5,)),
}


@pytest.mark.parametrize("form", MASKS)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("function", [index_put, masked_put])
def test_a_mask_takes_as_many_values_as_it_is_true(form: str, accumulate: bool, function: Any) -> None:
    shape, size, width = MASKS[form]
    x, values, mask = torch.randn(shape), torch.randn(width), torch.zeros(size, dtype=torch.bool)
    mask.view(-1)[torch.tensor([0, 2, 3])] = True
    wanted = torch.ops.aten.index_put(x, [mask], values, accumulate)
    assert torch.equal(function(x, [mask], values, accumulate), wanted)
    has_count = values.dim() == x.dim() - mask.dim() + 1
    assert torch.equal(function(x, [mask & False], values[:0] if has_count else values, accumulate), x)


@pytest.mark.parametrize("function", [index_put, masked_put])
def test_what_is_no_mask_alone_is_left_alone(function: Any) -> None:
    mask, row = torch.tensor([True, False]), torch.tensor([0])
    for indices in ([mask.to(torch.uint8)], [None], [mask, row]):
        assert function(torch.zeros(2, 2), indices, torch.ones(1)) is NotImplemented
    assert masked_put(torch.zeros(2), [row], torch.ones(1)) is NotImplemented


class Router(nn.Module):  # type: ignore[misc,unused-ignore]
    """Writes to places of which the number is that of the tokens."""

    def forward(self, x: Any, rows: Any, columns: Any) -> Any:
        x = x.index_put((rows, columns), torch.ones(()), accumulate=True)
        return x.index_put((rows.unsqueeze(1),), x[:1].unsqueeze(0) * 2)


def test_an_export_is_right_at_other_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from torch.onnx._internal.exporter import _decomp

    patched = patch_decomposition_table(_decomp.create_onnx_friendly_decomposition_table)
    monkeypatch.setattr(_decomp, "create_onnx_friendly_decomposition_table", patched)
    model, path = Router().eval(), tmp_path / "model.onnx"
    inputs = (torch.randn(4, 5), torch.tensor([0, 2, 3]), torch.tensor([4, 0, 1]))
    shapes = ({0: "tokens", 1: "experts"}, {0: "places"}, {0: "places"})
    program = torch.onnx.export(model, inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    # Without the decomposition there would be a ScatterND.
    assert {node.op_type for node in program.model.graph.all_nodes()} & {"ScatterND", "ScatterElements"} == {
        "ScatterElements"
    }
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    unseen = (torch.randn(9, 3), torch.tensor([8, 1, -1, 8]), torch.tensor([2, 0, 1, 2]))
    for call in (inputs, unseen):
        feeds = {item.name: value.numpy() for item, value in zip(session.get_inputs(), call, strict=True)}
        assert torch.allclose(torch.from_numpy(session.run(None, feeds)[0]), model(*call), atol=1e-5)


class Filler(nn.Module):  # type: ignore[misc,unused-ignore]
    """Writes as many rows of its values as a mask is true, which is data."""

    def forward(self, x: Any, mask: Any, values: Any) -> Any:
        return x.index_put((mask,), values[: mask.sum()])


def test_a_mask_is_right_for_other_numbers_of_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from torch.onnx._internal.exporter import _decomp

    patched = patch_decomposition_table_masks(_decomp.create_onnx_friendly_decomposition_table)
    monkeypatch.setattr(_decomp, "create_onnx_friendly_decomposition_table", patched)
    model, path, shape = Filler().eval(), tmp_path / "model.onnx", {0: "rows"}
    inputs = (torch.randn(4, 5), torch.tensor([True, False, True, True]), torch.randn(4, 5))
    program = torch.onnx.export(model, inputs, dynamic_shapes=(shape, shape, shape), dynamo=True, verbose=False)
    assert "ScatterND" not in {node.op_type for node in program.model.graph.all_nodes()}
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for mask in (inputs[1], torch.zeros(6, dtype=torch.bool), torch.arange(7) > 4):
        call = (torch.randn(len(mask), 5), mask, torch.randn(len(mask), 5))
        feeds = {item.name: value.numpy() for item, value in zip(session.get_inputs(), call, strict=True)}
        assert torch.equal(torch.from_numpy(session.run(None, feeds)[0]), model(*call))

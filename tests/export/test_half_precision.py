"""A file in half precision that cannot be right as it is, although its copy in float32 is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exportcompat import export
from exportcompat._verification import OnnxFile


def infinite(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with one element that was too large for the type."""
    return tensor.index_fill(0, torch.tensor([0]), float("inf"))


def far(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in which every element is off."""
    return tensor + 0.5


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (infinite, "'output' has NaN or infinity where the copy in float32 has numbers"),
        (far, "most elements of 'output' are off from the copy in float32"),
    ],
)
def test_a_file_that_is_wrong_in_half_precision_alone(
    damaged: Callable[[torch.Tensor], torch.Tensor], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer: Any = torch.nn.Linear(4, 4).eval().half()
    calls = [{"input": torch.randn(rows, 4, dtype=torch.float16)} for rows in (3, 5)]
    result = export(layer, calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    run = OnnxFile.run

    def run_damaged(file: OnnxFile, feeds: Any) -> Any:
        return {
            name: damaged(tensor) if tensor.dtype == torch.float16 else tensor
            for name, tensor in run(file, feeds).items()
        }

    monkeypatch.setattr(OnnxFile, "run", run_damaged)
    result = export(layer, calls, tmp_path / "other.onnx")
    assert result.discrepancies is not None
    (failed,) = [row for row in result.discrepancies if not row.success]
    assert failed.call == "run in float16"
    assert said in failed.error, failed.error


class Chosen(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Numbers of one of two experts, of that whose score is the larger one."""

    def __init__(self, other: float) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.tensor([[1.0, 1.0, 1.0, 1.0], [other, 1.0, 1.0, 1.0]]))
        self.numbers = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        first, second = (rows[:, None] * self.scores).sum(-1).split(1, -1)
        return torch.where(first < second, self.numbers, -self.numbers)


def one_text(rows: int) -> dict[str, torch.Tensor]:
    return {"rows": torch.tensor([[0.25, 1.0, 1.0, 1.0]] * rows, dtype=torch.float16)}


def test_where_two_experts_score_alike_a_file_in_half_precision_may_take_the_other_one(tmp_path: Path) -> None:
    # 3.25 and 3.25024 are one number of float16.
    model: Any = Chosen(1 + 2**-10).eval().half()
    result = export(model, [one_text(3), one_text(5)], tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    assert any("two experts score alike" in note for note in result.discrepancies.notes)


def test_where_two_experts_score_alike_it_may_not_give_the_numbers_of_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = OnnxFile.run

    def run_other(file: OnnxFile, feeds: Any) -> Any:
        found = run(file, feeds)
        return {name: tensor + 9 if tensor.dtype == torch.float16 else tensor for name, tensor in found.items()}

    monkeypatch.setattr(OnnxFile, "run", run_other)
    model: Any = Chosen(1 + 2**-10).eval().half()
    result = export(model, [one_text(3), one_text(5)], tmp_path / "model.onnx")
    assert result.discrepancies is not None and not result.discrepancies.success


def test_where_experts_do_not_score_alike_it_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = OnnxFile.run

    def run_other(file: OnnxFile, feeds: Any) -> Any:
        found = run(file, feeds)
        return {name: -tensor if tensor.dtype == torch.float16 else tensor for name, tensor in found.items()}

    monkeypatch.setattr(OnnxFile, "run", run_other)
    model: Any = Chosen(3.0).eval().half()
    result = export(model, [one_text(3), one_text(5)], tmp_path / "model.onnx")
    assert result.discrepancies is not None and not result.discrepancies.success


def test_nodes_without_a_kernel_of_bfloat16_compute_in_float32_between_values_without_a_type() -> None:
    onnx, ir = pytest.importorskip("onnx"), pytest.importorskip("onnx_ir")
    from exportcompat.patches.torch_onnx._float32_nodes import widen_nodes

    # In opset 23 ONNX defines all of these for bfloat16, but ONNX Runtime has kernels for `Where` and `Mul` alone.
    text = """<ir_version: 10, opset_import: ["" : 23]> g (bfloat16[N, 4] x) => (bfloat16[N, 1] y) {
        soft = Softplus(x)
        double = Mul(soft, soft)
        is_large = Greater(double, x)
        is_small = Less(double, x)
        is_other = Or(is_large, is_small)
        chosen = Where(is_other, double, soft)
        axes = Constant<value_ints = [1]>()
        y = ReduceMax(chosen, axes)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    widen_nodes(model)
    onnx.checker.check_model(ir.to_proto(model))
    made = onnx.shape_inference.infer_shapes(ir.to_proto(model), check_type=True, strict_mode=True)
    kinds = {item.name: item.type.tensor_type.elem_type for item in [*made.graph.value_info, *made.graph.input]}
    taken = {
        node.op_type: kinds[node.input[-1 if node.op_type == "Where" else 0]] for node in made.graph.node if node.input
    }
    narrow, wide = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    wanted = {"Softplus": wide, "Mul": narrow, "Greater": wide, "Where": narrow, "ReduceMax": wide}
    assert {name: taken[name] for name in wanted} == wanted
    assert made.graph.output[0].type.tensor_type.elem_type == narrow


def test_what_a_model_writes_to_its_cache_is_not_taken_for_what_it_was_handed() -> None:
    transformers = pytest.importorskip("transformers")
    from exportcompat import InputObserver, apply_patches

    if not hasattr(transformers, "MambaConfig"):
        pytest.skip("there is no Mamba in this release of transformers")
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4)
    model, observer = transformers.MambaForCausalLM(config).eval().to(torch.bfloat16), InputObserver()
    with torch.no_grad(), apply_patches(), observer(model, store_n_calls=3):
        model.generate(input_ids=torch.tensor([[5, 6, 7]]), max_new_tokens=3, do_sample=False)
    for record in observer._records:
        before = {path: tensor.clone() for path, tensor in record.inputs.tensors.items()}
        with torch.no_grad(), apply_patches():
            for leaf in torch.utils._pytree.tree_leaves(record.inputs.arguments()):
                if isinstance(leaf, torch.Tensor):
                    leaf.zero_()
        assert before and all(torch.equal(record.inputs.tensors[path], tensor) for path, tensor in before.items())


class MaskedScores(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Scores of keys, with the smallest number of the type added where a key is no text."""

    def forward(self, scores: torch.Tensor, is_text: torch.Tensor) -> torch.Tensor:
        return (scores + torch.where(is_text, 0.0, torch.finfo(scores.dtype).min).to(scores.dtype)).softmax(-1)


def test_the_mask_of_a_copy_leaves_nothing_of_a_score_as_that_of_the_model_does(tmp_path: Path) -> None:
    # Of a row without text nothing is left but equal shares, in float32; -65504 would leave the scores.
    calls: list[dict[str, Any]] = []
    for rows in (3, 5):
        is_text = torch.ones(rows, 4, dtype=torch.bool)
        is_text[1, 2], is_text[2] = False, False
        calls.append({"scores": 4 * torch.randn(rows, 4, dtype=torch.float16), "is_text": is_text})
    result = export(MaskedScores().eval(), calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)


class ScatteredSum(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Rows that are added where an index says, several of them to one place."""

    def forward(self, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(rows).index_add(0, index, rows * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_what_is_scattered_in_half_precision_is_summed_up_in_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    calls = [
        {"rows": torch.randn(rows, 4, dtype=dtype), "index": torch.arange(rows) % (rows - 1)} for rows in (5, 7, 9)
    ]
    result = export(ScatteredSum().eval(), calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)


def test_what_a_file_in_half_precision_gives_for_padding_does_not_count() -> None:
    from exportcompat._verification._half_precision import _of_text

    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    logits, keys = torch.arange(2 * 3 * 5.0).reshape(2, 3, 5), torch.arange(2 * 2 * 4 * 3.0).reshape(2, 2, 4, 3)
    assert torch.equal(_of_text(logits, mask), torch.cat([logits[0, 1:], logits[1]]))
    assert torch.equal(_of_text(keys, mask), torch.cat([keys[0, :, 2:].transpose(0, 1), keys[1].transpose(0, 1)]))
    assert _of_text(logits, None) is logits and _of_text(logits[0], mask).shape == logits[0].shape
    assert _of_text(logits, torch.ones(3, 4)) is logits


def test_a_loop_gives_values_of_several_types() -> None:
    onnx, ir = pytest.importorskip("onnx"), pytest.importorskip("onnx_ir")
    from exportcompat.patches.torch_onnx._float32_nodes import widen_nodes

    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4] x, int64 count) => (float[M, 4] y) {
        none = SequenceEmpty ()
        zero = Constant <value_int = 0> ()
        parts, steps = Loop (count, , none, zero) <body = b (int64 i, bool on, some, step) => (bool out, more, next) {
            out = Identity (on)
            more = SequenceInsert (some, x)
            next = Add (step, i)
        }>
        y = ConcatFromSequence <axis = 0> (parts)
    }"""
    model = ir.serde.deserialize_model(onnx.parser.parse_model(text))
    loop = next(node for node in model.graph if node.op_type == "Loop")
    # This is what the exporter knows of a function that it put in place.
    loop.inputs[3].dtype = ir.DataType.INT64
    loop.inputs[2].type = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    widen_nodes(model)
    assert [value.type for value in loop.outputs] == [None, None]

"""An output of another type than eager's is a difference, whatever its numbers are."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the comparison is between torch and ONNX Runtime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="the comparison is between torch and ONNX Runtime")

from exportcompat import Discrepancies, ExportCompatError, InputObserver, apply_patches, export
from exportcompat._verification import OnnxDecoder, OnnxFile, measure
from exportcompat._verification._discrepancy import WIDENED

Module: Any = torch.nn.Module
WANTED = torch.tensor([0.0, 1.0, 3.0])


class Typed(Module):  # type: ignore[misc,unused-ignore]
    """Results of several types."""

    def forward(self, x: Any) -> dict[str, Any]:
        return {"sums": x + 1, "places": x.argmax(-1), "is_large": x > 0.5}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [("float32", "float16"), ("float32", "bfloat16"), ("float64", "float32"), ("int32", "int64"), ("float32", "bool")],
)
def test_another_type_is_an_error_that_names_the_output(found: str, wanted: str) -> None:
    tensor = WANTED.clamp(max=1) if wanted == "bool" else WANTED
    pair = {"places": tensor.to(getattr(torch, found))}, {"places": tensor.to(getattr(torch, wanted))}
    fields = measure(*pair)
    assert (fields["success"], fields["absolute"]) == (False, 0.0)
    assert fields["error"] == f"output 'places' is {found}, and {wanted} in eager"
    assert measure(*pair, types=False)["success"]


def test_whole_numbers_are_exact() -> None:
    large = torch.tensor([2**60, 300_000])
    assert measure({"x": large}, {"x": large})["success"]
    assert not measure({"x": large + torch.tensor([0, 1])}, {"x": large})["success"]
    assert not measure({"x": large + torch.tensor([0, 1])}, {"x": large}, WIDENED["float16"])["success"]
    # As numbers of float64 both are the same.
    assert not measure({"x": large + torch.tensor([1, 0])}, {"x": large})["success"]
    assert not measure({"x": large + torch.tensor([0, 1])}, {"x": large}, 2.0)["success"]
    truth = torch.tensor([True, False])
    assert not measure({"x": ~truth}, {"x": truth}, 2.0)["success"]


def test_a_complex_output_is_pairs_in_a_file(tmp_path: Path) -> None:
    wanted = torch.complex(WANTED, 2 * WANTED)
    assert measure({"x": torch.view_as_real(wanted)}, {"x": wanted})["success"]
    assert measure({"x": wanted}, {"x": wanted})["success"]
    assert not measure({"x": torch.view_as_real(wanted.conj().resolve_conj())}, {"x": wanted})["success"]
    assert measure({"x": torch.view_as_real(wanted).double()}, {"x": wanted})["error"] == (
        "output 'x' is float64, and float32 in eager"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_truth_values_places_and_sums_are_compared(dtype: str, tmp_path: Path) -> None:
    found = exported(dtype, tmp_path).discrepancies
    assert found is not None and found.success, str(found)


class Counted(Module):  # type: ignore[misc,unused-ignore]
    """A tensor, and how many rows it has, which is a number in eager."""

    def forward(self, x: Any) -> tuple[Any, int]:
        return x + 1, x.shape[0]


def test_a_number_of_eager_is_not_compared_and_a_note_says_so(tmp_path: Path) -> None:
    found = export(Counted().eval(), [{"x": torch.rand(rows, 4)} for rows in (3, 5)], tmp_path / "model.onnx")
    assert found.discrepancies is not None and found.discrepancies.success
    (note,) = [line for line in found.discrepancies.notes if line.startswith("eager has no tensor for")]
    assert note.endswith(OnnxFile(found.path).outputs[1])


def exported(dtype: str, folder: Path) -> Any:
    calls = [{"x": torch.rand(rows, 4, dtype=getattr(torch, dtype))} for rows in (3, 5)]
    return export(Typed().eval(), calls, folder / "model.onnx")


def recast(path: Path, output: str, kind: int) -> None:
    """Give an output of a file another type by a cast behind it."""
    model = onnx.load(str(path))
    for node in model.graph.node:
        node.output[:] = [f"{name}_before" if name == output else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Cast", [f"{output}_before"], [output], to=kind))
    next(value for value in model.graph.output if value.name == output).type.tensor_type.elem_type = kind
    onnx.save(model, str(path))


def disown(path: Path) -> None:
    """Take our metadata from a file, which is one of others then."""
    model = onnx.load(str(path))
    del model.metadata_props[:]
    onnx.save(model, str(path))


def compared(dtype: str, path: Path) -> Discrepancies:
    observer, model = InputObserver(), Typed().eval()
    with torch.no_grad(), apply_patches(), observer(model):
        for rows in (3, 5):
            model(x=torch.rand(rows, 4, dtype=getattr(torch, dtype)))
    return observer.check_discrepancies(path)


@pytest.mark.parametrize(
    ("dtype", "output", "kind", "said"),
    [
        ("float16", "sums", "FLOAT", "output 'sums' is float32, and float16 in eager"),
        ("bfloat16", "sums", "FLOAT", "output 'sums' is float32, and bfloat16 in eager"),
        ("float32", "places", "INT32", "output 'places' is int32, and int64 in eager"),
        ("float16", "is_large", "FLOAT16", "output 'is_large' is float16, and bool in eager"),
    ],
)
def test_a_file_of_another_type_is_wrong_and_one_of_others_says_it(
    dtype: str, output: str, kind: str, said: str, tmp_path: Path
) -> None:
    path = exported(dtype, tmp_path).path
    recast(path, output, getattr(onnx.TensorProto, kind))
    found = compared(dtype, path)
    assert [row.error for row in found if not row.success] == [said]
    disown(path)
    found = compared(dtype, path)
    assert found.success, str(found)
    assert f"of another type than in eager, which a file of another exporter may promise: {said}" in found.notes


def test_a_file_that_is_run_as_a_copy_has_the_types_that_it_declares(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    # ONNX Runtime has no kernel for it on the CPU.
    text = """<ir_version: 10, opset_import: ["" : 23]> g (bfloat16[N, 4] x) => (bfloat16[N, 4] y, float[N, 4] z)
        <bfloat16[1] one = {1}> { w = Softplus(x) y = Add(w, one) z = Cast<to = 1>(y) }"""
    onnx.save(onnx.parser.parse_model(text), str(path))
    file, x = OnnxFile(path), torch.rand(3, 4).to(torch.bfloat16)
    assert file.is_widened and file.types == {"x": "bfloat16", "y": "bfloat16", "z": "float32"}
    assert [tensor.dtype for tensor in file.run({"x": x}).values()] == [torch.bfloat16, torch.float32]
    assert {tensor.dtype for tensor in file.in_float32().run({"x": x}).values()} == {torch.float32}


def test_a_cache_that_a_later_call_does_not_take_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    text = """<ir_version: 10, opset_import: ["" : 20]> g (int64[batch, sequence] input_ids,
        float16[batch, 1, past, 2] past_key_values_0_key) => (float[batch, sequence] logits,
        float[batch, 1, past, 2] present_0_key) {
        logits = Cast<to = 1>(input_ids)
        present_0_key = Cast<to = 1>(past_key_values_0_key)
    }"""
    onnx.save(onnx.parser.parse_model(text), str(path))
    decoder = OnnxDecoder(path, ["logits", "present.0.key"])
    with pytest.raises(ExportCompatError, match=r"'present\.0\.key' is float32, and a later call takes it as float16"):
        decoder({"input_ids": torch.ones(1, 3, dtype=torch.int64)}, decoder.empty_cache(1))

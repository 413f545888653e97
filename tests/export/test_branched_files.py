"""The two graphs of a decoder, as optimum writes them, are compared as one."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="tensors go in and come out")
onnx = pytest.importorskip("onnx", reason="the files are made with it")
pytest.importorskip("onnxruntime", reason="files are run")

from exportcompat import ExportCompatError
from exportcompat._verification import FIRST, LATER, open_file
from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder

TOKENS, STATES = "input_ids", "encoder_hidden_states"
PAST = ("past_key_values.0.decoder.key", "past_key_values.0.encoder.key")
PRESENT = ("present.0.decoder.key", "present.0.encoder.key")


def write(path: Path, inputs: dict[str, Any], nodes: list[tuple[str, str, str]]) -> None:
    """Write a graph of one operator for each output: its name, its input and its output."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    values = [helper.make_tensor_value_info(name, item, None) for name, item in inputs.items()]
    made = [
        helper.make_node(name, [given], [to], **({"to": kind} if name == "Cast" else {})) for name, given, to in nodes
    ]
    outputs = [helper.make_tensor_value_info(to, kind, None) for _, _, to in nodes]
    graph = helper.make_graph(made, "graph", values, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def test_two_files_are_one(tmp_path: Path) -> None:
    ids, floats = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    first = [("Neg", STATES, "logits"), *(("Identity", STATES, name) for name in PRESENT)]
    write(tmp_path / FIRST, {TOKENS: ids, STATES: floats}, first)
    with pytest.raises(ExportCompatError, match=f"{FIRST} is a part of a decoder, and {LATER}, the other one, is not"):
        open_file(tmp_path / FIRST)
    later = [("Abs", PAST[0], "logits"), ("Identity", PAST[0], PRESENT[0])]
    write(tmp_path / LATER, {TOKENS: ids, PAST[0]: floats, PAST[1]: floats}, later)
    for name in (FIRST, LATER):
        file = open_file(tmp_path / name)
        assert file.inputs.keys() == {TOKENS, STATES, *PAST, "attention_mask"} and file.ignores_padding
        states, past = -torch.rand(1, 1, 2, 4) - 1, -torch.rand(1, 1, 3, 4) - 1
        feeds = {TOKENS: torch.ones(1, 1, dtype=torch.int64), STATES: states, PAST[1]: past[:, :, :1]}
        feeds["attention_mask"] = torch.ones(1, 4, dtype=torch.int64)
        found = file.run({**feeds, PAST[0]: past[:, :, :0]})
        assert torch.equal(found["logits"], -states) and torch.equal(found[PRESENT[1]], states)
        found = file.run({**feeds, PAST[0]: past})
        assert torch.equal(found["logits"], -past) and torch.equal(found[PRESENT[1]], past[:, :, :1])
        assert {file.dtype(item) for item in file.inputs} == {torch.int64, torch.float32}


def test_a_switch_is_set(tmp_path: Path) -> None:
    inputs = {
        "use_cache_branch": onnx.TensorProto.BOOL,
        TOKENS: onnx.TensorProto.INT64,
        PAST[0]: onnx.TensorProto.FLOAT,
    }
    write(tmp_path / "merged.onnx", inputs, [("Cast", "use_cache_branch", "logits")])
    file = open_file(tmp_path / "merged.onnx")
    assert "use_cache_branch" not in file.inputs
    for length in (0, 3):
        feeds = {TOKENS: torch.ones(1, 1, dtype=torch.int64), PAST[0]: torch.ones(1, 1, length, 4)}
        assert file.run(feeds)["logits"].tolist() == [float(length > 0)]


def test_a_folder_of_optimum_is_right(tmp_path: Path, run: Any) -> None:
    exporters = pytest.importorskip("optimum.exporters.onnx", reason="optimum-onnx 0.1.0 needs transformers below 4.58")
    model = make_encoder_decoder("T5")
    model.save_pretrained(tmp_path / "t5")
    options = {"task": "text2text-generation-with-past", "do_validation": False}
    exporters.onnx_export_from_model(model, tmp_path / "out", **options)
    status, text, messages = run("verify", tmp_path / "out", "--model", tmp_path / "t5", "--quiet")
    assert (status, text.count("ok: 98 calls")) == (0, 2), messages
    assert f"{tmp_path / 'out' / 'encoder_model.onnx'}\n" in text and LATER not in text

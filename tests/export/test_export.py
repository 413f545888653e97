"""`export` in one call: the file, what it says of itself, what stands beside it, and what happens when it fails."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the cases are models of transformers")
onnx = pytest.importorskip("onnx", reason="the file is read")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import ExportCompatError, Exported, Registry, apply_patches, export
from exportcompat._exporter import _onnx_program
from exportcompat._exporter._opset import default_opset
from exportcompat._observer import observe
from exportcompat._verification._onnx_file import OnnxFile
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.checks._restoration import Snapshot

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
TOKENS = torch.randint(3, 99, (1, 7), generator=torch.Generator().manual_seed(1))
INPUTS = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}


def axes(value: Any) -> list[str | int]:
    return [item.dim_param or item.dim_value for item in value.type.tensor_type.shape.dim]


def interface(path: Path) -> dict[str, list[str | int]]:
    graph = onnx.load(str(path), load_external_data=False).graph
    return {value.name: axes(value) for value in (*graph.input, *graph.output)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, list[str], list[str]]:
    decoder, state = find_case("llama").decoder(), Snapshot()
    lines: list[str] = []
    state.note_model(decoder)
    result = export(decoder.model, INPUTS, tmp_path_factory.mktemp("made") / "llama", progress=lines.append)
    return result, lines, state.changes(decoder)


def test_the_file_is_right_and_the_model_as_it_was(made: tuple[Exported, list[str], list[str]]) -> None:
    result, lines, changes = made
    assert changes == []
    assert result.discrepancies is not None
    assert (result.discrepancies.success, len(result.discrepancies)) == (True, 191)
    assert "dynamic-cache-pytree" in result.report.used
    path, report, discrepancies = result
    assert (path, report, discrepancies) == (result.path, result.report, result.discrepancies)
    stages = ["observe", "export", "write", "verify"]
    assert [line.split(":")[0] for line in lines[1::2]] == stages and [line.split()[0] for line in lines[::2]] == stages
    assert "ok: 191 calls" in str(result)


def test_names_and_axes_are_those_of_a_decoder(made: tuple[Exported, list[str], list[str]]) -> None:
    past, present = ["batch", 2, "past_sequence", 8], ["batch", 2, "total_sequence", 8]
    leaves = [f"{layer}.{leaf}" for layer in range(2) for leaf in ("key", "value")]
    assert interface(made[0].path) == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "total_sequence"],
        "position_ids": ["batch", "sequence"],
        **{f"past_key_values.{leaf}": past for leaf in leaves},
        "logits": ["batch", "sequence", 128],
        **{f"present.{leaf}": present for leaf in leaves},
    }


def test_the_file_says_how_it_was_made(made: tuple[Exported, list[str], list[str]]) -> None:
    result = made[0]
    facts = {item.key: item.value for item in onnx.load(str(result.path)).metadata_props}
    assert facts["exportcompat.specs"].split(",") == result.report.used
    assert json.loads(facts["exportcompat.report"])["used"] == result.report.used
    assert json.loads(facts["exportcompat.versions"])["torch"].startswith("2.")
    assert facts["exportcompat.model_class"] == "LlamaForCausalLM"


def test_operators_are_of_the_newest_opset_that_runs(made: tuple[Exported, list[str], list[str]]) -> None:
    model = onnx.load(str(made[0].path))
    wanted = default_opset()
    if wanted is None:
        pytest.skip("the installed packages do not take the preferred opset")
    assert model.opset_import[0].version == wanted
    attention = [node for node in model.graph.node if node.op_type == "Attention"]
    # Keys that are as many as the cache has, and not copies for each head of the queries, are put behind it there.
    past = [f"past_key_values.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    assert [name for node in attention for name in node.input[4:]] == past
    assert [name for node in attention for name in node.output[1:]] == [
        name.replace("past_key_values", "present") for name in past
    ]
    assert "Transpose" not in {node.op_type for node in model.graph.node}


def test_what_clients_read_stands_beside_it(made: tuple[Exported, list[str], list[str]]) -> None:
    folder = made[0].path.parent
    assert {file.name for file in folder.iterdir()} == {
        "model.onnx", "config.json", "generation_config.json", "genai_config.json",
    }  # fmt: skip
    decoder = json.loads((folder / "genai_config.json").read_text("utf-8"))["model"]["decoder"]
    assert (decoder["head_size"], decoder["num_key_value_heads"], decoder["num_hidden_layers"]) == (8, 2, 2)


def test_a_second_export_gives_the_same_graph(tmp_path: Path) -> None:
    model = find_case("mistral_window").decoder().model
    paths = [export(model, INPUTS, tmp_path / name, verify=False).path for name in ("a.onnx", "b.onnx")]
    assert graph_text(paths[0]) == graph_text(paths[1])
    assert {file.name for file in tmp_path.iterdir()} == {"a.onnx", "b.onnx"}


def graph_text(path: Path) -> bytes:
    """Return the nodes, values, inputs and outputs of a file, with their names and without debugging notes."""
    model = onnx.load(str(path))
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            del part.metadata_props[:]
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    text: bytes = model.SerializeToString(deterministic=True)
    return text


def test_weights_of_some_size_are_external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, weights = find_case("llama").decoder().model, 4 * 10**4
    assert weights < sum(item.nbytes for item in model.parameters()) < _onnx_program.IN_FILE
    for limit, files in ((_onnx_program.IN_FILE, ["m.onnx"]), (weights, ["m.onnx", "m.onnx.data"])):
        monkeypatch.setattr(_onnx_program, "IN_FILE", limit)
        folder = tmp_path / str(limit)
        export(model, INPUTS, folder / "m.onnx", verify=False)
        assert sorted(item.name for item in folder.iterdir()) == files


def test_external_data_and_opset(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    result = export(find_case("llama").decoder().model, INPUTS, path, external_data=True, opset=21)
    assert result.discrepancies is not None and result.discrepancies.success
    assert onnx.load(str(path), load_external_data=False).opset_import[0].version == 21
    data = path.with_name("model.onnx.data")
    assert data.stat().st_size > path.stat().st_size / 4
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ExportCompatError, match=r"model\.onnx is no ONNX model that ONNX Runtime can load"):
        OnnxFile(path)


def test_half_precision_exports_a_copy(tmp_path: Path) -> None:
    model = find_case("llama").decoder().model
    result = export(model, INPUTS, tmp_path, dtype="float16")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    graph = onnx.load(str(result.path)).graph
    assert {value.type.tensor_type.elem_type for value in graph.output} == {onnx.TensorProto.FLOAT16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_experts_that_change_places_in_float16_are_no_fault_of_the_file(tmp_path: Path) -> None:
    """With weights as large as this, eager and ONNX Runtime choose other experts in float16 now and then."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        **SMALL | {"intermediate_size": 64}, num_key_value_heads=2, num_local_experts=4, initializer_range=0.3
    )
    result = export(transformers.MixtralForCausalLM(config).eval().half(), INPUTS, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    assert "run in float16 too" in str(result.discrepancies)


def test_bfloat16_is_compared_as_a_copy_in_float32(tmp_path: Path) -> None:
    """ONNX Runtime has few such kernels on the CPU."""
    model = find_case("llama").decoder().model
    result = export(model, INPUTS, tmp_path, dtype="bfloat16")
    assert onnx.load(str(result.path)).graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    assert result.discrepancies is not None and result.discrepancies.success
    assert "compared as a copy in float32" in str(result.discrepancies)
    # One weight of the file is changed: the copy has what the file has.
    proto = onnx.load(str(result.path))
    weight = max(proto.graph.initializer, key=lambda item: len(item.raw_data))
    weight.raw_data = bytes(len(weight.raw_data))
    onnx.save(proto, str(result.path))
    with apply_patches():
        observer = observe(copy.deepcopy(model).to(torch.bfloat16), INPUTS)
    assert not observer.check_discrepancies(result.path).success


@pytest.mark.parametrize(("dtype", "factor"), [("float16", 1.006), ("bfloat16", 1.04)])
def test_a_file_in_half_precision_is_not_excused_what_that_type_rounds_off(
    tmp_path: Path, dtype: str, factor: float
) -> None:
    """Every logit is too large by less than what the type itself may be off after some layers."""
    model = find_case("llama").decoder().model.to(getattr(torch, dtype))
    result = export(model, INPUTS, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success
    assert max(row.absolute for row in result.discrepancies) < 1e-3
    with torch.no_grad():
        model.lm_head.weight.mul_(factor)
    with apply_patches():
        observer = observe(model, INPUTS)
    assert not any(row.success for row in observer.check_discrepancies(result.path))


Module: Any = torch.nn.Module


class Insisting(Module):  # type: ignore[misc,unused-ignore]
    """A model that runs in bfloat16 alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)

    def forward(self, x: Any) -> Any:
        return self.layer(x.to(torch.bfloat16))


def test_a_model_that_runs_in_bfloat16_alone_is_compared_in_it(tmp_path: Path) -> None:
    calls = [{"x": torch.randn(3, 4)}, {"x": torch.randn(5, 4)}]
    result = export(Insisting().eval(), calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    assert "compared with the model, which does not run in float32" in str(result.discrepancies)


def test_an_encoder_has_a_dynamic_length_although_there_is_one_text(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)).eval()
    result = export(model, INPUTS, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success
    assert interface(result.path) == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "sequence"],
        "logits": ["batch", 2],
    }


def test_a_sound_has_a_dynamic_length_although_there_is_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = {"conv_dim": (8, 8), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_conv_pos_embeddings": 16}
    config = transformers.Wav2Vec2Config(**SMALL, **layers, num_conv_pos_embedding_groups=4, pad_token_id=0)
    result = export(transformers.Wav2Vec2ForCTC(config).eval(), {"input_values": torch.randn(2, 400)}, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success
    assert interface(result.path)["input_values"] == ["batch", "input_values_1"]
    assert {row.inputs["input_values"] for row in result.discrepancies} == {
        (2, 400),
        (2, 800),
        (1, 400),
        (3, 400),
        (2, 797),
    }


def test_a_classifier_without_padding_takes_one_row(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {**SMALL, "num_key_value_heads": 2, "pad_token_id": None}
    model = transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**sizes)).eval()
    with pytest.warns(UserWarning, match="the file takes one row: LlamaForSequenceClassification refuses more"):
        result = export(model, {"input_ids": torch.arange(3, 10)[None]}, tmp_path)
    assert result.discrepancies is not None and result.discrepancies.success
    assert interface(result.path)["input_ids"] == [1, "sequence"]


def test_a_length_that_the_model_does_not_take_twice_is_named(tmp_path: Path) -> None:
    config = transformers.BertConfig(**{**SMALL, "max_position_embeddings": 8})
    with pytest.warns(UserWarning, match="the length of input_ids, attention_mask is fixed in the graph"):
        result = export(transformers.BertModel(config).eval(), INPUTS, tmp_path)
    assert interface(result.path)["input_ids"] == ["batch", 7]


def test_without_a_cache(tmp_path: Path) -> None:
    """A constant among the arguments (`use_cache=False`) takes no name from an axis."""
    model = find_case("llama").decoder().model
    result = export(model, {**INPUTS, "use_cache": False}, tmp_path, generate=False)
    assert result.discrepancies is not None and result.discrepancies.success
    assert interface(result.path) == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "sequence"],
        "logits": ["batch", "sequence", 128],
    }


class Unexportable(Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


def test_a_failing_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("old")
    with pytest.raises(Exception, match="(?i)data-dependent"):
        export(Unexportable(), {"x": torch.ones(2, 3)}, path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(self: Any, destination: str, **settings: Any) -> None:
        Path(destination).write_text("half")
        raise OSError("disk is full")

    path = tmp_path / "model.onnx"
    path.write_text("old")
    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", save)
    with pytest.raises(OSError, match="disk is full"):
        export(torch.nn.Linear(3, 2).eval(), {"input": torch.ones(2, 3)}, path, verify=False)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float8"}, "dtype 'float8' is not known; write one of float32, float16, bfloat16"),
        ({"generate": True}, "Linear cannot generate; pass generate=False"),
        ({"patches": {"include": ["no-such-id"]}}, "no-such-id"),
        ({"registry": Registry(), "patches": {"include": ["no-such-id"]}}, "known ids: none"),
        ({"registry": Registry(), "patches": {"registry": Registry()}}, "two registries are given"),
    ],
    ids=["dtype", "generate", "include", "registry", "registries"],
)
def test_bad_settings(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match=message):
        export(torch.nn.Linear(3, 2).eval(), {"input": torch.ones(2, 3)}, tmp_path, **settings)


def test_no_inputs(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="there are no inputs"):
        export(torch.nn.Linear(3, 2), [], tmp_path)


@pytest.mark.parametrize(
    ("inputs", "found"),
    [(torch.ones(2, 3), "a Tensor"), ([torch.ones(2, 3)], "a Tensor"), ("text", "a str"), (None, "a NoneType")],
    ids=["tensor", "tensors", "text", "none"],
)
def test_inputs_without_names(inputs: Any, found: str, tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match=f"the inputs are, or hold, {found}; give keyword arguments"):
        export(torch.nn.Linear(3, 2), inputs, tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportCompatError, match="cannot write to"):
        export(
            torch.nn.Linear(3, 2).eval(), {"input": torch.ones(2, 3)}, tmp_path / "file" / "model.onnx", verify=False
        )

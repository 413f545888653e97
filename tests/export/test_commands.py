"""`exportcompat export` and `exportcompat verify`, on models in folders."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
onnx = pytest.importorskip("onnx", reason="the file is read")
numpy = pytest.importorskip("numpy", reason="inputs are arrays")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import _cli
from exportcompat._cli import _export
from exportcompat._exporter import Exported
from exportcompat.matrix.cases._catalogue import find_case

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and a tokenizer of words."""
    tokenizers = pytest.importorskip("tokenizers", reason="transformers brings it")
    folder = tmp_path_factory.mktemp("llama")
    find_case("llama").decoder().model.save_pretrained(folder)
    words = {word: index for index, word in enumerate(["[UNK]", "the", "cat", "sat", "on", "mat"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def made(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    out = tmp_path_factory.mktemp("out") / "llama"
    return out, _cli.main(["export", str(llama), str(out), "--prompt", "the cat sat on the mat"])


def test_an_encoder_decoder_is_two_files(tmp_path: Path, run: Run) -> None:
    from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder

    make_encoder_decoder("T5").save_pretrained(tmp_path / "t5")
    status, text, _ = run("export", tmp_path / "t5", tmp_path / "out")
    assert (status, "ok: 198 calls" in text) == (0, True)
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx"):
        assert run("verify", tmp_path / "out" / name)[0] == 0


def test_export_and_verify(made: tuple[Path, int], run: Run) -> None:
    out, status = made
    assert status == 0
    names = {file.name for file in out.iterdir()}
    assert {"model.onnx", "config.json", "genai_config.json", "tokenizer.json"} <= names
    status, text, messages = run("verify", out / "model.onnx")
    assert (status, "ok: 191 calls" in text) == (0, True)
    assert [line for line in messages.splitlines() if line.endswith("...")] == ["load ...", "observe ...", "verify ..."]


def test_verify_as_json(made: tuple[Path, int], run: Run) -> None:
    status, text, _ = run("verify", made[0] / "model.onnx", "--json")
    data = json.loads(text)
    assert (status, data["success"], len(data["calls"])) == (0, True, 191)
    assert data.keys() == {"path", "success", "calls"}
    assert data["calls"][0]["inputs"]["input_ids"] == [2, 8]


@pytest.mark.parametrize(
    ("used", "first"),
    [
        ([], "model.onnx, with no patch"),
        (["a"], "with 1 spec (--json"),
        (["a", "b"], "with 2 specs (--json names them)"),
    ],
)
def test_the_first_line_says_how_many_specs(used: list[str], first: str, tmp_path: Path) -> None:
    made = Exported(tmp_path / "model.onnx", SimpleNamespace(used=used, assumptions=[]), None)  # type: ignore[arg-type]
    lines = list(_export._report(made, [".hidden"], [f"{index}.json" for index in range(22)]))
    assert first in lines[0]
    assert str(made).splitlines()[0] == lines[0].removesuffix(" (--json names them)")
    assert lines[-2] == "not copied, as they are weights or hidden: .hidden"
    assert lines[-1].startswith("left from before: 0.json, ")
    assert lines[-1].endswith(", 19.json and 2 more (--json names them)")


def test_verify_a_folder_as_json(made: tuple[Path, int], run: Run) -> None:
    status, text, _ = run("verify", made[0], "--json")
    data = json.loads(text)
    assert (status, data.keys(), data["success"]) == (0, {"success", "files"}, True)
    (document,) = data["files"]
    assert document["path"] == str(made[0] / "model.onnx") and document.keys() == {"path", "success", "calls"}


def test_verify_compares_the_other_files_of_a_folder_where_one_cannot_be(
    made: tuple[Path, int], run: Run, tmp_path: Path
) -> None:
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "a.onnx").write_bytes(b"no model")
    status, text, _ = run("verify", tmp_path)
    assert status == 1
    assert "ok: 191 calls" in text and "a.onnx is no ONNX model that ONNX Runtime can load" in text


@pytest.fixture(scope="module")
def deaf(made: tuple[Path, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that takes a mask and does not look at it; its cache has a name for the size of a head."""
    ir = pytest.importorskip("onnx_ir", reason="onnxscript brings it")
    model = ir.load(made[0] / "model.onnx")
    mask = next(value for value in model.graph.inputs if value.name == "attention_mask")
    same = ir.node("Equal", [mask, mask])
    ones = ir.node("Cast", [same.outputs[0]], attributes={"to": ir.DataType.INT64})
    for user, index in [use for use in mask.uses() if use.node is not same]:
        user.replace_input_with(index, ones.outputs[0])
    for node in (ones, same):
        model.graph.insert_before(model.graph[0], node)
    for value in model.graph.inputs:
        if value.name.startswith("past_key_values"):
            value.shape = ir.Shape([*value.shape[:-1], "head"])
    path = tmp_path_factory.mktemp("deaf") / "model.onnx"
    ir.save(model, path)
    return path


@pytest.mark.parametrize(("options", "status"), [((), 1), (("--no-padding",), 0), (("--batch", "1", "--no-chunks"), 1)])
def test_verify_within_a_contract(options: tuple[str, ...], status: int, deaf: Path, llama: Path, run: Run) -> None:
    found, text, _ = run("verify", deaf, "--model", llama, "--json", *options)
    calls = json.loads(text)["calls"]
    wrong = [call for call in calls if not call["success"]]
    assert found == status
    assert all("padding 2" in call["group"] and not call["error"] for call in wrong) and bool(wrong) == bool(status)
    if "--batch" in options:
        assert {call["inputs"]["input_ids"][0] for call in calls} == {1}
        assert not [call for call in calls if call["past"] and call["new"] > 1]


def test_a_contract_is_one_of_a_decoder(run: Run, tmp_path: Path, llama: Path) -> None:
    arguments = ["--task", "text-generation", "--no-verify"]
    assert run("export", llama, tmp_path / "out", *arguments)[0] == 0
    status, _, messages = run("verify", tmp_path / "out" / "model.onnx", "--no-padding")
    assert (status, "which is no decoder with a cache" in messages) == (2, True)


def test_verify_with_too_few_arrays(run: Run, tmp_path: Path, llama: Path) -> None:
    whole, part = tmp_path / "whole.npz", tmp_path / "part.npz"
    ids = numpy.full((2, 5), 7)
    numpy.savez(whole, input_ids=ids, attention_mask=numpy.ones_like(ids))
    numpy.savez(part, input_ids=ids)
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine", "utf-8")
    status, text, _ = run(
        "export", llama, out, "--inputs", whole, "--task", "text-generation", "--no-verify", "--overwrite"
    )
    assert (status, text.splitlines()[-1]) == (0, "left from before: mine.txt")
    status, _, messages = run("verify", out / "model.onnx", "--inputs", part)
    assert status == 2
    wanted = f"takes 'attention_mask', and the model was run with 'input_ids' alone; add 'attention_mask' to {part}"
    assert wanted in messages


def test_verify_against_another_model(made: tuple[Path, int], run: Run, tmp_path: Path) -> None:
    other = find_case("llama").decoder().model
    other.lm_head.weight.data += 0.5
    other.save_pretrained(tmp_path)
    status, text, messages = run("verify", made[0] / "model.onnx", "--model", tmp_path)
    assert status == 1
    assert "FAILED in 191 of 191 calls" in text and "model.onnx is not right: FAILED" in messages


def test_stages_are_told_as_they_begin(llama: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "genai").mkdir()
    (tmp_path / "genai" / "old.json").write_text("{}", "utf-8")
    status, text, messages = run("export", llama, tmp_path, "--no-verify", "--json", "--overwrite")
    assert status == 0
    # The keys are promised in docs/stability.md; calls have the fields of `Discrepancy`.
    assert json.loads(text).keys() == {"path", "success", "specs", "files", "left", "calls"}
    assert json.loads(text)["success"] is None
    assert json.loads(text)["left"] == ["genai/old.json"]
    begun = [line.split()[0] for line in messages.splitlines() if line.endswith(" ...")]
    assert begun == ["load", "observe", "export", "write"]


def test_tasks_and_types(llama: Path, run: Run, tmp_path: Path) -> None:
    status, _, messages = run(
        "export", llama, tmp_path, "--task", "text-generation", "--dtype", "float16", "--opset", 21
    )
    assert status == 0, messages
    model = onnx.load(str(tmp_path / "model.onnx"))
    assert [item.name for item in model.graph.input] == ["input_ids", "attention_mask"]
    assert model.opset_import[0].version == 21
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert run("verify", tmp_path / "model.onnx")[0] == 0


def test_images(run: Run, tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=30, patch_size=10
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    status, text, _ = run("export", tmp_path / "vit", tmp_path / "out")
    assert (status, "ok: 3 calls" in text) == (0, True)


def test_a_model_that_does_not_export(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llama: Path) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("a branch on data")

    monkeypatch.setattr(torch.onnx, "export", fail)
    status, _, messages = run("export", llama, tmp_path)
    assert (status, "does not export: RuntimeError: a branch on data (--traceback" in messages) == (1, True)
    with pytest.raises(RuntimeError, match="a branch on data"):
        run("export", llama, tmp_path, "--traceback")


def test_a_folder_without_a_model(run: Run, tmp_path: Path) -> None:
    status, _, messages = run("export", tmp_path / "nothing", tmp_path / "out")
    assert status == 2
    assert "cannot load" in messages and "no such folder here" in messages
    assert not (tmp_path / "out").exists()


def test_a_broken_configuration(run: Run, tmp_path: Path, llama: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(llama, broken)
    (broken / "config.json").write_text('{"model_type": "llama", ')
    status, _, messages = run("export", broken, tmp_path / "out")
    assert status == 2 and "cannot load" in messages


def test_truncated_weights(run: Run, tmp_path: Path, llama: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(llama, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    status, _, messages = run("export", broken, tmp_path / "out")
    assert status == 2 and "cannot load" in messages


def test_an_unknown_architecture(run: Run, tmp_path: Path, llama: Path) -> None:
    strange = tmp_path / "strange"
    shutil.copytree(llama, strange)
    config = json.loads((strange / "config.json").read_text("utf-8"))
    (strange / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForSomething"]}))
    status, _, messages = run("export", strange, tmp_path / "out")
    assert status == 2 and "give --task, one of text2text-generation-with-past, " in messages


def test_a_prompt_without_a_tokenizer(run: Run, tmp_path: Path) -> None:
    find_case("llama").decoder().model.save_pretrained(tmp_path / "plain")
    status, _, messages = run("export", tmp_path / "plain", tmp_path / "out", "--prompt", "the cat")
    assert status == 2 and "has no tokenizer for --prompt" in messages


def test_a_file_in_place_of_a_folder(run: Run, tmp_path: Path, llama: Path) -> None:
    status, _, messages = run("export", llama, tmp_path / "model.onnx")
    assert status == 2 and "is no folder" in messages


def test_files_that_cannot_be_verified(run: Run, tmp_path: Path, made: tuple[Path, int]) -> None:
    half = tmp_path / "half.onnx"
    half.write_bytes((made[0] / "model.onnx").read_bytes()[:3000])
    for path in (half, tmp_path / "none.onnx"):
        status, _, messages = run("verify", path)
        said = "is no ONNX model that ONNX Runtime can load" if path.exists() else "there is no such file"
        assert status == 2 and str(path) in messages and said in messages
    proto = onnx.load(str(made[0] / "model.onnx"))
    del proto.metadata_props[:]
    onnx.save(proto, str(tmp_path / "other.onnx"))
    status, _, messages = run("verify", tmp_path / "other.onnx")
    assert status == 2 and "does not say which model it was made of; give --model FOLDER" in messages
